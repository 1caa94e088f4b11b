// Trainer: what it does with gradients against the same by hand, and checkpoints from which training goes on
// with the same bits. BatchLoader.
#include <atomic>
#include <cmath>
#include <functional>
#include <map>
#include <set>

#include <dlprim/net_host.hpp>
#include <dlprim/net_loader.hpp>
#include <dlprim/net_training.hpp>

#include "cases/graph.hpp"
#include "catch.hpp"
#include "child.hpp"
#include "support.hpp"

using namespace dlprim;
using namespace dlprim::test;

namespace {

using Integers = Attribute::Integers;

/// x [batch, 2, 6, 6] -> conv, BatchNorm, relu, + conv, BatchNorm, relu; average; linear to 3 classes.
NetGraph small_network(bool with_dropout = false) {
  NetGraph g;
  Rng rng(5);
  const auto parameter = [&](const std::string& name, const Shape& shape, double low, double high) {
    return add_parameter(g, rng, name, shape, low, high);
  };
  const auto norm = [&](const std::string& name, int x) {
    return g.add(
        "batch_norm",
        {x, parameter(name + ".weight", {4}, 0.5, 1.5), parameter(name + ".bias", {4}, -0.1, 0.1),
         parameter(name + ".running_mean", {4}, 0, 0.1), parameter(name + ".running_var", {4}, 0.9, 1)});
  };
  const Attributes padded{{"pad_begin", Integers{1, 1}}};
  const int x = g.add_input("x", DType::f32, {{-1, "batch"}, {2}, {6}, {6}});
  int h = norm("bn1", g.add("conv", {x, parameter("conv1.weight", {4, 2, 3, 3}, -0.4, 0.4)}, padded));
  const int shortcut = g.add("pool", {g.add("elementwise", {h}, {{"function", "relu"}})},
                             {{"mode", "max"},
                              {"kernel", Integers{3, 3}},
                              {"stride", Integers{1, 1}},
                              {"pad_begin", Integers{1, 1}}});
  h = norm("bn2", g.add("conv", {shortcut, parameter("conv2.weight", {4, 4, 3, 3}, -0.3, 0.3)}, padded));
  h = g.add("elementwise", {g.add("elementwise", {h, shortcut}, {{"function", "add"}})},
            {{"function", "relu"}});
  h = g.add("flatten", {g.add("global_pool", {h}, {{"mode", "average"}})});
  if (with_dropout) h = g.add("dropout", {h});
  h = g.add("matmul", {h, parameter("fc.weight", {4, 3}, -1, 1), parameter("fc.bias", {3}, 0, 0.1)});
  g.add_output("logits", h);
  add_class_loss(g, "logits", "labels");
  return g;
}

Model::Tensors batch_of(uint64_t seed, int64_t count) {
  Rng rng(seed);
  std::vector<double> numbers;
  std::vector<int64_t> labels;
  for (int64_t i = 0; i < count * 2 * 36; i++) numbers.push_back(rng.real(-1, 1));
  for (int64_t i = 0; i < count; i++) labels.push_back(static_cast<int64_t>(rng.real(0, 2.999)));
  return {{"x", to_device(stream(), host_tensor(DType::f32, {count, 2, 6, 6}, numbers))},
          {"labels", to_device(stream(), whole({count}, labels))}};
}

Trainer::Config adam() {
  Trainer::Config config;
  config.optimizer.method = OptimizerMethod::adam;
  config.rate = LearningRate::cosine(0.02, 2, 12);
  return config;
}

/// All bits of a trainer's parameters and statistics, by name.
std::map<std::string, std::vector<unsigned char>> bits(const Trainer& trainer) {
  std::map<std::string, std::vector<unsigned char>> all;
  for (const auto* list : {&trainer.parameters(), &trainer.statistics()})
    for (const Trainer::Parameter& p : *list) all[p.name] = to_host(stream(), p.value).data;
  return all;
}

double loss_of(Trainer& trainer, const Model::Tensors& feeds) {
  return numbers_of(to_host(stream(), trainer.step(feeds).at("loss"))).at(0);
}

std::vector<double> values(const Trainer& trainer, const std::string& name) {
  for (const auto* list : {&trainer.parameters(), &trainer.statistics()})
    for (const Trainer::Parameter& p : *list)
      if (p.name == name) return numbers_of(to_host(stream(), p.value));
  FAIL(name);
  return {};
}

double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  REQUIRE(a.size() == b.size());
  double worst = 0;
  for (size_t i = 0; i < a.size(); i++) worst = std::max(worst, std::abs(a[i] - b[i]));
  return worst;
}

}  // namespace

