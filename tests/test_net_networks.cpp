// Networks by name: as many weights as their papers count, files of weights read whole or refused, and runs.
#include <dlprim/net_host.hpp>
#include <dlprim/net_model.hpp>
#include <dlprim/net_networks.hpp>

#include <map>
#include <set>

#include "catch.hpp"
#include "child.hpp"
#include "support.hpp"

using namespace dlprim;
using namespace dlprim::test;

namespace {

bool is_statistic(const std::string& name) {
  return name.find(".running_") != std::string::npos;
}

/// Elements of its weights, without BatchNorm's statistics.
int64_t parameters_of(const NetGraph& graph) {
  int64_t count = 0;
  for (const auto& [value, constant] : graph.constants)
    if (!constant->name.empty() && !is_statistic(constant->name)) count += element_count(constant->shape);
  return count;
}

std::vector<HostTensor> weights_of(const NetGraph& graph) {
  std::vector<HostTensor> weights;
  for (const auto& [value, constant] : graph.constants)
    if (!constant->name.empty()) weights.push_back(*constant);
  return weights;
}

std::string complaint(const std::string& name, const networks::Config& config) {
  try {
    networks::make(name, config);
  } catch (const ValidationError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("networks have as many weights as torchvision's and transformers' tables say") {
  const std::map<std::string, int64_t> expected = {
      {"alexnet", 61100840},           {"densenet121", 7978856},      {"efficientnet_b0", 5288548},
      {"efficientnet_b4", 19341616},   {"googlenet", 6624904},        {"gpt2", 124439808},
      {"inception_v3", 23834568},      {"mnasnet1_0", 4383312},       {"mobilenet_v2", 3504872},
      {"mobilenet_v3_large", 5483032}, {"regnet_y_400mf", 4344144},   {"resnet18", 11689512},
      {"resnet50", 25557032},          {"resnext50_32x4d", 25028904}, {"shufflenet_v2_x1_0", 2278604},
      {"squeezenet1_0", 1248424},      {"vgg16", 138357544},          {"vit_b_16", 86567656},
      {"wide_resnet50_2", 68883240}};
  std::set<std::string> names;
  for (const networks::Network& network : networks::list()) {
    INFO(network.name);
    REQUIRE(expected.count(network.name) == 1);
    const NetGraph graph = networks::make(network.name);
    graph.check();
    CHECK(parameters_of(graph) == expected.at(network.name));
    CHECK(!network.paper.empty());
    names.insert(network.name);
  }
  CHECK(names.size() == expected.size());
}

TEST_CASE("networks run at other sizes and with other classes, the same each time") {
  const auto scores = [&](const char* name, int64_t side, uint64_t seed) {
    networks::Config config;
    config.classes = 5;
    config.seed = seed;
    const Model model(networks::make(name, config));
    Rng rng(4);
    const Tensor x = device_tensor({2, 3, side, side}, reals(2 * 3 * side * side, rng));
    std::vector<float> first;
    for (int run = 0; run < 3; run++) {
      const Tensor y = model.run(stream(), {{"input", x}}).at("output");
      CHECK(y.shape() == Shape{2, 5});
      const std::vector<float> values = host_values(y);
      for (float v : values) CHECK(std::isfinite(v));
      if (run == 0) first = values;
      for (size_t i = 0; i < values.size(); i++)
        CHECK(std::fabs(values[i] - first[i]) <= 1e-4F * (1 + std::fabs(first[i])));
    }
    return first;
  };
  const std::vector<float> a = scores("squeezenet1_0", 64, 1), again = scores("squeezenet1_0", 64, 1);
  CHECK(a == again);
  CHECK(a != scores("squeezenet1_0", 64, 2));
}

TEST_CASE("networks drop where torchvision's do, in training alone") {
  // How many elementwise ones, with which ratio, and how many blocks of the others.
  struct Dropped {
    int count = 0;
    double ratio = 0;
    int blocks = 0;
  };
  const std::map<std::string, Dropped> expected = {{"alexnet", {2, 0.5}},
                                                   {"vgg16", {2, 0.5}},
                                                   {"squeezenet1_0", {1, 0.5}},
                                                   {"googlenet", {1, 0.2}},
                                                   {"inception_v3", {1, 0.5}},
                                                   {"mobilenet_v2", {1, 0.2}},
                                                   {"mnasnet1_0", {1, 0.2}},
                                                   {"mobilenet_v3_large", {1, 0.2}},
                                                   {"efficientnet_b0", {1, 0.2, 9}},
                                                   {"efficientnet_b4", {1, 0.4, 25}}};
  for (const networks::Network& network : networks::list()) {
    INFO(network.name);
    const NetGraph graph = networks::make(network.name);
    Dropped dropped;
    double last = 0;
    for (const NetGraph::Node& node : graph.nodes) {
      if (node.kind != "dropout") continue;
      const double ratio = numbers_of(*graph.constants.at(node.inputs[1]))[0];
      CHECK(node.inputs.size() == 2);  // nothing says that it trains
      if (node.attributes.count("samples")) {
        CHECK((ratio > last && ratio < 0.2));
        dropped.blocks++, last = ratio;
      } else {
        dropped.count++, dropped.ratio = ratio;
      }
    }
    const auto found = expected.find(network.name);
    const Dropped right = found == expected.end() ? Dropped() : found->second;
    CHECK(dropped.count == right.count);
    CHECK(dropped.ratio == Approx(right.ratio));
    CHECK(dropped.blocks == right.blocks);
  }
}

TEST_CASE("weights of a file are those of the network, whatever floating dtype they have") {
  const NetGraph graph = networks::make("squeezenet1_0");
  std::vector<HostTensor> weights = weights_of(graph);
  for (HostTensor& w : weights)
    if (w.name == "features.3.squeeze.bias")
      w = host_tensor(DType::bf16, w.shape, std::vector<double>(16, 1.5)), w.name = "features.3.squeeze.bias";
  const TempDir folder;
  const std::string file = folder / "weights.safetensors";
  save_safetensors(file, weights);
  networks::Config config;
  config.weights = file;
  config.seed = 9;
  size_t same = 0;
  for (const HostTensor& read : weights_of(networks::make("squeezenet1_0", config)))
    for (const HostTensor& written : weights)
      if (written.name == read.name) {
        CHECK(read.dtype == DType::f32);
        CHECK(numbers_of(read) == numbers_of(written));
        same++;
      }
  CHECK(same == weights.size());
}

TEST_CASE("weights that do not fit are refused by name") {
  CHECK_THAT(complaint("resnet51", {}),
             Catch::Contains("no network 'resnet51'") && Catch::Contains("resnet50"));
  networks::Config none;
  none.classes = 0;
  CHECK_THAT(complaint("squeezenet1_0", none), Catch::Contains("classes"));
  const std::vector<HostTensor> right = weights_of(networks::make("squeezenet1_0"));
  const auto refused = [&](std::vector<HostTensor> weights) {
    const TempDir folder;
    const std::string file = folder / "weights.safetensors";
    save_safetensors(file, weights);
    networks::Config config;
    config.weights = file;
    return complaint("squeezenet1_0", config);
  };
  CHECK(refused(right).empty());
  std::vector<HostTensor> weights(right.begin() + 1, right.end());
  CHECK_THAT(refused(weights), Catch::Contains("has no tensor '" + right[0].name + "'"));
  weights = right;
  weights.push_back(host_tensor(DType::f32, {2}, std::vector<double>{1, 2}));
  weights.back().name = "fc.weight";
  CHECK_THAT(refused(weights), Catch::Contains("'fc.weight'") && Catch::Contains("squeezenet1_0 has not"));
  weights = right;
  weights[0].shape = Shape{element_count(right[0].shape)};
  CHECK_THAT(refused(weights), Catch::Contains("'" + right[0].name + "' is"));
  weights = right;
  weights.back() =
      host_tensor(DType::i32, right.back().shape,
                  std::vector<int64_t>(static_cast<size_t>(element_count(right.back().shape)), 1));
  weights.back().name = right.back().name;
  CHECK_THAT(refused(weights), Catch::Contains("must be f32, f16 or bf16"));
}
