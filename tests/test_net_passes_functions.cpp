// Passes: functions that are written out become one node, and the activation of what is in front.
#include <dlprim/net_host.hpp>

#include <cmath>
#include <functional>

#include "cases/rewriting.hpp"
#include "catch.hpp"
#include "support.hpp"

using namespace dlprim;
using namespace dlprim::test;

namespace {

constexpr double kBound = 2e-6;  // of the largest number: some functions of f32

struct Form {
  const char *name, *function;
  std::function<int(RewriteCase& c, int x)> build;
};

int scalar(RewriteCase& c, double value) {
  return c.constant(number(value));
}

/// The clip to 0 and 6 as ONNX's importer has it: between `lower`, maximum or relu, and a minimum.
int six(RewriteCase& c, int x) {
  return c.apply("minimum", {scalar(c, 6), c.apply("maximum", {x, scalar(c, 0)})});
}
int clipped(RewriteCase& c, int x, double least, double most) {
  return c.g.add("elementwise", {x},
                 {{"function", "clip"}, {"parameters", std::vector<double>{least, most}}});
}
int cubic(RewriteCase& c, int x, double factor) {
  const int cube = c.apply("mul", {c.apply("mul", {x, x}), x});
  return c.apply("mul",
                 {scalar(c, factor), c.apply("add", {x, c.apply("mul", {scalar(c, 0.044715), cube})})});
}

const std::vector<Form>& forms() {
  static const double kTanh = std::sqrt(2 / std::acos(-1.0));
  static const std::vector<Form> list = {
      {"x sigmoid(x)", "silu",
       [](RewriteCase& c, int x) {
         return c.apply("mul", {x, c.apply("sigmoid", {x})});
       }},
      {"sigmoid(x) x", "silu",
       [](RewriteCase& c, int x) {
         return c.apply("mul", {c.apply("sigmoid", {x}), x});
       }},
      {"x hardsigmoid(x)", "hardswish",
       [](RewriteCase& c, int x) {
         return c.apply("mul", {x, c.apply("hardsigmoid", {x})});
       }},
      {"x relu6(x + 3) / 6", "hardswish",
       [](RewriteCase& c, int x) {
         const int up = c.apply("add", {x, scalar(c, 3)});
         return c.apply("div", {c.apply("mul", {x, six(c, up)}), scalar(c, 6)});
       }},
      {"x (relu6(3 + x) / 6)", "hardswish",
       [](RewriteCase& c, int x) {
         const int up = c.apply("add", {scalar(c, 3), x});
         return c.apply("mul", {x, c.apply("div", {c.apply("relu6", {up}), scalar(c, 6)})});
       }},
      {"relu6(x + 3) / 6", "hardsigmoid",
       [](RewriteCase& c, int x) {
         const int up = c.apply("add", {x, scalar(c, 3)});
         return c.apply("div", {clipped(c, up, 0, 6), scalar(c, 6)});
       }},
      {"clip(x / 6 + 1/2, 0, 1)", "hardsigmoid",
       [](RewriteCase& c, int x) {
         return clipped(c, c.apply("add", {c.apply("mul", {x, scalar(c, 1.0 / 6)}), scalar(c, 0.5)}), 0, 1);
       }},
      {"x (1 + erf(x / sqrt 2)) / 2", "gelu",
       [](RewriteCase& c, int x) {
         const int e = c.apply("erf", {c.apply("div", {x, scalar(c, std::sqrt(2.0))})});
         return c.apply("mul", {c.apply("mul", {x, c.apply("add", {e, scalar(c, 1)})}), scalar(c, 0.5)});
       }},
      {"(0.5 x) (1 + erf(x sqrt 1/2))", "gelu",
       [](RewriteCase& c, int x) {
         const int e = c.apply("erf", {c.apply("mul", {x, scalar(c, std::sqrt(0.5))})});
         return c.apply("mul", {c.apply("mul", {scalar(c, 0.5), x}), c.apply("add", {scalar(c, 1), e})});
       }},
      {"x (0.5 + 0.5 erf(x / sqrt 2))", "gelu",
       [](RewriteCase& c, int x) {
         const int e = c.apply("erf", {c.apply("div", {x, scalar(c, std::sqrt(2.0))})});
         return c.apply("mul", {c.apply("add", {c.apply("mul", {e, scalar(c, 0.5)}), scalar(c, 0.5)}), x});
       }},
      {"0.5 x (1 + tanh(...)) with products", "gelu_tanh",
       [](RewriteCase& c, int x) {
         const int t = c.apply("tanh", {cubic(c, x, kTanh)});
         return c.apply("mul", {c.apply("mul", {x, scalar(c, 0.5)}), c.apply("add", {t, scalar(c, 1)})});
       }},
      {"x (0.5 (1 + tanh(...))) with a power", "gelu_tanh",
       [](RewriteCase& c, int x) {
         const int cube = c.apply("pow", {x, scalar(c, 3)});
         const int z = c.apply("add", {x, c.apply("mul", {cube, scalar(c, 0.044715)})});
         const int t = c.apply("tanh", {c.apply("mul", {z, scalar(c, kTanh)})});
         return c.apply("mul", {x, c.apply("mul", {c.apply("add", {t, scalar(c, 1)}), scalar(c, 0.5)})});
       }},
      {"tanh(c x (1 + 0.044715 x x))", "gelu_tanh",
       [](RewriteCase& c, int x) {
         const int inner =
             c.apply("add", {scalar(c, 1), c.apply("mul", {c.apply("mul", {scalar(c, 0.044715), x}), x})});
         const int t = c.apply("tanh", {c.apply("mul", {c.apply("mul", {x, scalar(c, kTanh)}), inner})});
         return c.apply("mul", {c.apply("mul", {scalar(c, 0.5), x}), c.apply("add", {scalar(c, 1), t})});
       }},
      {"x sigmoid(2 ...)", "gelu_tanh",
       [](RewriteCase& c, int x) {
         return c.apply("mul", {x, c.apply("sigmoid", {cubic(c, x, 2 * kTanh)})});
       }},
  };
  return list;
}

}  // namespace