TEST_CASE("a trainer learns a batch by heart", "[net_trainer]") {
  Trainer trainer(stream(), small_network(), adam());
  CHECK(trainer.parameters().size() == 8);
  CHECK(trainer.statistics().size() == 4);
  const Model::Tensors feeds = batch_of(1, 6);
  const double first = loss_of(trainer, feeds);
  double last = first;
  for (int i = 0; i < 40; i++) last = loss_of(trainer, feeds);
  CHECK(last < 0.8 * first);
  CHECK(trainer.updates() == 41);
  // predict() and the graph with these parameters give the same.
  const HostTensor again = to_host(stream(), Model(trainer.graph()).run(stream(), feeds).at("logits"));
  const Model::Tensors only_x{{"x", feeds.at("x")}};
  for (int i = 0; i < 3; i++)
    for (const bool labels : {false, true}) {
      const Model::Tensors predicted = trainer.predict(labels ? feeds : only_x);
      CHECK(predicted.count("loss") == (labels ? 1 : 0));  // which needs labels
      CHECK(largest_difference(numbers_of(to_host(stream(), predicted.at("logits"))), numbers_of(again)) <
            1e-5);
    }
  const Model::Tensors no_x{{"labels", feeds.at("labels")}},
      unknown{{"x", feeds.at("x")}, {"z", feeds.at("x")}};
  CHECK(refusal([&] { trainer.predict(no_x); }) == "feeds: input 'x' is missing");
  CHECK(refusal([&] { trainer.predict(unknown); }) == "feeds: 'z' is no input of the model");
}

TEST_CASE("plain descent moves parameters along slopes of the loss, statistics towards the batch's",
          "[net_trainer]") {
  Trainer::Config config;
  config.rate.rate = 0.5;
  config.numbers.weight_decay = 0.1;
  Trainer trainer(stream(), small_network(), config);
  const Model::Tensors feeds = batch_of(2, 5);
  const std::vector<double> before = values(trainer, "fc.bias"), mean = values(trainer, "bn1.running_mean");
  trainer.step(feeds);
  // The loss of the same batch with a bias moved, by a graph of its own.
  const auto loss_with = [&](size_t k, double by) {
    NetGraph g = small_network();
    for (auto& [value, constant] : g.constants)
      if (constant->name == "fc.bias") {
        std::vector<double> moved = numbers_of(*constant);
        moved[k] += by;
        constant = std::make_shared<const HostTensor>(host_tensor(DType::f32, {3}, moved));
      }
    for (auto& node : g.nodes)
      if (node.kind == "batch_norm") node.attributes.emplace("training", true);
    return numbers_of(to_host(stream(), Model(g).run(stream(), feeds).at("loss"))).at(0);
  };
  const std::vector<double> after = values(trainer, "fc.bias");
  for (size_t k = 0; k < 3; k++) {
    const double slope = (loss_with(k, 0.05) - loss_with(k, -0.05)) / 0.1;
    CHECK(std::abs(after[k] - (before[k] - 0.5 * (slope + 0.1 * before[k]))) < 2e-3 * std::abs(slope) + 1e-5);
  }
  CHECK(largest_difference(mean, values(trainer, "bn1.running_mean")) > 1e-3);
}

TEST_CASE("Adam's first update moves each parameter by the rate of update 0", "[net_trainer]") {
  Trainer::Config config;
  config.optimizer.method = OptimizerMethod::adam;
  config.rate = LearningRate::cosine(0.01, 2, 100);
  config.numbers.beta2 = 0.99;
  Trainer trainer(stream(), small_network(), config);
  const std::vector<double> before = values(trainer, "fc.bias");
  trainer.step(batch_of(2, 5));
  const std::vector<double> after = values(trainer, "fc.bias");
  for (size_t k = 0; k < 3; k++) CHECK(std::abs(std::abs(after[k] - before[k]) - 0.005) < 1e-6);
}

