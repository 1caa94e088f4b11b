// Networks made at random: passes, replays, files and training change nothing but the last bits.
// DLPRIM_TEST_GRAPHS: how many. DLPRIM_TEST_SEED: the first one's seed, each other's is one more.
#include <cmath>
#include <functional>
#include <map>

#include <dlprim/net_host.hpp>
#include <dlprim/net_json.hpp>
#include <dlprim/net_model.hpp>
#include <dlprim/net_training.hpp>

#include "cases/graph.hpp"
#include "cases/random_graph.hpp"
#include "catch.hpp"
#include "child.hpp"
#include "support.hpp"

using namespace dlprim;
using namespace dlprim::test;

namespace {

using Values = std::map<std::string, std::vector<float>>;

Values read_all(const Model::Tensors& tensors) {
  Values values;
  for (const auto& [name, tensor] : tensors) values[name] = host_values(tensor);
  return values;
}

Model::Tensors feeds_of(const RandomGraph& made, uint64_t seed) {
  Rng rng(seed);
  Model::Tensors feeds;
  for (size_t i = 0; i < made.inputs.size(); i++)
    feeds["x" + std::to_string(i + 1)] =
        device_tensor(made.inputs[i], reals(element_count(made.inputs[i]), rng, -1, 1));
  return feeds;
}

/// The outputs of `a` that are not those of `b`, but for `bound` of the largest number.
std::string apart(const Values& a, const Values& b, double bound) {
  std::string text;
  if (a.size() != b.size()) text = "other outputs";
  for (const auto& [name, values] : b) {
    const auto other = a.find(name);
    const double d = other == a.end() ? INFINITY : deviation(other->second, values);
    if (!(d <= bound)) text += name + " by " + std::to_string(d) + " ";
  }
  return text;
}

/// Rounding, which normalisations and products in a row make larger.
constexpr double kBound = 1e-3;
/// The same of bf16, whose unit is 2^-8, and f16.
constexpr double kNarrowBound = 0.05;

/// The passes without each of which alone the result is right.
std::string guilty(const std::function<bool(const std::vector<std::string>& without)>& is_right) {
  std::string text;
  for (const std::string& pass : graph_passes())
    if (is_right({pass})) text += pass + " ";
  return text;
}

/// The graph with an output "loss": of each output's elements, between -1 and 1, the mean by random weights,
/// which are learned, too.
NetGraph with_loss(NetGraph graph, uint64_t seed) {
  Rng rng(seed);
  const auto apply = [&](const char* function, std::vector<int> inputs) {
    return graph.add("elementwise", std::move(inputs), {{"function", function}});
  };
  int loss = NetGraph::kNone;
  for (const int output : graph.outputs) {
    const int weights = add_parameter(
        graph, rng, "weights of " + graph.values[static_cast<size_t>(output)].name, {1, 2}, -1, 1);
    const int sum = graph.add("reduce", {apply("tanh", {output})}, {{"function", "mean"}, {"keep_dims", 0}});
    const int part =
        graph.add("reduce", {apply("mul", {sum, weights})}, {{"function", "sum"}, {"keep_dims", 0}});
    loss = loss == NetGraph::kNone ? part : apply("add", {loss, part});
  }
  graph.add_output("loss", loss);
  return graph;
}

Values read_all(const std::vector<Trainer::Parameter>& parameters) {
  Values values;
  for (const Trainer::Parameter& p : parameters) values[p.name] = host_values(p.value);
  return values;
}

/// What a trainer makes of a graph's parameters, and of the statistics of BatchNorm.
struct Learned {
  Values change, statistics, outputs;
};

Learned learned(const NetGraph& graph, const std::vector<Model::Tensors>& batches,
                const std::vector<std::string>& without, bool recompute, DType precision = DType::f32) {
  Trainer::Config config;
  config.optimizer.method = OptimizerMethod::sgd;
  config.rate.rate = 0.05;
  config.without = without;
  config.recompute = recompute;
  config.precision = precision;
  Trainer trainer(stream(), graph, config);
  const Values before = read_all(trainer.parameters());
  Learned result;
  for (const Model::Tensors& batch : batches) result.outputs = read_all(trainer.step(batch));
  for (const auto& [name, values] : read_all(trainer.parameters())) {
    std::vector<float>& all = result.change["all"];  // some gradients are nothing but rounding
    for (size_t i = 0; i < values.size(); i++) all.push_back(values[i] - before.at(name)[i]);
  }
  result.statistics = read_all(trainer.statistics());
  return result;
}

std::string apart(const Learned& a, const Learned& b, double bound) {
  return apart(a.change, b.change, bound) + apart(a.statistics, b.statistics, bound) +
         apart(a.outputs, b.outputs, bound);
}

}  // namespace

