// The importer on models written here: names and scopes, functions, bodies, initializers; and that what it
// does not understand is an error that says where.
#include <dlprim/net_json.hpp>
#include <dlprim/onnx.hpp>

#include <set>
#include "cases/onnx_writer.hpp"

#include "catch.hpp"
#include "child.hpp"
#include "onnx/operators.hpp"
#include "support.hpp"

using namespace dlprim;
using namespace dlprim::test;
using namespace dlprim::test::onnx_writer;
using Sizes = std::vector<onnx_writer::Dimension>;

namespace {

using Type = AttributeMessage::Type;

Message input(const std::string& name, const Sizes& dims) {
  return value(name, ElementType::f32, dims);
}

/// One input x and one output y, [2] both.
Graph around(std::vector<Message> nodes) {
  Graph g;
  g.nodes = std::move(nodes);
  g.inputs = {input("x", {2})};
  g.outputs = {input("y", {2})};
  return g;
}

std::vector<float> run(const Message& model) {
  const Model made(onnx::parse_graph(model.bytes()));
  return host_values(made.run(stream(), {{"x", device_tensor({2}, {3, -4})}}).at("y"));
}

std::string complaint(const Message& model) {
  try {
    onnx::parse_graph(model.bytes());
  } catch (const ValidationError& error) {
    return error.what();
  }
  return "";
}

Message floats(const std::string& name, const std::vector<float>& values) {
  return tensor(name, ElementType::f32, {static_cast<int64_t>(values.size())}, raw_bytes(values));
}

/// FunctionProto
Message function(const std::string& name, const std::vector<std::string>& inputs,
                 const std::vector<std::string>& outputs, const std::vector<std::string>& attributes,
                 const std::vector<Message>& nodes) {
  Message made;
  made.text(1, name);
  for (const std::string& i : inputs) made.text(4, i);
  for (const std::string& o : outputs) made.text(5, o);
  for (const std::string& a : attributes) made.text(6, a);
  for (const Message& n : nodes) made.message(7, n);
  made.message(9, opset("", 21));
  return made.text(10, "own");
}

Message with_function(const Graph& g, const std::vector<Message>& functions) {
  Message made = model(graph(g));
  made.message(8, opset("own", 1));
  for (const Message& f : functions) made.message(25, f);
  return made;
}

}  // namespace

TEST_CASE("the pages list every operator and every kind of node") {
  const std::string operators = bytes_of(source_file("docs/onnx.md")),
                    kinds = bytes_of(source_file("docs/nodes.md"));
  for (const onnx::OperatorEntry* entry : onnx::all_operators()) {
    const std::string name = (*entry->domain ? std::string(entry->domain) + "." : "") + entry->name;
    INFO(name);
    CHECK((operators.find(" " + name + ",") != std::string::npos ||
           operators.find(" " + name + ".\n") != std::string::npos));
  }
  for (const std::string& kind : node_kinds()) {
    INFO(kind);
    CHECK(kinds.find("| `" + kind + "` | ") != std::string::npos);
  }
  for (const std::string& pass : graph_passes())
    CHECK(kinds.find("| `" + pass + "` | ") != std::string::npos);
}

TEST_CASE("no two operators are imported from one version on") {
  std::set<std::string> seen;
  for (const onnx::OperatorEntry* entry : onnx::all_operators())
    CHECK(seen.insert(std::string(entry->domain) + "." + entry->name + " " + std::to_string(entry->since))
              .second);
}

TEST_CASE("a model runs, and its ports have names, types and sizes") {
  Graph g = around({node("Add", {"x", "b"}, {"h"}), node("Relu", {"h"}, {"y"})});
  g.initializers = {floats("b", {1, 1})};
  g.inputs = {input("x", {"n"})};
  CHECK(run(model(graph(g))) == std::vector<float>{4, 0});
  const NetGraph made = onnx::parse_graph(model(graph(g)).bytes());
  const Model loaded(made);
  CHECK(loaded.inputs()[0].name == "x");
  CHECK(loaded.inputs()[0].shape->at(0).symbol == "n");
  CHECK(*loaded.outputs()[0].dtype == DType::f32);
}