TEST_CASE("running statistics are a ninth and a tenth, the variance unbiased", "[net_trainer]") {
  NetGraph g;
  const auto named = [&](const char* name, std::vector<double> numbers) {
    HostTensor tensor = host_tensor(DType::f32, {static_cast<int64_t>(numbers.size())}, numbers);
    tensor.name = name;
    return g.add_constant(std::move(tensor));
  };
  const int x = g.add_input("x", DType::f32, {{-1}, {2}});
  const int y = g.add("batch_norm",
                      {x, named("w", {1, 1}), named("b", {0, 0}), named("m", {1, 2}), named("v", {3, 4})});
  g.add_output(
      "loss", g.add("reduce", {g.add("elementwise", {y, y}, {{"function", "mul"}})}, {{"function", "mean"}}));
  Trainer trainer(stream(), g, Trainer::Config());
  trainer.step({{"x", to_device(stream(),
                                host_tensor(DType::f32, {3, 2}, std::vector<double>{1, 10, 2, 20, 6, 30}))}});
  CHECK(largest_difference(values(trainer, "m"), {0.9 * 1 + 0.1 * 3, 0.9 * 2 + 0.1 * 20}) < 1e-6);
  CHECK(largest_difference(values(trainer, "v"), {0.9 * 3 + 0.1 * 7, 0.9 * 4 + 0.1 * 100}) < 1e-5);
}

TEST_CASE("training goes on from a checkpoint with the same bits", "[net_trainer]") {
  const TempDir folder;
  const std::string path = folder / "training.safetensors";
  for (const bool scaled : {false, true})
    for (const bool dropout : {false, true}) {
      CAPTURE(scaled, dropout);
      Trainer::Config config = adam();
      config.clip_norm = 0.5;
      if (scaled) config.scaling = LossScaling{2, 0.5, 2}, config.accumulate = 2, config.first_scale = 8;
      Trainer whole(stream(), small_network(dropout), config);
      std::map<std::string, std::vector<unsigned char>> halfway;
      for (uint64_t i = 0; i < 12; i++) {
        if (i == 6) {
          whole.save(path);
          halfway = bits(whole);
        }
        whole.step(batch_of(i, 4));
      }
      REQUIRE(halfway != bits(whole));
      Trainer resumed(stream(), small_network(dropout), config);
      resumed.load(path);
      CHECK(bits(resumed) == halfway);
      for (uint64_t i = 6; i < 12; i++) resumed.step(batch_of(i, 4));
      CHECK(bits(resumed) == bits(whole));
      CHECK(resumed.updates() == whole.updates());
    }
}

TEST_CASE("gradients of several steps make one update, as those of one batch", "[net_trainer]") {
  // Without BatchNorm, whose statistics are the batch's.
  const auto network = [] {
    NetGraph g;
    Rng rng(3);
    std::vector<double> numbers;
    for (int i = 0; i < 72 * 3; i++) numbers.push_back(rng.real(-0.2, 0.2));
    HostTensor w = host_tensor(DType::f32, {72, 3}, numbers);
    w.name = "w";
    const int x = g.add_input("x", DType::f32, {{-1}, {2}, {6}, {6}});
    g.add_output("logits", g.add("matmul", {g.add("flatten", {x}), g.add_constant(std::move(w))}));
    add_class_loss(g, "logits", "labels");
    return g;
  };
  Trainer::Config config;
  config.optimizer.momentum = true;
  config.numbers.momentum = 0.9;
  config.rate.rate = 0.1;
  Trainer one(stream(), network(), config);
  config.accumulate = 3;
  Trainer parts(stream(), network(), config);
  const Model::Tensors all = batch_of(7, 6);
  for (int update = 0; update < 3; update++) {
    one.step(all);
    for (int64_t k = 0; k < 3; k++)
      parts.step({{"x", all.at("x").slice(0, 2 * k, 2 * k + 2)},
                  {"labels", all.at("labels").slice(0, 2 * k, 2 * k + 2)}});
    CHECK(parts.updates() == update + 1);
  }
  CHECK(largest_difference(values(one, "w"), values(parts, "w")) < 1e-6);
  parts.step({{"x", all.at("x").slice(0, 0, 2)}, {"labels", all.at("labels").slice(0, 0, 2)}});
  CHECK(refusal([&] { parts.save("x.safetensors"); }).find("1 of 3 steps") != std::string::npos);
}