TEST_CASE("passes: functions that are written out are one, alone and behind a product or convolution") {
  for (const Form& form : forms()) {
    INFO(form.name);
    RewriteCase alone;  // of what is no product
    alone.g.add_output("y", form.build(alone, alone.apply("exp", {alone.input({4, 6})})));
    CHECK(alone.rewritten(kBound, {"pointwise"}) == "elementwise elementwise");
    CHECK(alone.attribute(1, "function") == form.function);
    CHECK(alone.rewritten(kBound, {"pointwise", "functions"}) != "elementwise elementwise");
    RewriteCase conv;  // small numbers, where the functions are not yet straight
    const int image = conv.apply("mul", {conv.input({2, 3, 5, 6}), scalar(conv, 1.0 / 32)});
    conv.g.add_output("y", form.build(conv, conv.conv(image, {4, 3, 3, 3}, true)));
    // (What x + 3 and x / 6 are is part of the convolution before, where x is read once.)
    CHECK(conv.rewritten(kBound, {"affine"}) == "elementwise conv");
    CHECK(conv.attribute(1, "activation") == form.function);
    RewriteCase matmul;
    const int a = matmul.apply("mul", {matmul.input({3, 5, 4}), scalar(matmul, 1.0 / 16)});
    const int product = matmul.g.add("matmul", {a, matmul.constant(whole_numbers({4, 3}, 5))});
    const int biased = matmul.apply("add", {product, matmul.constant(whole_numbers({3}, 6))});
    matmul.g.add_output("y", form.build(matmul, biased));
    CHECK(matmul.rewritten(kBound) == "elementwise matmul");
    CHECK(matmul.attribute(1, "activation") == form.function);
  }
}

TEST_CASE("passes: activations of all names are epilogues, and only with their own parameters") {
  for (const char* f :
       {"relu", "relu6", "sigmoid", "tanh", "hardsigmoid", "silu", "hardswish", "gelu", "gelu_tanh"}) {
    RewriteCase c;
    const int x = c.apply("mul", {c.input({2, 3, 5, 6}), scalar(c, 1.0 / 32)});
    c.g.add_output("y", c.apply(f, {c.conv(x, {4, 3, 3, 3})}));
    CHECK(c.rewritten(kBound) == "elementwise conv");
    CHECK(c.attribute(1, "activation") == f);
  }
  for (const char* f : {"mish", "elu", "exp", "square"}) {
    RewriteCase c;
    const int x = c.apply("mul", {c.input({2, 3, 5, 6}), scalar(c, 1.0 / 64)});
    c.g.add_output("y", c.apply(f, {c.conv(x, {4, 3, 3, 3})}));
    CHECK(c.rewritten(kBound) == "elementwise conv elementwise");
  }
}