TEST_CASE("a block of a network, as exporters write it, launches no more than its convolution") {
  Graph g;  // a convolution, BatchNorm, a residual, ReLU6
  g.inputs = {input("x", {1, 2, 4, 4})};
  g.outputs = {input("y", {1, 2, 4, 4})};
  g.initializers = {tensor("w", ElementType::f32, {2, 2, 1, 1}, raw_bytes<float>({1, -1, 2, 1})),
                    floats("scale", {2, 2}),
                    floats("bias", {1, -1}),
                    floats("mean", {1, 0}),
                    floats("variance", {0.75, 0.75}),
                    tensor("least", ElementType::f32, {}, raw_bytes<float>({0})),
                    tensor("most", ElementType::f32, {}, raw_bytes<float>({6}))};
  g.nodes = {node("Conv", {"x", "w"}, {"c"}),
             node("BatchNormalization", {"c", "scale", "bias", "mean", "variance"}, {"n"},
                  {attribute("epsilon", 0.25F), attribute("momentum", 0.9F)}),
             node("Add", {"n", "x"}, {"sum"}), node("Clip", {"sum", "least", "most"}, {"y"})};
  const Model made(onnx::parse_graph(model(graph(g)).bytes()));
  std::vector<float> x(32);
  for (size_t i = 0; i < x.size(); i++) x[i] = static_cast<float>(i % 5) - 2;
  const Model::Tensors fed{{"x", device_tensor({1, 2, 4, 4}, x)}};
  const Model::Plan plan = made.explain(stream(), fed);
  CHECK(plan.replayed);
  CHECK(plan.steps.at(0).node.kind == "conv");
  CHECK(!plan.steps[0].kernels.empty());
  for (size_t i = 1; i < plan.steps.size(); i++) CHECK(plan.steps[i].kernels.empty());
  std::vector<float> expected;
  for (size_t i = 0; i < x.size(); i++) {
    const float a = x[i % 16], b = x[i % 16 + 16];
    const float y = i < 16 ? 2 * (a - b - 1) + 1 + a : 2 * (2 * a + b) - 1 + b;
    expected.push_back(y < 0 ? 0 : y > 6 ? 6 : y);
  }
  CHECK(host_values(made.run(stream(), fed).at("y")) == expected);
}

TEST_CASE("a layer of a perceptron launches no more than its product") {
  Graph g;
  g.inputs = {input("x", {3, 2})};
  g.outputs = {input("y", {3, 2})};
  g.initializers = {tensor("w", ElementType::f32, {2, 2}, raw_bytes<float>({1, 2, -1, 3})),
                    floats("b", {1, -2})};
  g.nodes = {node("Gemm", {"x", "w", "b"}, {"h"}, {attribute("transB", 1)}), node("Relu", {"h"}, {"y"})};
  const Model made(onnx::parse_graph(model(graph(g)).bytes()));
  const Model::Tensors fed{{"x", device_tensor({3, 2}, {1, 2, 0, -3, -1, -1})}};
  const Model::Plan plan = made.explain(stream(), fed);
  size_t with_kernels = 0;
  for (const Model::Plan::Step& step : plan.steps) with_kernels += !step.kernels.empty();
  CHECK(with_kernels == 1);
  CHECK(host_values(made.run(stream(), fed).at("y")) == std::vector<float>{6, 3, 0, 0, 0, 0});
}

TEST_CASE("an initializer is its input's standard value") {
  Graph g = around({node("Mul", {"x", "w"}, {"y"})});
  g.initializers = {floats("w", {2, 3})};
  g.inputs.push_back(input("w", {2}));
  CHECK(run(model(graph(g))) == std::vector<float>{6, -12});
}

