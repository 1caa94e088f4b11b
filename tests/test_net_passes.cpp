// Passes: what becomes of small graphs, and that they give the same. Numbers are small and whole where
// results must be equal bit for bit.
#include "net/passes/pass.hpp"

#include <map>
#include <set>

#include <dlprim/conv.hpp>
#include <dlprim/net_host.hpp>

#include "cases/rewriting.hpp"
#include "catch.hpp"
#include "support.hpp"

using namespace dlprim;
using namespace dlprim::test;

namespace {

using Case = RewriteCase;

}  // namespace

TEST_CASE("passes: BatchNorm and affine constants go into a convolution, with or without bias") {
  for (const bool bias : {false, true}) {
    Case c;
    int y = c.batch_norm(c.conv(c.input({2, 3, 5, 6}), {4, 3, 3, 3}, bias), 4);
    y = c.apply("mul", {y, c.constant(whole_numbers({1, 4, 1, 1}, 7))});
    y = c.apply("add", {c.constant(whole_numbers({4, 1, 1}, 8)), y});
    c.g.add_output("y", c.apply("relu", {y}));
    CHECK(c.rewritten() == "conv");
    CHECK(c.attribute(0, "activation") == "relu");
    CHECK(c.rewritten(0, {"affine"}) == "conv batch_norm pointwise");
  }
}

TEST_CASE("passes: what is no constant for each channel stays outside of a convolution") {
  Case c;
  const int y = c.conv(c.input({2, 3, 5, 6}), {4, 3, 3, 3});
  c.g.add_output("columns", c.apply("mul", {y, c.constant(whole_numbers({6}, 7))}));
  CHECK(c.rewritten() == "conv elementwise");
  Case two;  // two readers
  const int z = two.conv(two.input({2, 3, 5, 6}), {4, 3, 3, 3});
  two.g.add_output("a", two.batch_norm(z, 4));
  two.g.add_output("b", two.apply("relu", {z}));
  CHECK(two.rewritten() == "conv batch_norm elementwise");
}

TEST_CASE("passes: a residual and an activation go into a convolution, wherever the residual comes from") {
  Case c;
  const int x = c.input({1, 4, 6, 5});
  const int y = c.conv(x, {4, 4, 3, 3}, true);
  const int late = c.apply("square", {x});  // made after the convolution
  c.g.add_output("y", c.apply("relu", {c.apply("add", {late, y})}));
  CHECK(c.rewritten() == "elementwise conv");
  CHECK(c.graph.nodes[1].inputs.size() == 4);
  Case self;  // x + conv(x), then clipped to [0, 6] as exporters write it
  const int v = self.input({1, 4, 6, 5});
  int z = self.apply("add", {self.conv(v, {4, 4, 3, 3}), v});
  z = self.apply("minimum", {self.apply("maximum", {z, self.constant(number(0))}), self.constant(number(6))});
  self.g.add_output("y", z);
  CHECK(self.rewritten() == "conv");
  CHECK(self.attribute(0, "activation") == "relu6");
}

TEST_CASE("passes: another gradient goes into a convolution's backward data, an activation does not") {
  for (const bool transposed : {false, true})
    for (const int64_t stride : {1, 2}) {
      INFO("transposed " << transposed << " stride " << stride);
      Case c;
      ConvParams params;
      params.stride = {stride, stride}, params.pad_begin = {1, 0}, params.pad_end = {0, 1};
      params.dilation = {1, 2}, params.transposed = transposed;
      const Shape x{2, 4, 8, 9}, w = transposed ? Shape{4, 6, 3, 3} : Shape{6, 4, 3, 3};
      const int dy = c.input(conv_output_shape(x, w, params)), other = c.input(x);
      const auto list_of = [](const Dims& dims) { return std::vector<int64_t>(dims.begin(), dims.end()); };
      const int dx = c.g.add("conv_backward_data",
                             {dy, c.constant(whole_numbers(w, 5)), c.constant(sizes({2, 4, 8, 9}))},
                             {{"stride", list_of(params.stride)},
                              {"pad_begin", list_of(params.pad_begin)},
                              {"pad_end", list_of(params.pad_end)},
                              {"dilation", list_of(params.dilation)},
                              {"transposed", transposed}});
      c.g.add_output("y", c.apply("relu", {c.apply("add", {other, dx})}));
      CHECK(c.rewritten() == "conv_backward_data elementwise");
      CHECK(c.graph.nodes[0].inputs.size() == 4);
    }
}