TEST_CASE("an infinite gradient leaves parameters as they are, and the scale falls", "[net_trainer]") {
  Trainer::Config config = adam();
  config.scaling = LossScaling{};
  config.first_scale = 3e38;
  Trainer trainer(stream(), small_network(), config);
  const auto before = values(trainer, "fc.weight");
  Model::Tensors feeds = batch_of(1, 4);
  const HostTensor large = host_tensor(DType::f32, {4, 2, 6, 6}, std::vector<double>(4 * 72, 1e30));
  trainer.step({{"x", to_device(stream(), large)}, {"labels", feeds.at("labels")}});
  CHECK(values(trainer, "fc.weight") == before);
}

TEST_CASE("products in bf16 train to about the same", "[net_trainer]") {
  Trainer::Config config = adam();
  Trainer exact(stream(), small_network(), config);
  config.precision = DType::bf16;
  Trainer low(stream(), small_network(), config);
  const Model::Tensors feeds = batch_of(3, 8);
  double a = 0, b = 0;
  for (int i = 0; i < 8; i++) a = loss_of(exact, feeds), b = loss_of(low, feeds);
  CHECK(std::abs(a - b) < 0.05 * std::abs(a));
  CHECK(a != b);
  CHECK(low.parameters()[0].value.dtype() == DType::f32);
  // Both directions compute in it, statistics do not.
  std::map<std::string, DType> of_kind;
  for (const Model::Plan::Step& step : low.explain(feeds).steps)
    for (const auto& [name, tensor] : step.outputs)
      if (step.node.kind != "cast") of_kind.emplace(step.node.kind, tensor.dtype);
  for (const char* kind : {"conv", "conv_backward_data", "conv_backward_filter", "matmul_backward"})
    CHECK(of_kind.at(kind) == DType::bf16);
}

TEST_CASE("weights of f64 learn in f64 where none is f32", "[net_trainer]") {
  if (!has_doubles()) return;
  const double small = std::ldexp(1, -40);  // f32 has no such part of 1
  const std::vector<double> first{1 + small, -2, 3 - small}, numbers{1 - small, 4, -8};
  const auto graph = [&](bool with_f32) {
    NetGraph g;
    const int x = g.add_input("x", DType::f64, {{3}});
    HostTensor w = host_tensor(DType::f64, {3}, first);
    w.name = "w";
    int y = g.add("elementwise", {x, g.add_constant(std::move(w))}, {{"function", "mul"}});
    HostTensor other = host_tensor(DType::f32, {3}, std::vector<double>{1, 1, 1});
    other.name = "other";
    if (with_f32)
      y = g.add("elementwise", {y, g.add("cast", {g.add_constant(std::move(other)), x})},
                {{"function", "mul"}});
    g.add_output("loss", g.add("reduce", {y}, {{"function", "sum"}}));
    return g;
  };
  Trainer::Config config;
  config.rate.rate = 0.5;
  config.accumulate = 2;
  config.optimizer.momentum = true;
  config.numbers.momentum = 0.25;
  const Model::Tensors fed{{"x", to_device(stream(), host_tensor(DType::f64, {3}, numbers))}};
  Trainer trainer(stream(), graph(false), config);
  for (int step = 0; step < 4; step++) trainer.step(fed);
  REQUIRE(trainer.parameters().size() == 1);
  CHECK(trainer.parameters()[0].value.dtype() == DType::f64);
  std::vector<double> expected;  // two updates: by the slope, which is x, and by 1.25 of it; all are exact
  for (size_t i = 0; i < 3; i++) expected.push_back(first[i] - 0.5 * 2.25 * numbers[i]);
  CHECK(numbers_of(to_host(stream(), trainer.parameters()[0].value)) == expected);
  const Trainer mixed(stream(), graph(true), config);
  REQUIRE(mixed.parameters().size() == 1);
  CHECK(mixed.parameters()[0].name == "other");
}

TEST_CASE("learning rates", "[net_trainer]") {
  LearningRate rate = LearningRate::cosine(2, 4, 10);
  CHECK(std::abs(rate.at(0) - 0.5) < 1e-12);
  CHECK(std::abs(rate.at(5) - 1) < 1e-12);
  CHECK(std::abs(rate.at(10)) < 1e-12);
  CHECK(std::abs(rate.at(99)) < 1e-12);
  rate = {};
  rate.shape = LearningRate::Shape::steps, rate.rate = 1, rate.milestones = {2, 4};
  CHECK(rate.at(1) == 1);
  CHECK(std::abs(rate.at(2) - 0.1) < 1e-12);
  CHECK(std::abs(rate.at(4) - 0.01) < 1e-12);
  rate.shape = LearningRate::Shape::linear, rate.last = 0.5, rate.updates = 4;
  CHECK(std::abs(rate.at(2) - 0.75) < 1e-12);
  rate.rate = -1;
  CHECK(refusal([&] { rate.at(0); }).find("-1") != std::string::npos);
}