TEST_CASE("an initializer that is an input may be fed") {
  Graph g = around({node("Mul", {"x", "w"}, {"h"}), node("Add", {"h", "c"}, {"y"})});
  g.initializers = {floats("w", {2, 3}), floats("c", {1, 1}), floats("unused", {5})};
  g.inputs.insert(g.inputs.end(), {input("w", {2}), input("unused", {1})});
  const NetGraph made = onnx::parse_graph(model(graph(g)).bytes());
  const Model given(made);
  CHECK(given.inputs().size() == 1);
  REQUIRE(given.defaults().size() == 2);
  CHECK(given.defaults()[0].name == "w");
  CHECK(*given.defaults()[0].dtype == DType::f32);
  CHECK(given.defaults()[0].shape->at(0).size == 2);
  const TempDir folder;
  save_json(folder / "m.json", made);
  for (const Model& m : {given, Model(load_json(folder / "m.json"))}) {
    const auto with = [&](Model::Tensors more) {
      more.emplace("x", device_tensor({2}, {3, -4}));
      return host_values(m.run(stream(), more).at("y"));
    };
    for (int run = 0; run < 3; run++) {  // node by node, recorded, replayed, in turn
      CHECK(with({}) == std::vector<float>{7, -11});
      CHECK(with({{"w", device_tensor({2}, {10, 100})}}) == std::vector<float>{31, -399});
      CHECK(with({{"w", device_tensor({2}, {0, 1})}, {"unused", device_tensor({1}, {9})}}) ==
            std::vector<float>{1, -3});
    }
    CHECK_THAT(error_of<ValidationError>([&] {
                 with({{"w", device_tensor({3}, {1, 2, 3})}});
               }),
               Catch::Contains("'w'") && Catch::Contains("dimension 0 must be 2"));
    CHECK_THAT(error_of<ValidationError>([&] {
                 with({{"c", device_tensor({2}, {1, 2})}});
               }),
               Catch::Contains("'c' is no input of the model"));
    const auto bound =
        m.bind(stream(), {{"x", device_tensor({2}, {3, -4})}, {"w", device_tensor({2}, {1, 1})}});
    REQUIRE(bound);
    CHECK(bound->inputs().count("w") == 1);
  }
}

TEST_CASE("what is not understood is refused, with node, operator and opset") {
  CHECK_THAT(
      complaint(model(graph(around({node("Teleport", {"x"}, {"y"})})))),
      Catch::Contains("Teleport, opset 21") && Catch::Contains("'x'") && Catch::Contains("is not supported"));
  CHECK_THAT(complaint(model(graph(around({node("Relu", {"x"}, {"y"}, {attribute("speed", 3)})})))),
             Catch::Contains("Relu, opset 21") && Catch::Contains("attribute 'speed' is not supported"));
  CHECK_THAT(complaint(model(graph(around({node("LeakyRelu", {"x"}, {"y"}, {attribute("alpha", 3)})})))),
             Catch::Contains("attribute 'alpha' must be a number"));
  CHECK_THAT(complaint(model(graph(around({node("Cast", {"x"}, {"y"}, {attribute("to", 8)})})))),
             Catch::Contains("string") && Catch::Contains("Cast"));
  CHECK_THAT(complaint(model(graph(around({node("Flatten", {"x", "x"}, {"y"})})))),
             Catch::Contains("input 1, 'x', is not supported"));
  CHECK_THAT(complaint(model(graph(around({node("Relu", {"x"}, {"y", "z"})})))),
             Catch::Contains("output 1, 'z', is not supported"));
  CHECK_THAT(complaint(model(graph(around({node("Relu", {"x"}, {})})))), Catch::Contains("has no outputs"));
  CHECK_THAT(complaint(model(graph(around({node("Relu", {"x"}, {"y"}, {}, "elsewhere")})))),
             Catch::Contains("elsewhere.Relu"));
}