TEST_CASE("passes: a clip to 0 and 6 is an activation, any other is none") {
  for (const double most : {6.0, 5.0}) {
    Case c;
    const int y = c.conv(c.input({2, 3, 5, 6}), {4, 3, 3, 3});
    c.g.add_output("y", c.g.add("elementwise", {y},
                                {{"function", "clip"}, {"parameters", std::vector<double>{0, most}}}));
    CHECK(c.rewritten() == (most == 6 ? "conv" : "conv elementwise"));
  }
}

TEST_CASE("passes: after an activation nothing more goes in, and outputs stay outputs") {
  Case c;
  const int x = c.input({1, 4, 6, 5});
  const int y = c.conv(x, {4, 4, 3, 3});
  const int h = c.apply("relu", {y});
  c.g.add_output("y", c.apply("add", {h, x}));
  c.g.add_output("h", h);
  CHECK(c.rewritten() == "conv elementwise");
  CHECK(c.attribute(0, "activation") == "relu");
}

TEST_CASE("passes: bias, residual and activation of matrix products") {
  Case c;
  const int x = c.input({2, 5, 4}), r = c.input({2, 5, 3});
  const int product = c.g.add("matmul", {x, c.constant(whole_numbers({4, 3}, 5))});
  const int biased = c.apply("add", {product, c.constant(whole_numbers({1, 3}, 6))});
  c.g.add_output("y", c.apply("relu", {c.apply("add", {biased, r})}));
  CHECK(c.rewritten() == "matmul");
  CHECK(c.graph.nodes[0].inputs.size() == 4);
  Case rows;  // one number for each row is no bias
  const int p = rows.g.add("matmul", {rows.input({5, 4}), rows.constant(whole_numbers({4, 3}, 5))});
  rows.g.add_output("y", rows.apply("add", {p, rows.constant(whole_numbers({5, 1}, 6))}));
  CHECK(rows.rewritten() == "matmul elementwise");
}

TEST_CASE("passes: elementwise nodes in a row become one kernel") {
  Case c;  // x * clip(x + 3, 0, 6) / 6, with more than one use of x
  const int x = c.input({3, 4, 5});
  const int shifted = c.apply("add", {x, c.constant(number(3))});
  const int clipped =
      c.apply("minimum", {c.apply("maximum", {shifted, c.constant(number(0))}), c.constant(number(6))});
  const int product = c.apply("mul", {x, clipped});
  c.g.add_output("y", c.g.add("elementwise", {product},
                              {{"function", "affine"}, {"parameters", std::vector<double>{0.5, 2}}}));
  CHECK(c.rewritten() == "pointwise");
  CHECK(c.graph.nodes[0].inputs == std::vector<int>{x});
}

TEST_CASE("passes: names in one expression are no other's, and conditions may be truths") {
  Case c;
  const int x = c.input({4, 6}), z = c.input({6});
  const int a = c.g.add(
      "pointwise", {x, z},
      {{"body", "const real v = s0 * x0 + x1; y0 = v > 1e1 ? v : -v"}, {"scalars", std::vector<double>{2}}});
  const int b =
      c.g.add("pointwise", {a},
              {{"body", "const real v = x0 + s0; y0 = v * v"}, {"scalars", std::vector<double>{5}}});
  const int truth = c.apply("less", {b, x});
  c.g.add_output("y", c.apply("where", {truth, x, b}));
  CHECK(c.rewritten() == "pointwise pointwise");  // b has two readers
  Case one;
  const int u = one.input({4, 6}), w = one.input({6});
  const int lesser = one.apply("less", {one.apply("neg", {u}), w});
  one.g.add_output("y", one.apply("where", {lesser, u, w}));
  CHECK(one.rewritten() == "pointwise");
}