TEST_CASE("what cannot be trained is refused by name", "[net_trainer]") {
  NetGraph g;
  const int x = g.add_input("x", DType::f32, {{4}});
  HostTensor w = host_tensor(DType::f32, {4}, std::vector<double>{1, 2, 3, 4});
  w.name = "w";
  const int y = g.add("elementwise", {x, g.add_constant(std::move(w))}, {{"function", "mul"}});
  const int largest = g.add("hardmax", {y});
  g.nodes.back().name = "best";
  g.add_output("loss", g.add("reduce", {largest}, {{"function", "sum"}}));
  const std::string said = refusal([&] { Trainer(stream(), g, Trainer::Config()); });
  CHECK(said.find("'best' (hardmax)") != std::string::npos);
  CHECK(said.find("no gradient") != std::string::npos);
  Trainer::Config config;
  config.loss = "cost";
  CHECK(refusal([&] { Trainer(stream(), small_network(), config); }).find("'cost' is no output") !=
        std::string::npos);
  config = {};
  config.frozen = {"conv9"};
  CHECK(refusal([&] { Trainer(stream(), small_network(), config); }).find("'conv9'") != std::string::npos);
  config = {};
  config.accumulate = 0;
  CHECK(refusal([&] { Trainer(stream(), small_network(), config); }).find("accumulate") != std::string::npos);
  NetGraph constant;
  constant.add_output("loss", constant.add_input("x", DType::f32, {}));
  CHECK(refusal([&] { Trainer(stream(), constant, Trainer::Config()); }).find("nothing to train") !=
        std::string::npos);
}

TEST_CASE("a checkpoint of something else changes nothing", "[net_trainer]") {
  const TempDir folder;
  const std::string path = folder / "other.safetensors";
  Trainer trainer(stream(), small_network(), adam());
  const auto before = bits(trainer);
  Trainer::Config plain;
  Trainer(stream(), small_network(), plain).save(path);
  CHECK(refusal([&] { trainer.load(path); }).find("the optimizer sgd; this trainer's is adam") !=
        std::string::npos);
  // Older checkpoints do not say which optimizer it was; how many states there are does.
  SafetensorsReader reader(path);
  std::vector<HostTensor> tensors;
  for (const auto& entry : reader.entries()) tensors.push_back(reader.read(entry));
  auto metadata = reader.metadata();
  metadata.erase("optimizer");
  save_safetensors(path, tensors, metadata);
  CHECK(refusal([&] { trainer.load(path); }).find("has 0 states of an optimizer for each parameter; this") !=
        std::string::npos);
  save_safetensors(path, {});
  CHECK(refusal([&] { trainer.load(path); }).find("no checkpoint") != std::string::npos);
  CHECK(bits(trainer) == before);
}

namespace {

/// Many convolutions in a row.
NetGraph deep_network() {
  NetGraph g;
  Rng rng(8);
  int h = g.add_input("x", DType::f32, {{-1, "batch"}, {2}, {6}, {6}});
  for (int layer = 0; layer < 16; layer++) {
    std::vector<double> numbers;
    for (int i = 0; i < 2 * 2 * 9; i++) numbers.push_back(rng.real(-0.4, 0.4));
    HostTensor w = host_tensor(DType::f32, {2, 2, 3, 3}, numbers);
    w.name = "w" + std::to_string(layer);
    h = g.add("conv", {h, g.add_constant(std::move(w))}, {{"pad_begin", Integers{1, 1}}});
    h = g.add("elementwise", {h}, {{"function", "tanh"}});
  }
  g.add_output("logits", g.add("flatten", {g.add("global_pool", {h}, {{"mode", "average"}})}));
  add_class_loss(g, "logits", "labels");
  return g;
}

}  // namespace