TEST_CASE("outputs beyond an operator's are refused, and those that nobody wants are not computed") {
  const auto quantised = [](const std::vector<std::string>& outputs) {
    Graph g = around({node("DynamicQuantizeLinear", {"x"}, outputs)});
    g.outputs = {value("y", ElementType::u8, {2})};
    return model(graph(g));
  };
  CHECK_THAT(complaint(quantised({"y", "s", "z", "more"})),
             Catch::Contains("output 3, 'more', is not supported"));
  const NetGraph made = onnx::parse_graph(quantised({"y", "", "z"}).bytes());
  const NetGraph::Node& only = made.nodes.at(0);
  CHECK(only.kind == "dynamic_quantize");
  CHECK(only.outputs.at(0) != NetGraph::kNone);
  CHECK(only.outputs.at(1) == NetGraph::kNone);
  CHECK(only.outputs.at(2) != NetGraph::kNone);
}

TEST_CASE("names that are missing, given twice, or in a cycle") {
  CHECK_THAT(complaint(model(graph(around({node("Relu", {"nothing"}, {"y"})})))),
             Catch::Contains("'nothing' is read before"));
  CHECK_THAT(complaint(model(graph(around({node("Relu", {"x"}, {"y"}), node("Abs", {"x"}, {"y"})})))),
             Catch::Contains("'y' is given twice"));
  CHECK_THAT(complaint(model(graph(around(
                 {node("Add", {"x", "b"}, {"a"}), node("Relu", {"a"}, {"b"}), node("Relu", {"b"}, {"y"})})))),
             Catch::Contains("'b' is read before"));
  CHECK_THAT(complaint(model(graph(around({node("Relu", {"x"}, {"z"})})))),
             Catch::Contains("'y' is read before"));
  Graph twice = around({node("Relu", {"x"}, {"y"})});
  twice.initializers = {floats("w", {1}), floats("w", {2})};
  CHECK_THAT(complaint(model(graph(twice))), Catch::Contains("'w'") && Catch::Contains("twice"));
}

TEST_CASE("versions beyond those that are known") {
  const Message nodes = graph(around({node("Relu", {"x"}, {"y"})}));
  CHECK_THAT(complaint(model(nodes, 29)), Catch::Contains("opset 29"));
  CHECK_THAT(complaint(Message().integer(1, 15).message(7, nodes).message(8, opset("", 21))),
             Catch::Contains("IR version 15"));
  CHECK_THAT(complaint(Message().integer(1, 10).message(8, opset("", 21))), Catch::Contains("no graph"));
}

TEST_CASE("functions of the model are written out, each with names and attributes of its own") {
  // scaled(a; alpha) = LeakyRelu(a; alpha) + a; the name "x" inside is not the graph's.
  const Message scaled =
      function("scaled", {"x"}, {"r"}, {"slope"},
               {node("LeakyRelu", {"x"}, {"h"}, {reference_attribute("alpha", Type::number, "slope")}),
                node("Add", {"h", "x"}, {"r"})});
  const Graph g =
      around({node("Neg", {"x"}, {"n"}), node("scaled", {"n"}, {"y"}, {attribute("slope", 0.5F)}, "own")});
  CHECK(run(with_function(g, {scaled})) == std::vector<float>{-4.5F, 8});
  // Without the attribute LeakyRelu has its own standard.
  const Graph standard = around({node("scaled", {"x"}, {"y"}, {}, "own")});
  CHECK(run(with_function(standard, {scaled})) == std::vector<float>{6, -4.04F});
  // An outer function hands its attribute on.
  const Message outer =
      function("outer", {"a"}, {"b"}, {"s"},
               {node("scaled", {"a"}, {"b"}, {reference_attribute("slope", Type::number, "s")}, "own")});
  const Graph nested = around({node("outer", {"x"}, {"y"}, {attribute("s", 0.25F)}, "own")});
  CHECK(run(with_function(nested, {scaled, outer})) == std::vector<float>{6, -5});
}