TEST_CASE("passes: a BatchNorm in training stays") {
  Case c;
  const int y = c.batch_norm(c.conv(c.input({2, 3, 5, 6}), {4, 3, 3, 3}), 4);
  c.g.nodes.back().attributes.at("training") = 1;
  c.g.add_output("y", y);
  CHECK(c.rewritten() == "conv batch_norm");
  // With a residual, unless that comes from behind it.
  for (const bool late : {false, true}) {
    Case with;
    const int x = with.input({2, 4, 5, 6});
    const int before = with.apply("square", {x});
    const int z = with.batch_norm(x, 4);
    with.g.nodes.back().attributes.at("training") = 1;
    with.g.add_output("y", with.apply("add", {late ? with.apply("abs", {x}) : before, z}));
    with.g.add_output("z", before);
    CHECK(with.rewritten() == (late ? "elementwise batch_norm pointwise" : "elementwise batch_norm"));
  }
}

TEST_CASE("passes: a gate of each channel is computed where it is used, if it calls no function") {
  Case c;
  const int x = c.input({2, 3, 4, 5}), gate = c.apply("hardsigmoid", {c.input({2, 3, 1, 1})});
  c.g.add_output("y", c.apply("mul", {x, gate}));
  CHECK(c.rewritten(1e-6) == "pointwise");
  Case two;  // once, for two readers
  const int z = two.apply("relu", {two.input({6})});
  two.g.add_output("a", two.apply("mul", {two.input({4, 6}), z}));
  two.g.add_output("b", two.apply("add", {two.input({4, 6}), z}));
  CHECK(two.rewritten() == "elementwise elementwise elementwise");
}

TEST_CASE("passes: what is made of constants alone is a constant, and a convolution's bias then") {
  NetGraph g;
  const int x = g.add_input("x", DType::f32, {{1}, {3}, {5}, {6}});
  const int w = g.add_constant(whole_numbers({4, 3, 3, 3}, 3));
  const int bias =
      g.add("reshape", {g.add_constant(whole_numbers({4}, 4)), g.add_constant(sizes({1, 4, 1, 1}))});
  const int twice = g.add("elementwise", {bias, bias}, {{"function", "add"}});
  const int y = g.add("elementwise", {g.add("conv", {x, w}), twice}, {{"function", "add"}});
  g.add_output("y", g.add("elementwise", {y}, {{"function", "relu"}}));
  g.add_output("twice", twice);
  const Tensor fed = to_device(stream(), whole_numbers({1, 3, 5, 6}, 5));
  const auto steps_of = [&](const Model& model) {
    std::string kinds;
    for (const Model::Plan::Step& step : model.explain(stream(), {{"x", fed}}).steps)
      kinds += step.node.kind + " ";
    return kinds;
  };
  const Model all(g), few(g, {"constants"});
  CHECK(steps_of(all) == "conv ");
  CHECK(steps_of(few) == "conv pointwise ");
  const auto outputs = [&](const Model& model, const char* name) {
    return host_values(model.run(stream(), {{"x", fed}}).at(name));
  };
  for (const char* name : {"y", "twice"}) {
    const std::vector<float> expected = outputs(Model(g), name);
    for (int run = 0; run < 3; run++) {
      CHECK(outputs(all, name) == expected);
      CHECK(outputs(few, name) == expected);
    }
  }
}