TEST_CASE("what is computed twice takes less memory, and gives the same bits", "[net_trainer]") {
  for (const bool deep : {false, true}) {
    CAPTURE(deep);
    const auto network = [&] { return deep ? deep_network() : small_network(true); };
    Trainer::Config config = adam();
    Trainer plain(stream(), network(), config);
    config.recompute = true;
    Trainer twice(stream(), network(), config);
    Model::Tensors feeds = batch_of(4, 64);
    if (deep) feeds["labels"] = to_device(stream(), whole({64}, std::vector<int64_t>(64, 1)));
    for (int i = 0; i < 3; i++) plain.step(feeds), twice.step(feeds);
    CHECK(bits(plain) == bits(twice));
    if (!deep) continue;
    const uint64_t before = plain.explain(feeds).live, after = twice.explain(feeds).live;
    INFO(before << " and " << after << " bytes");
    CHECK(after < before * 2 / 3);
  }
}

TEST_CASE("the largest elements are found again where what they come from is computed twice",
          "[net_trainer]") {
  NetGraph g;
  Rng rng(3);
  const auto apply = [&](const char* function, std::vector<int> inputs) {
    return g.add("elementwise", std::move(inputs), {{"function", function}});
  };
  const auto constant = [&](double v) { return g.add_constant(number(v)); };
  const int x = g.add_input("x", DType::f32, {{64}, {50}});
  int h = apply("mul", {x, add_parameter(g, rng, "w", {50}, 0.5, 1.5)});
  // A pass writes hardswish(h) for this, where nobody else reads its parts.
  const int gate =
      apply("minimum", {apply("maximum", {apply("add", {h, constant(3)}), constant(0)}), constant(6)});
  h = apply("mul", {h, apply("mul", {gate, constant(1 / 6.)})});
  h = g.add("reduce", {h}, {{"function", "max"}, {"axes", Integers{1}}});
  for (int i = 0; i < 32; i++) h = apply("tanh", {h});  // segments of seven nodes: all above in the first
  g.add_output("loss", g.add("reduce", {h}, {{"function", "mean"}, {"keep_dims", 0}}));
  std::vector<double> numbers;
  for (int i = 0; i < 64 * 50; i++) numbers.push_back(rng.real(-2, 2));
  const Model::Tensors feeds{{"x", to_device(stream(), host_tensor(DType::f32, {64, 50}, numbers))}};
  std::vector<float> learned[2];
  for (const bool recompute : {false, true}) {
    Trainer::Config config;
    config.rate.rate = 0.1;
    config.recompute = recompute;
    Trainer trainer(stream(), g, config);
    trainer.step(feeds);
    learned[recompute] = host_values(trainer.parameters()[0].value);
  }
  CHECK(deviation(learned[1], learned[0]) < 1e-5);
}

TEST_CASE("what dropout drops has no slope, element by element or sample by sample", "[net_trainer]") {
  for (const bool samples : {false, true}) {
    CAPTURE(samples);
    NetGraph g;
    const int x = g.add_input("x", DType::f32, {{40}, {5}, {2}});
    const int ratio = g.add_constant(host_tensor(DType::f32, {}, std::vector<double>{0.75}));
    const int truth = g.add_constant(host_tensor(DType::boolean, {}, std::vector<double>{1}));
    const int seed = g.add_input("seed", DType::f32, {});
    const int y = g.add_many("dropout", {x, ratio, truth}, 1, {{"samples", samples}})[0];
    const int loss = g.add("reduce", {y}, {{"function", "sum"}});
    g.add_output("dx", add_gradients(g, loss, {x}, seed)[0]);
    g.add_output("y", y);
    const Model model(g);
    const Model::Tensors feeds{
        {"x", device_tensor({40, 5, 2}, std::vector<float>(400, 1))},
        {"seed", to_device(stream(), host_tensor(DType::f32, {}, std::vector<double>{1}))}};
    for (int run = 0; run < 4; run++) {
      const Model::Tensors got = model.run(stream(), feeds);
      const std::vector<float> dropped = host_values(got.at("y"));
      CHECK(host_values(got.at("dx")) == dropped);  // of ones
      size_t zeros = 0, alike = 0;
      for (size_t i = 0; i < dropped.size(); i++) {
        CHECK((dropped[i] == 0 || dropped[i] == 4));
        zeros += dropped[i] == 0, alike += dropped[i] == dropped[i / 10 * 10];
      }
      CHECK((zeros > 200 && zeros < 390));
      CHECK((alike == dropped.size()) == samples);
    }
  }
}