TEST_CASE("an operator of the opset is what the standard says, whatever the model's functions are called") {
  const auto own = [](const std::string& name, const std::string& domain, int64_t version) {
    Message made = Message().text(1, name).text(4, "x").text(5, "r");
    made.message(7, node("Neg", {"x"}, {"r"})).message(9, opset("", version));
    return made.text(10, domain);
  };
  const auto with = [&](const std::string& op, const std::string& domain, int64_t version) {
    Message made = model(graph(around({node(op, {"x"}, {"y"}, {}, domain)})), version);
    return made.message(25, own(op, domain, version));
  };
  CHECK(run(with("Relu", "", 21)) == std::vector<float>{3, 0});
  CHECK(run(with("Relu", "ai.onnx", 21)) == std::vector<float>{3, 0});
  CHECK(run(with("Abs", "", 13)) == std::vector<float>{3, 4});
  // Opset 13 has no Mish, and none has Teleport: these are the model's.
  CHECK(run(with("Mish", "", 13)) == std::vector<float>{-3, 4});
  CHECK(run(with("Mish", "", 18)) != std::vector<float>{-3, 4});
  CHECK(run(with("Teleport", "", 21)) == std::vector<float>{-3, 4});
  // A domain that the model imports keeps its operators, one that it does not import has none.
  CHECK(run(with("Gelu", "com.microsoft", 21).message(8, opset("com.microsoft", 1))) !=
        std::vector<float>{-3, 4});
  CHECK(run(with("Gelu", "com.microsoft", 21)) == std::vector<float>{-3, 4});
}

TEST_CASE("the versions that brought operators are those of ONNX's list", "[small]") {
  const struct {
    const char* name;
    int64_t since;
  } some[] = {{"Attention", 23}, {"SwiGLU", 28}, {"Gelu", 20},
              {"Where", 9},      {"Trilu", 14},  {"LayerNormalization", 17}};
  for (const auto& op : some) {
    INFO(op.name);
    CHECK(onnx::is_standard("", op.name, op.since));
    CHECK(!onnx::is_standard("", op.name, op.since - 1));
  }
  CHECK(onnx::is_standard("", "Conv", 7));
  CHECK(!onnx::is_standard("", "SimplifiedLayerNormalization", 21));
}

TEST_CASE("functions that call themselves, or grow without end, are refused") {
  const Message self = function("self", {"x"}, {"r"}, {}, {node("self", {"x"}, {"r"}, {}, "own")});
  CHECK_THAT(complaint(with_function(around({node("self", {"x"}, {"y"}, {}, "own")}), {self})),
             Catch::Contains("deep"));
  std::vector<Message> functions{function("f0", {"x"}, {"r"}, {}, {node("Neg", {"x"}, {"r"})})};
  for (int i = 1; i < 30; i++) {
    const std::string below = "f" + std::to_string(i - 1);
    functions.push_back(
        function("f" + std::to_string(i), {"x"}, {"r"}, {},
                 {node(below, {"x"}, {"h"}, {}, "own"), node(below, {"h"}, {"r"}, {}, "own")}));
  }
  CHECK_THAT(complaint(with_function(around({node("f29", {"x"}, {"y"}, {}, "own")}), functions)),
             Catch::Contains("nodes"));
}