TEST_CASE("passes: zeros around a convolution's input are its padding") {
  struct Kind {
    std::vector<double> widths;
    double value;
    const char *mode, *kinds;
  };
  const std::string before = "elementwise ";
  for (const Kind& kind : {Kind{{0, 0, 1, 0, 0, 0, 2, 3}, 0, "constant", "conv"},
                           Kind{{0, 0, 0, 0, 0, 0, 0, 1}, 0, "constant", "conv"},
                           Kind{{0, 0, 1, 0, 0, 0, 2, 3}, 1, "constant", "pad conv"},
                           Kind{{0, 0, 1, 1, 0, 0, 1, 1}, 0, "reflect", "pad conv"},
                           Kind{{0, 1, 1, 0, 0, 0, 2, 3}, 0, "constant", "pad conv"},
                           Kind{{0, 0, -1, 0, 0, 0, 2, 3}, 0, "constant", "pad conv"}}) {
    INFO(kind.kinds << " " << kind.mode << " " << kind.value);
    Case c;
    const int x = c.apply("neg", {c.input({2, 3, 5, 6})});
    const int padded =
        c.g.add("pad", {x, c.constant(sizes(kind.widths)), c.constant(number(kind.value)), NetGraph::kNone},
                {{"mode", kind.mode}});
    const int64_t channels = kind.widths[1] == 0 ? 3 : 4;
    c.g.add_output("y", c.conv(padded, {4, channels, 3, 3}));
    CHECK(c.rewritten() == before + kind.kinds);
  }
  Case two;  // the padded tensor is read elsewhere too
  const int padded =
      two.g.add("pad", {two.input({2, 3, 5, 6}), two.constant(sizes({0, 0, 1, 1, 0, 0, 1, 1}))});
  two.g.add_output("y", two.conv(padded, {4, 3, 3, 3}));
  two.g.add_output("z", two.apply("neg", {padded}));
  CHECK(two.rewritten() == "pad conv elementwise");
}

TEST_CASE("passes: norms that are written out become one node") {
  enum class Root : uint8_t { quotient, reciprocal, inverse };
  for (const Root root : {Root::quotient, Root::reciprocal, Root::inverse})
    for (const bool centred : {true, false})
      for (const int parameters : {0, 1, 2}) {
        INFO("root " << static_cast<int>(root) << ", centred " << centred << ", parameters " << parameters);
        Case c;
        const int x = c.apply("relu", {c.input({3, 4, 10})});
        const auto mean = [&](int of) {
          return c.g.add(
              "reduce", {of},
              {{"function", "mean"}, {"axes", std::vector<int64_t>{centred ? -1 : 2}}, {"keep_dims", 1}});
        };
        const int d = centred ? c.apply("sub", {x, mean(x)}) : x;
        const int square = centred ? c.apply("pow", {d, c.constant(number(2))}) : c.apply("mul", {d, d});
        const int e = c.apply("add", {mean(square), c.constant(number(0.01))});
        const int s = c.apply("sqrt", {e});
        int y = root == Root::quotient     ? c.apply("div", {d, s})
                : root == Root::reciprocal ? c.apply("mul", {c.apply("reciprocal", {s}), d})
                                           : c.apply("mul", {d, c.apply("div", {c.constant(number(1)), s})});
        if (parameters > 0) y = c.apply("mul", {c.constant(whole_numbers({10}, 7)), y});
        if (parameters > 1) y = c.apply("add", {y, c.constant(whole_numbers({1, 1, 10}, 8))});
        c.g.add_output("y", y);
        const std::string norm = "elementwise layer_norm", all = c.rewritten(1e-5);
        CHECK(all == (parameters == 2 && !centred ? norm + " elementwise" : norm));
        CHECK(c.rewritten(0, {"norms"}).find("layer_norm") == std::string::npos);
      }
}

