// The page that says what has gradients says what is so; and imported networks train as those written by
// hand.
#include "cases/onnx_gradients.hpp"

#include "cases/graph.hpp"
#include "cases/onnx_node.hpp"
#include "catch.hpp"
#include "child.hpp"

using namespace dlprim;
using namespace dlprim::test;

TEST_CASE("docs/gradients.md has the tables that onnx_nodes --gradients prints", "[small]") {
  const std::string page = bytes_of(source_file("docs/gradients.md")),
                    begin = "<!-- tables: onnx_nodes --gradients -->\n", end = "<!-- end of tables -->";
  const size_t first = page.find(begin), last = page.find(end);
  REQUIRE(first != std::string::npos);
  REQUIRE(last != std::string::npos);
  const std::string written = page.substr(first + begin.size(), last - first - begin.size());
  CHECK(written == gradient_tables());
}

TEST_CASE("operators that classifiers are trained with have gradients by all that they learn", "[small]") {
  const std::string tables = gradient_tables();
  for (const char* row : {"| Add | 0 1 ",
                          "| AveragePool | 0 |",
                          "| BatchNormalization | 0 1 2 |",
                          "| Concat | 0 1 2 ",
                          "| Conv | 0 1 2 |",
                          "| ConvTranspose | 0 1 2 |",
                          "| Div | 0 1 |",
                          "| Einsum | 0 1 |",
                          "| Erf | 0 |",
                          "| Gather | 0 |",
                          "| GatherElements | 0 |",
                          "| GatherND | 0 |",
                          "| Gelu | 0 |",
                          "| Gemm | 0 1 2 |",
                          "| GlobalAveragePool | 0 |",
                          "| GlobalMaxPool | 0 |",
                          "| GroupNormalization | 0 1 2 |",
                          "| HardSigmoid | 0 |",
                          "| HardSwish | 0 |",
                          "| LayerNormalization | 0 1 2 |",
                          "| MatMul | 0 1 |",
                          "| MaxPool | 0 |",
                          "| Mul | 0 1 |",
                          "| Pad | 0 |",
                          "| ReduceMean | 0 |",
                          "| Relu | 0 |",
                          "| Reshape | 0 |",
                          "| Selu | 0 |",
                          "| Sigmoid | 0 |",
                          "| Slice | 0 |",
                          "| Softmax | 0 |",
                          "| Split | 0 |",
                          "| Sqrt | 0 |",
                          "| Swish | 0 |",
                          "| Transpose | 0 |"}) {
    INFO(row);
    CHECK(tables.find(row) != std::string::npos);
  }
}