TEST_CASE("a branch sees the names around it, constants among them") {
  Graph then, otherwise;
  then.nodes = {node("Add", {"x", "w"}, {"t"})};
  then.outputs = {input("t", {2})};
  otherwise.nodes = {node("Mul", {"h", "w"}, {"e"})};
  otherwise.outputs = {input("e", {2})};
  Graph g = around({node("Neg", {"x"}, {"h"}), node("ReduceMax", {"x"}, {"m"}, {attribute("keepdims", 0)}),
                    node("Constant", {}, {"limit"}, {attribute("value_float", 3.5F)}),
                    node("Greater", {"m", "limit"}, {"c"}),
                    node("If", {"c"}, {"y"},
                         {graph_attribute("then_branch", graph(then)),
                          graph_attribute("else_branch", graph(otherwise))})});
  g.initializers = {floats("w", {10, 20})};
  const Model made(onnx::parse_graph(model(graph(g)).bytes()));
  const auto y = [&](std::vector<float> x) {
    return host_values(made.run(stream(), {{"x", device_tensor({2}, x)}}).at("y"));
  };
  CHECK(y({4, 1}) == std::vector<float>{14, 21});
  CHECK(y({1, 3}) == std::vector<float>{-10, -60});
}

TEST_CASE("a damaged model is refused at every length") {
  Graph g = around({node("Add", {"x", "b"}, {"h"}), node("Relu", {"h"}, {"y"})});
  g.initializers = {floats("b", {1, 1})};
  const std::string whole = model(graph(g)).bytes();
  for (size_t length = 0; length < whole.size(); length++) {
    try {
      onnx::parse_graph(std::string_view(whole).substr(0, length));
    } catch (const Error&) {  // most are; some prefixes are models, too
    }
  }
  CHECK_THROWS_AS(onnx::parse_graph(std::string_view(whole).substr(0, whole.size() / 2)), Error);
}

TEST_CASE("sequences of known length are their members") {
  Graph g =
      around({node("Concat", {"x", "x"}, {"four"}, {attribute("axis", 0)}),
              node("SplitToSequence", {"four", "sizes"}, {"parts"}, {attribute("axis", 0)}),
              node("SequenceAt", {"parts", "last"}, {"b"}), node("SequenceAt", {"parts", "first"}, {"a"}),
              node("Sub", {"b", "a"}, {"d"}), node("SequenceConstruct", {"d", "a"}, {"pair"}),
              node("ConcatFromSequence", {"pair"}, {"all"}, {attribute("axis", 0)}),
              node("SequenceLength", {"pair"}, {"n"}), node("Cast", {"n"}, {"real"}, {attribute("to", 1)}),
              node("Mul", {"all", "real"}, {"y"})});
  g.initializers = {tensor("sizes", ElementType::i64, {2}, raw_bytes<int64_t>({1, 3})),
                    tensor("first", ElementType::i64, {}, raw_bytes<int64_t>({0})),
                    tensor("last", ElementType::i64, {}, raw_bytes<int64_t>({-1}))};
  g.outputs = {input("y", {4})};
  CHECK(run(model(graph(g))) == std::vector<float>{-14, 0, -14, 6});  // ([-4, 3, -4] - 3, 3) times 2
  g.nodes.push_back(node("Relu", {"pair"}, {"z"}));
  CHECK_THAT(complaint(model(graph(g))), Catch::Contains("does not take its input 0, a sequence"));
  g.nodes.back() = node("SequenceAt", {"x", "first"}, {"z"});
  CHECK_THAT(complaint(model(graph(g))), Catch::Contains("no sequence made in this graph"));
  g.nodes.back() = node("SplitToSequence", {"four", "n"}, {"z"});
  CHECK_THAT(complaint(model(graph(g))), Catch::Contains("how many parts there are is not known"));
}