TEST_CASE("passes: what only looks like a norm stays") {
  enum class Change : uint8_t { none, mean_read, axis, exponent, negative, root_read, square_of_x };
  for (const Change change : {Change::none, Change::mean_read, Change::axis, Change::exponent,
                              Change::negative, Change::root_read, Change::square_of_x}) {
    INFO(static_cast<int>(change));
    Case c;
    const int x = c.input({3, 4, 10});
    const auto mean = [&](int of, int axis) {
      return c.g.add("reduce", {of},
                     {{"function", "mean"}, {"axes", std::vector<int64_t>{axis}}, {"keep_dims", 1}});
    };
    const int m = mean(x, -1), d = c.apply("sub", {x, m});
    const int squares = c.apply("pow", {change == Change::square_of_x ? x : d,
                                        c.constant(number(change == Change::exponent ? 4 : 2))});
    const double epsilon = change == Change::negative ? -0.01 : 0.01;
    const int s = c.apply(
        "sqrt",
        {c.apply("add", {mean(squares, change == Change::axis ? 1 : -1), c.constant(number(epsilon))})});
    c.g.add_output("y", c.apply("div", {d, s}));
    if (change == Change::mean_read) c.g.add_output("m", c.apply("neg", {m}));
    if (change == Change::root_read) c.g.add_output("s", c.apply("neg", {s}));
    const std::string kinds = c.rewritten(1e-5);
    // A mean that is read elsewhere leaves an RMSNorm of what is left when it is taken off.
    const bool norm = change == Change::none || change == Change::mean_read;
    CHECK((kinds.find("layer_norm") != std::string::npos) == norm);
    if (change == Change::mean_read) CHECK(kinds.find("reduce") != std::string::npos);
  }
}

TEST_CASE("passes: products and what follows them compute in the dtype that a model is asked for") {
  NetGraph g;  // numbers so small and whole that f16 and bf16 hold them
  const int x = g.add_input("x", DType::f32, {{1}, {2}, {4}, {5}});
  const int w = g.add_constant(whole_numbers({3, 2, 1, 1}, 3)), b = g.add_constant(whole_numbers({3}, 4));
  const int c = g.add("elementwise", {g.add("conv", {x, w, b})}, {{"function", "relu"}});
  const int scales = g.add_constant(host_tensor(DType::f32, {4}, std::vector<double>{1, 1, 2, 2}));
  const int large = g.add("resize", {c, NetGraph::kNone, scales}, {{"mode", "nearest"}});
  g.add_output("large", g.add("elementwise", {large, large}, {{"function", "add"}}));
  const int flat = g.add("reshape", {c, g.add_constant(sizes({5, 12}))});
  const int product = g.add("matmul", {flat, g.add_constant(whole_numbers({12, 3}, 5))});
  g.add_output("exp", g.add("elementwise", {product}, {{"function", "exp"}}));
  const Tensor fed = to_device(stream(), whole_numbers({1, 2, 4, 5}, 6));
  const auto dtypes_of = [&](const Model& model) {
    std::map<std::string, std::set<DType>> dtypes;
    for (const Model::Plan::Step& step : model.explain(stream(), {{"x", fed}}).steps)
      for (const auto& [name, desc] : step.outputs) dtypes[step.node.kind].insert(desc.dtype);
    return dtypes;
  };
  const Model plain(g);
  const Model::Tensors expected = plain.run(stream(), {{"x", fed}});
  for (const DType low : {DType::f16, DType::bf16}) {
    INFO(name_of(low));
    const Model model(g, {}, low);
    for (int run = 0; run < 3; run++)
      for (const auto& [name, y] : model.run(stream(), {{"x", fed}})) {
        CHECK(y.dtype() == DType::f32);
        const std::vector<float> got = host_values(y), right = host_values(expected.at(name));
        for (size_t i = 0; i < right.size(); i++)
          CHECK(std::fabs(got[i] - right[i]) <= (name == "exp" ? 2e-6F * right[i] : 0));
      }
    const auto dtypes = dtypes_of(model);
    CHECK(dtypes.at("conv") == std::set<DType>{low});
    CHECK(dtypes.at("resize") == std::set<DType>{low});
    CHECK(dtypes.at("matmul") == std::set<DType>{low});
    CHECK(dtypes_of(Model(g, {"precision"}, low)).at("conv") == std::set<DType>{DType::f32});
  }
  CHECK(dtypes_of(plain).at("conv") == std::set<DType>{DType::f32});
  CHECK_THROWS_WITH(Model(g, {}, DType::f64), Catch::Contains("f64 must be f32, f16 or bf16"));
}