namespace {

std::vector<float> parameter(int64_t count, float scale) {
  std::vector<float> numbers;
  for (int64_t i = 0; i < count; i++) numbers.push_back(scale * (static_cast<float>(i * 37 % 23) / 11 - 1));
  return numbers;
}

struct Parameter {
  std::string name;
  std::vector<int64_t> shape;
  float scale;
  std::vector<float> values() const { return parameter(element_count(Shape(shape)), scale); }
};
const std::vector<Parameter>& parameters() {
  static const auto* list = new std::vector<Parameter>{{"conv.weight", {4, 2, 3, 3}, 0.5F},
                                                       {"conv.bias", {4}, 0.1F},
                                                       {"fc.weight", {3, 16}, 0.5F},
                                                       {"fc.bias", {3}, 0.2F}};
  return *list;
}

/// Convolution, ReLU, max pooling with padding, a layer of classes; the exporter's operators.
NetGraph imported(bool global) {
  using namespace onnx_writer;
  Graph g;
  g.inputs = {value("x", ElementType::f32, {"n", 2, 6, 6})};
  g.outputs = {value("logits", ElementType::f32, {"n", 3})};
  for (const Parameter& p : parameters()) {
    std::vector<int64_t> shape = p.shape;
    if (global && p.name == "fc.weight") shape = {3, 4};
    g.initializers.push_back(
        tensor(p.name, ElementType::f32, shape, raw_bytes(parameter(element_count(Shape(shape)), p.scale))));
  }
  const std::vector<int64_t> three{3, 3}, two{2, 2}, ones{1, 1, 1, 1};
  g.nodes = {node("Conv", {"x", "conv.weight", "conv.bias"}, {"c"}, {attribute("pads", ones)}),
             node("Relu", {"c"}, {"r"})};
  if (global)
    g.nodes.push_back(node("GlobalMaxPool", {"r"}, {"p"}));
  else
    g.nodes.push_back(
        node("MaxPool", {"r"}, {"p"},
             {attribute("kernel_shape", three), attribute("strides", std::vector<int64_t>{3, 3}),
              attribute("pads", ones), attribute("ceil_mode", 0)}));
  g.nodes.push_back(node("Flatten", {"p"}, {"f"}));
  g.nodes.push_back(node("Gemm", {"f", "fc.weight", "fc.bias"}, {"logits"}, {attribute("transB", 1)}));
  return onnx::parse_graph(model(graph(g)).bytes());
}

/// The same in the net's own kinds: a pool whose indices are those in planes, or a reduction in place of a
/// global pool.
NetGraph written(bool global) {
  using Integers = Attribute::Integers;
  NetGraph g;
  std::map<std::string, int> of;
  for (const Parameter& p : parameters()) {
    std::vector<int64_t> shape = p.shape;
    if (global && p.name == "fc.weight") shape = {3, 4};
    const std::vector<float> values = parameter(element_count(Shape(shape)), p.scale);
    HostTensor t = host_tensor(DType::f32, Shape(shape), std::vector<double>(values.begin(), values.end()));
    t.name = p.name;
    of[p.name] = g.add_constant(std::move(t));
  }
  const int x = g.add_input("x", DType::f32, {{-1, "n"}, {2}, {6}, {6}});
  const int c = g.add("conv", {x, of["conv.weight"], of["conv.bias"]}, {{"pad_begin", Integers{1, 1}}});
  const int r = g.add("elementwise", {c}, {{"function", "relu"}});
  const int p = global ? g.add("reduce", {r}, {{"function", "max"}, {"axes", Integers{2, 3}}})
                       : g.add("pool", {r},
                               {{"mode", "max"},
                                {"kernel", Integers{3, 3}},
                                {"stride", Integers{3, 3}},
                                {"pad_begin", Integers{1, 1}}});
  const int turned = g.add("transpose", {of["fc.weight"]}, {{"axes", Integers{1, 0}}});
  g.add_output("logits", g.add("matmul", {g.add("flatten", {p}), turned, of["fc.bias"]}));
  return g;
}

}  // namespace

TEST_CASE("imported networks with max pooling train as those written by hand", "[small]") {
  for (const bool global : {false, true}) {
    INFO(global);
    std::map<std::string, std::vector<float>> after[2];
    std::vector<float> losses[2];
    for (const bool by_hand : {false, true}) {
      NetGraph g = by_hand ? written(global) : imported(global);
      add_class_loss(g, "logits", "labels");
      Trainer::Config config;
      config.rate.rate = 0.25;
      Trainer trainer(stream(), g, config);
      const Model::Tensors fed{{"x", device_tensor({2, 2, 6, 6}, parameter(144, 1))},
                               {"labels", to_device(stream(), wholes({2}, {2, 0}))}};
      for (int step = 0; step < 3; step++)
        losses[by_hand].push_back(host_values(trainer.step(fed).at("loss")).at(0));
      for (const Trainer::Parameter& p : trainer.parameters()) after[by_hand][p.name] = host_values(p.value);
    }
    CHECK(losses[0][2] < losses[0][0]);
    REQUIRE(after[0].size() == 4);
    REQUIRE(after[1].size() == 4);
    // Sums of few terms in two orders; numbers of about 1.
    for (int step = 0; step < 3; step++) CHECK(std::abs(losses[0][step] - losses[1][step]) < 1e-5F);
    for (const Parameter& p : parameters()) {
      INFO(p.name);
      bool moved = false;
      for (size_t i = 0; i < after[0][p.name].size(); i++) {
        CHECK(std::abs(after[0][p.name][i] - after[1][p.name][i]) < 1e-5F);
        moved = moved || after[0][p.name][i] != parameter(static_cast<int64_t>(i) + 1, p.scale).back();
      }
      CHECK(moved);
    }
  }
}