TEST_CASE("random networks: passes, replays and files change nothing but the last bits", "[random]") {
  const int64_t first = setting("DLPRIM_TEST_SEED", 1), count = setting("DLPRIM_TEST_GRAPHS", 5);
  for (int64_t seed = first; seed < first + count; seed++) {
    const RandomGraph made = random_graph(static_cast<uint64_t>(seed), false);
    INFO("DLPRIM_TEST_SEED=" << seed << " DLPRIM_TEST_GRAPHS=1\n" << text_of(made.graph));
    made.graph.check();
    const Model::Tensors feeds = feeds_of(made, 1), others = feeds_of(made, 2);
    const Model plain(made.graph, graph_passes()), model(made.graph);
    const Values expected = read_all(plain.run(stream(), feeds)),
                 second = read_all(plain.run(stream(), others));
    CHECK(apart(read_all(model.run(stream(), feeds)), expected, kBound) == "");
    const std::string rewritten = apart(read_all(model.run(stream(), feeds)), expected, kBound);
    if (!rewritten.empty())
      FAIL_CHECK(rewritten << "without one of these it is right: " << guilty([&](const auto& without) {
                   const Model other(made.graph, without);
                   other.run(stream(), feeds);
                   return apart(read_all(other.run(stream(), feeds)), expected, kBound).empty();
                 }));
    CHECK(apart(read_all(model.run(stream(), others)), second, kBound) == "");
    const Values replayed = read_all(model.run(stream(), feeds));
    CHECK(apart(replayed, expected, kBound) == "");
    CHECK(apart(read_all(model.run(stream(), feeds)), replayed, 0) == "");
    CHECK(apart(read_all(plain.run(stream(), others)), second, 0) == "");
    const Model narrow(made.graph, {}, seed % 2 ? DType::bf16 : DType::f16);
    narrow.run(stream(), feeds);
    CHECK(apart(read_all(narrow.run(stream(), feeds)), expected, kNarrowBound) == "");
    if (seed % 4 != 0) continue;
    const TempDir folder;
    save_json(folder / "model.json", made.graph);
    const Model loaded(load_json(folder / "model.json"), graph_passes());
    CHECK(apart(read_all(loaded.run(stream(), feeds)), expected, 0) == "");
  }
}

TEST_CASE("random networks: passes and recomputation change what is learned in the last bits alone",
          "[random]") {
  const int64_t first = setting("DLPRIM_TEST_SEED", 1), count = setting("DLPRIM_TEST_GRAPHS", 2);
  for (int64_t seed = first; seed < first + count; seed++) {
    const RandomGraph made = random_graph(static_cast<uint64_t>(seed), true);
    const NetGraph graph = with_loss(made.graph, static_cast<uint64_t>(seed));
    INFO("DLPRIM_TEST_SEED=" << seed << " DLPRIM_TEST_GRAPHS=1\n" << text_of(graph));
    const std::vector<Model::Tensors> batches{feeds_of(made, 1), feeds_of(made, 2), feeds_of(made, 1)};
    const Learned expected = learned(graph, batches, graph_passes(), false);
    const std::string rewritten = apart(learned(graph, batches, {}, false), expected, kBound);
    if (!rewritten.empty())
      FAIL_CHECK(rewritten << "without one of these it is right: " << guilty([&](const auto& without) {
                   return apart(learned(graph, batches, without, false), expected, kBound).empty();
                 }));
    CHECK(apart(learned(graph, batches, {}, true), expected, kBound) == "");
    const DType narrow = seed % 2 ? DType::bf16 : DType::f16;
    CHECK(apart(learned(graph, batches, {}, seed % 3 == 0, narrow), expected, 2 * kNarrowBound) == "");
  }
}