TEST_CASE("passes: what only looks like a function stays") {
  const auto rewritten = [](const std::function<int(RewriteCase&, int)>& build) {
    RewriteCase c;
    c.g.add_output("y", build(c, c.apply("exp", {c.input({4, 6})})));
    c.rewritten(kBound, {"pointwise"});
    std::string functions;
    for (size_t n = 1; n < c.graph.nodes.size(); n++) functions += c.attribute(n, "function") + " ";
    return functions;
  };
  // Of another value; with other factors; where the inner function is an output, or read by others.
  CHECK(rewritten([](RewriteCase& c, int x) {
          return c.apply("mul", {c.apply("sigmoid", {x}), c.apply("neg", {x})});
        }) == "sigmoid neg mul ");
  CHECK(rewritten([](RewriteCase& c, int x) {
          return c.apply("mul", {x, c.apply("sigmoid", {c.apply("mul", {x, scalar(c, 1.702)})})});
        }) == "mul sigmoid mul ");
  CHECK(rewritten([](RewriteCase& c, int x) {
          const int s = c.apply("sigmoid", {x});
          c.g.add_output("s", s);
          return c.apply("mul", {x, s});
        }) == "sigmoid mul ");
  CHECK(rewritten([](RewriteCase& c, int x) {
          const int s = c.apply("sigmoid", {x});
          return c.apply("add", {c.apply("mul", {x, s}), s});
        }) == "sigmoid mul add ");
  CHECK(rewritten([](RewriteCase& c, int x) {
          const int e = c.apply("erf", {c.apply("div", {x, scalar(c, 1.5)})});
          return c.apply("mul", {c.apply("mul", {x, c.apply("add", {e, scalar(c, 1)})}), scalar(c, 0.5)});
        }) == "div erf add mul mul ");
  CHECK(rewritten([](RewriteCase& c, int x) {
          return c.apply("mul", {x, clipped(c, c.apply("add", {x, scalar(c, 3)}), 0, 5)});
        }) == "add clip mul ");
  // A constant that makes more axes of the result.
  CHECK(rewritten([](RewriteCase& c, int x) {
          const int half = c.constant(host_tensor(DType::f32, {1, 1, 1}, std::vector<double>{6}));
          const int up = c.apply("relu6", {c.apply("add", {x, scalar(c, 3)})});
          return c.apply("div", {c.apply("mul", {x, up}), half});
        }) == "add relu6 mul div ");
  // A gate of each channel is no function of the value.
  RewriteCase gate;
  const int x = gate.input({2, 4, 3});
  gate.g.add_output("y", gate.apply("mul", {x, gate.apply("sigmoid", {gate.input({2, 4, 1})})}));
  CHECK(gate.rewritten(kBound, {"pointwise"}) == "elementwise elementwise");
  // What else reads a part keeps it.
  RewriteCase shared;
  const int z = shared.apply("exp", {shared.input({4, 6})}),
            half = shared.apply("mul", {z, scalar(shared, 0.5)});
  const int e = shared.apply("erf", {shared.apply("div", {z, scalar(shared, std::sqrt(2.0))})});
  shared.g.add_output("y", shared.apply("mul", {half, shared.apply("add", {e, scalar(shared, 1)})}));
  shared.g.add_output("half", half);
  CHECK(shared.rewritten(kBound, {"pointwise"}) == "elementwise elementwise elementwise");
}

TEST_CASE("passes: a GELU of 16-bit floats, whose constants are rounded") {
  for (DType dtype : {DType::f16, DType::bf16}) {
    RewriteCase c;
    const auto scalar = [&](double value) {
      return c.constant(host_tensor(dtype, {}, std::vector<double>{value}));
    };
    const int x = c.apply("sin", {c.input({4, 6}, dtype)});
    const int e = c.apply("erf", {c.apply("div", {x, scalar(std::sqrt(2.0))})});
    c.g.add_output("y", c.apply("mul", {c.apply("mul", {x, c.apply("add", {e, scalar(1)})}), scalar(0.5)}));
    CHECK(c.rewritten(dtype == DType::f16 ? 2e-3 : 2e-2, {"pointwise"}) == "elementwise elementwise");
  }
}
