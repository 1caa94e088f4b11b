// Models of 16-bit numbers: every run gives the same bits, whether it goes node by node, is recorded or
// replayed (docs/nodes.md, "What 16-bit models compute").
#include <cmath>

#include <dlprim/copy.hpp>
#include <dlprim/net_host.hpp>
#include <dlprim/net_model.hpp>
#include <dlprim/recording.hpp>

#include "catch.hpp"
#include "support.hpp"

using namespace dlprim;
using namespace dlprim::test;

namespace {

constexpr int64_t kWidth = 16;
using Bytes = std::vector<unsigned char>;

Tensor fed(DType dtype, int64_t rows, uint64_t seed) {
  Rng rng(seed);
  std::vector<float> values;
  for (int64_t i = 0; i < rows * kWidth; i++) values.push_back(static_cast<float>(rng.real(-2, 2)));
  return device_tensor({rows, kWidth}, values, dtype);
}

int constant(NetGraph& g, DType dtype, const Shape& shape, Rng& rng, double size) {
  std::vector<double> values;
  for (int64_t i = 0; i < element_count(shape); i++) values.push_back(rng.real(-size, size));
  return g.add_constant(host_tensor(dtype, shape, values));
}

/// Elementwise functions that overflow and cancel, products, sums and norms, each of earlier values.
NetGraph random_graph(DType dtype, uint64_t seed) {
  Rng rng(seed);
  NetGraph g;
  std::vector<int> values = {g.add_input("x", dtype, {{-1}, {kWidth}})};
  const auto pick = [&] {
    const auto last = static_cast<int64_t>(values.size()) - 1;
    return values[static_cast<size_t>(rng.integer(std::max<int64_t>(0, last - 3), last))];
  };
  static const char* kOne[] = {"relu", "exp", "tanh", "sigmoid", "neg", "abs", "square"};
  static const char* kTwo[] = {"add", "sub", "mul", "maximum"};
  for (int n = 0; n < 12; n++) switch (rng.integer(0, 5)) {
      case 0:
        values.push_back(g.add("elementwise", {pick()}, {{"function", kOne[rng.integer(0, 6)]}}));
        break;
      case 1: {
        const int c = constant(g, dtype, {1}, rng, 60000);
        const int far = g.add("elementwise", {pick(), c}, {{"function", "add"}});
        values.push_back(g.add("elementwise", {far, c}, {{"function", "sub"}}));
        break;
      }
      case 2:
        values.push_back(g.add("matmul", {pick(), constant(g, dtype, {kWidth, kWidth}, rng, 300)}));
        break;
      case 3: {
        const int c = constant(g, dtype, {1, kWidth}, rng, 1000);
        values.push_back(g.add("elementwise", {pick(), c}, {{"function", kTwo[rng.integer(0, 3)]}}));
        break;
      }
      default:
        values.push_back(g.add("elementwise", {pick(), pick()}, {{"function", kTwo[rng.integer(0, 3)]}}));
    }
  g.add_output("y", values.back());
  g.add_output("z", pick());
  return g;
}

/// What all kinds of runs give: of the model, of another one that logs, told of nodes, bound, or recorded by
/// its user.
std::vector<Bytes> all_runs(const NetGraph& graph, const Tensor& x, const std::vector<std::string>& without,
                            DType precision) {
  std::vector<Bytes> results;
  const auto note = [&](const Model::Tensors& y) {
    Bytes bytes;
    for (const auto& [name, tensor] : y) {
      const Bytes own = host_bytes(tensor);
      bytes.insert(bytes.end(), own.begin(), own.end());
    }
    results.push_back(bytes);
  };
  const Model model(graph, without, precision), watched(graph, without, precision),
      recorded(graph, without, precision), bound(graph, without, precision);
  for (int i = 0; i < 3; i++) note(model.run(stream(), {{"x", x}}));
  int told = 0;
  const auto watch = [&](const NetGraph::Node&, const Model::Tensors&) { told++; };
  note(watched.run(stream(), {{"x", x}}, {}, watch));
  note(model.run(stream(), {{"x", x}}, {}, watch));
  CHECK(told > 0);
  Model::Tensors y;
  const Recording recording(stream(), [&] { y = recorded.run(stream(), {{"x", x}}); });
  note(y);
  recording.replay();
  note(y);
  if (auto runs = bound.bind(stream(), {{"x", x}})) {
    runs->run();
    note(runs->outputs());
  }
  ContextConfig config;
  config.log_level = 1;
  config.log = [](const std::string&) {};
  const Context logging(context().device(), config);
  const Stream log(logging);
  const Tensor same(log, x.shape(), x.dtype());
  write(log, same, host_bytes(x).data(), x.bytes());
  const Model logged(graph, without, precision);
  Bytes bytes;
  for (const auto& [name, tensor] : logged.run(log, {{"x", same}})) {
    Bytes own(static_cast<size_t>(tensor.bytes()));
    read(log, tensor, own.data(), tensor.bytes());
    bytes.insert(bytes.end(), own.begin(), own.end());
  }
  results.push_back(bytes);
  return results;
}

}  // namespace

TEST_CASE("what cancels after an overflow is the same in every run", "[small]") {
  for (const DType dtype : {DType::f16, DType::bf16}) {
    INFO(name_of(dtype));
    NetGraph g;
    const int x = g.add_input("x", dtype, {{-1}, {kWidth}});
    const int c = g.add_constant(host_tensor(dtype, {}, std::vector<double>{60000}));
    g.add_output("y", g.add("elementwise", {g.add("elementwise", {x, c}, {{"function", "add"}}), c},
                            {{"function", "sub"}}));
    const Tensor ones(stream(), {2, kWidth}, dtype);
    fill(stream(), 1.5, ones);
    for (const bool fused : {true, false}) {
      const std::vector<std::string> without =
          fused ? std::vector<std::string>() : std::vector<std::string>{"pointwise"};
      const Model model(g, without);
      // In one kernel the sum is f32. Stored, 60001.5 is 60000 in f16, and in bf16.
      for (int run = 0; run < 4; run++)
        for (const float y : host_values(model.run(stream(), {{"x", ones}}).at("y")))
          CHECK(y == (fused ? 1.5F : 0.0F));
      const std::vector<Bytes> results = all_runs(g, ones, without, DType::f32);
      for (const Bytes& result : results) CHECK(result == results[0]);
    }
  }
}

TEST_CASE("random 16-bit graphs give the same bits in every run") {
  for (const DType dtype : {DType::f16, DType::bf16})
    for (uint64_t seed = 1; seed <= 8; seed++) {
      INFO(name_of(dtype) << " seed=" << seed);
      const std::vector<Bytes> results =
          all_runs(random_graph(dtype, seed), fed(dtype, 5, seed), {}, DType::f32);
      for (size_t i = 0; i < results.size(); i++) {
        INFO("run " << i);
        CHECK(results[i] == results[0]);
      }
    }
}

TEST_CASE("models of f32 that compute in 16 bits give the same bits in every run") {
  for (const DType precision : {DType::f16, DType::bf16})
    for (uint64_t seed = 1; seed <= 4; seed++) {
      INFO(name_of(precision) << " seed=" << seed);
      const std::vector<Bytes> results =
          all_runs(random_graph(DType::f32, seed), fed(DType::f32, 3, seed), {}, precision);
      for (size_t i = 0; i < results.size(); i++) {
        INFO("run " << i);
        CHECK(results[i] == results[0]);
      }
    }
}