TEST_CASE("sequences of parts of one size are as long as the declared shape says") {
  // x is [3, -4]: parts of 2 of [3, -4, 3, -4, 3] are [3, -4], [3, -4], [3].
  Graph g =
      around({node("Slice", {"x", "zero", "one"}, {"begin"}),
              node("Concat", {"x", "x", "begin"}, {"five"}, {attribute("axis", 0)}),
              node("SplitToSequence", {"five", "two"}, {"parts"}, {attribute("axis", -1)}),
              node("SequenceLength", {"parts"}, {"n"}), node("Cast", {"n"}, {"scalar"}, {attribute("to", 1)}),
              node("Reshape", {"scalar", "one"}, {"real"}), node("SequenceAt", {"parts", "first"}, {"a"}),
              node("SequenceAt", {"parts", "last"}, {"end"}),
              node("Concat", {"a", "real", "end"}, {"y"}, {attribute("axis", 0)})});
  const auto integer = [](const char* name, const std::vector<int64_t>& shape, int64_t value) {
    return tensor(name, ElementType::i64, shape, raw_bytes<int64_t>({value}));
  };
  g.initializers = {integer("two", {}, 2), integer("first", {}, 0), integer("last", {}, -1),
                    integer("zero", {1}, 0), integer("one", {1}, 1)};
  g.outputs = {input("y", {4})};
  const auto declared = [&](int64_t size) {
    Graph with = g;
    with.values = {value("five", ElementType::f32, {size})};
    return model(graph(with));
  };
  CHECK(run(declared(5)) == std::vector<float>{3, -4, 3, 3});
  CHECK_THAT(complaint(model(graph(g))), Catch::Contains("whose size the file does not declare"));
  CHECK_THAT(complaint(declared(int64_t{1} << 40)), Catch::Contains("more than 65536 parts"));
  CHECK_THROWS_WITH(run(declared(6)), Catch::Contains("is not that of axis"));  // it is not believed
  g.initializers[0] = integer("two", {}, 0);
  CHECK_THAT(complaint(declared(5)), Catch::Contains("parts of size 0"));
  // Without a size parts are of one place; without keepdims they lose the axis.
  g.nodes[2] = node("SplitToSequence", {"five"}, {"parts"}, {attribute("keepdims", 0)});
  g.nodes[8] = node("Sub", {"a", "end"}, {"difference"});
  g.nodes.push_back(node("Reshape", {"difference", "one"}, {"row"}));
  g.nodes.push_back(node("Concat", {"row", "real"}, {"y"}, {attribute("axis", 0)}));
  g.outputs = {input("y", {2})};
  g.initializers[2] = integer("last", {}, -2);
  CHECK(run(declared(5)) == std::vector<float>{7, 5});  // 3 - -4, and five parts
}

TEST_CASE("a convolution takes a bias that is a view") {
  Graph g;
  g.inputs = {input("x", {1, 1, 2, 2}), input("b", {4})};
  g.outputs = {input("y", {1, 2, 2, 2}), input("z", {1, 2, 2, 2})};
  g.initializers = {tensor("w", ElementType::f32, {2, 1, 1, 1}, raw_bytes<float>({1, 2})),
                    tensor("zero", ElementType::i64, {1}, raw_bytes<int64_t>({0})),
                    tensor("one", ElementType::i64, {1}, raw_bytes<int64_t>({1})),
                    tensor("end", ElementType::i64, {1}, raw_bytes<int64_t>({4})),
                    tensor("two", ElementType::i64, {1}, raw_bytes<int64_t>({2}))};
  g.nodes = {node("Slice", {"b", "zero", "end", "zero", "two"}, {"each"}),
             node("Conv", {"x", "w", "each"}, {"y"}), node("Slice", {"b", "zero", "one"}, {"first"}),
             node("Expand", {"first", "two"}, {"same"}),  // as torch.onnx writes a bias of zeros
             node("Conv", {"x", "w", "same"}, {"z"})};
  const Model made(onnx::parse_graph(model(graph(g)).bytes()));
  const Model::Tensors fed{{"x", device_tensor({1, 1, 2, 2}, {1, 2, 3, 4})},
                           {"b", device_tensor({4}, {10, 0, 20, 0})}};
  for (int run = 0; run < 3; run++) {
    const Model::Tensors y = made.run(stream(), fed);
    CHECK(host_values(y.at("y")) == std::vector<float>{11, 12, 13, 14, 22, 24, 26, 28});
    CHECK(host_values(y.at("z")) == std::vector<float>{11, 12, 13, 14, 12, 14, 16, 18});
  }
}