TEST_CASE("steps with dropout are replayed, and drop others each time", "[net_trainer]") {
  Trainer::Config config;
  config.rate.rate = 0;  // parameters stay: what differs is what was dropped
  Trainer trainer(stream(), small_network(true), config);
  const Model::Tensors feeds = batch_of(9, 8);
  std::set<double> losses;
  for (int i = 0; i < 6; i++) losses.insert(loss_of(trainer, feeds));
  CHECK(trainer.launches() > 0);
  CHECK(losses.size() == 6);
}

TEST_CASE("the first step takes no more memory than later ones", "[net_trainer]") {
  for (const DType precision : {DType::f32, DType::bf16}) {
    CAPTURE(precision);
    const Context own(context().device());
    const Stream own_stream(own);
    Trainer::Config config = adam();
    config.precision = precision;
    Trainer trainer(own_stream, deep_network(), config);
    std::vector<double> numbers(static_cast<size_t>(64 * 2 * 6 * 6), 0.5);
    Model::Tensors feeds;
    feeds["x"] = to_device(own_stream, host_tensor(DType::f32, {64, 2, 6, 6}, numbers));
    feeds["labels"] = to_device(own_stream, whole({64}, std::vector<int64_t>(64, 1)));
    CHECK(trainer.launches() == 0);
    const uint64_t before = own.memory_stats().allocated;
    trainer.step(feeds);
    own_stream.finish();
    const uint64_t after = own.memory_stats().allocated, most = own.memory_stats().allocated_peak;
    CHECK(trainer.launches() > 0);
    INFO(before << " bytes before, " << after << " after the first step, " << most << " at most");
    CHECK(static_cast<double>(most - before) <= 1.1 * static_cast<double>(after - before));
    for (int i = 0; i < 3; i++) trainer.step(feeds);
    CHECK(own.memory_stats().allocated_peak == most);
  }
}

TEST_CASE("labels of tokens are as those of as many rows", "[net_trainer]") {
  NetGraph g;
  HostTensor w = host_tensor(DType::f32, {4, 5}, std::vector<double>(20, 0.1));
  w.name = "w";
  const int x = g.add_input("x", DType::f32, {{-1}, {-1}, {4}});
  g.add_output("logits", g.add("matmul", {x, g.add_constant(std::move(w))}));
  add_class_loss(g, "logits", "labels");
  CHECK(refusal([&] { add_class_loss(g, "logits", "labels"); }).find("'labels' already") !=
        std::string::npos);
  CHECK(refusal([&] { add_class_loss(g, "scores", "t"); }).find("'scores' is no output") !=
        std::string::npos);
  Trainer trainer(stream(), g, Trainer::Config());
  std::vector<double> numbers;
  Rng rng(2);
  for (int i = 0; i < 24; i++) numbers.push_back(rng.real(-1, 1));
  const Model::Tensors feeds{{"x", to_device(stream(), host_tensor(DType::f32, {2, 3, 4}, numbers))},
                             {"labels", to_device(stream(), whole({2, 3}, {0, 1, -1, 4, 2, 2}))}};
  // Equal logits: each label's loss is log 5.
  CHECK(std::abs(loss_of(trainer, feeds) - std::log(5.0)) < 1e-6);
  CHECK(loss_of(trainer, feeds) < std::log(5.0) - 1e-5);
}

TEST_CASE("a loader makes batches ahead, in their order", "[net_trainer][threads]") {
  std::atomic<int64_t> made{0};
  {
    BatchLoader loader(
        5,
        [&](int64_t k) {
          made++;
          return BatchLoader::Batch{{"k", whole({1}, {k})}};
        },
        2);
    for (int64_t k = 0; k < 5; k++) {
      const auto batch = loader.next();
      REQUIRE(batch);
      CHECK(integers_of(batch->at("k")) == std::vector<int64_t>{k});
      CHECK(made <= k + 4);
    }
    CHECK_FALSE(loader.next());
    CHECK_FALSE(loader.next());
  }
  BatchLoader failing(3, [](int64_t k) -> BatchLoader::Batch {
    if (k == 1) throw ValidationError("file", "is damaged");
    return {};
  });
  CHECK(failing.next());
  CHECK(refusal([&] { failing.next(); }).find("is damaged") != std::string::npos);
  CHECK_FALSE(failing.next());
  const BatchLoader never_asked(100, [](int64_t) { return BatchLoader::Batch(); });
  CHECK_THROWS_AS(BatchLoader(-1, [](int64_t) { return BatchLoader::Batch(); }), ValidationError);
}