TEST_CASE("passes: nothing that calls a function is computed more often than before, nor in another dtype") {
  Case c;  // [6] is computed once, not for each row
  const int x = c.input({4, 6}), z = c.input({6});
  c.g.add_output("y", c.apply("mul", {x, c.apply("exp", {z})}));
  CHECK(c.rewritten() == "elementwise elementwise");
  Case whole;  // integers wrap and divide otherwise
  const int i = whole.input({4, 6}, DType::i32);
  whole.g.add_output("y", whole.apply("add", {whole.apply("mul", {i, i}), i}));
  CHECK(whole.rewritten() == "elementwise elementwise");
  Case shape;  // a constant with more axes says the result's rank
  const int s = shape.input({6});
  const int t =
      shape.apply("add", {s, shape.constant(host_tensor(DType::f32, {1, 1}, std::vector<double>{1}))});
  shape.g.add_output("y", shape.apply("relu", {t}));
  CHECK(shape.rewritten() == "elementwise elementwise");
}

TEST_CASE("passes: transcendental functions fuse within rounding") {
  Case c;  // a tanh GELU as exporters write it
  const int x = c.input({3, 40});
  const int cube = c.apply("mul", {c.apply("mul", {x, x}), x});
  const int inner = c.apply("add", {x, c.apply("mul", {cube, c.constant(number(0.044715))})});
  const int t = c.apply("tanh", {c.apply("mul", {inner, c.constant(number(0.7978845608))})});
  const int half = c.apply("mul", {x, c.constant(number(0.5))});
  c.g.add_output("y", c.apply("mul", {half, c.apply("add", {t, c.constant(number(1))})}));
  CHECK(c.rewritten(1e-6, {"functions"}) == "pointwise");
  CHECK(c.rewritten(1e-6) == "elementwise");
}

TEST_CASE("passes: what changes nothing goes, but not an output") {
  Case c;
  const int x = c.input({2, 3});
  int h = c.apply("neg", {x});
  h = c.g.add("cast", {h}, {{"dtype", "f32"}});
  h = c.g.add("reshape", {h, c.constant(host_tensor(DType::i64, {2}, std::vector<int64_t>{2, 3}))});
  h = c.g.add("sum_to", {h, c.g.add("shape", {x})});
  h = c.g.add("expand", {h, c.g.add("shape", {x})});
  c.g.add_output("y", c.g.add("identity", {c.apply("exp", {h})}));
  CHECK(c.rewritten() == "pointwise identity");
  CHECK(c.rewritten(0, {"no_ops"}) == "elementwise cast reshape sum_to expand elementwise identity");
  CHECK(c.rewritten(0, {"no_ops", "constants"}) ==
        "elementwise cast reshape shape sum_to expand elementwise identity");
}

TEST_CASE("passes: what nobody reads goes, and names are checked") {
  Case c;
  const int x = c.input({4, 6});
  c.apply("exp", {c.apply("neg", {x})});
  c.g.add_output("y", c.apply("relu", {x}));
  CHECK(c.rewritten() == "elementwise");
  CHECK(c.rewritten(0, {"dead"}) == "elementwise elementwise elementwise");
  CHECK(graph_passes() == std::vector<std::string>{"branches", "integers", "constants", "splits", "no_ops",
                                                   "repeats", "pads", "affine", "products", "norms", "rotary",
                                                   "attention", "functions", "precision", "epilogue",
                                                   "pointwise", "channels_last", "places", "dead"});
  CHECK_THROWS_WITH(Model(c.g, {"affine", "magic"}), Catch::Contains("'magic' is no pass"));

  Case fused;  // in which a dead reader keeps nothing out of a kernel
  const int h = fused.apply("neg", {fused.input({4, 6})});
  fused.apply("exp", {h});
  fused.g.add_output("y", fused.apply("relu", {h}));
  CHECK(fused.rewritten(0) == "pointwise");
}
