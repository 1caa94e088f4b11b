// Element by element: arithmetic, comparisons, activations, conversions.
#include "core/text.hpp"
#include "onnx/operators.hpp"

namespace dlprim::onnx {
namespace {

/// One function of docs/elementwise.md.
void function(NodeImport& node) {
  node.result(node.apply(node.argument, node.all_inputs()));
}

/// The same with one parameter, ONNX's alpha.
void with_alpha(NodeImport& node, double standard) {
  node.result(node.apply(node.argument, {node.in(0)}, {node.number("alpha", standard)}));
}
void alpha_1(NodeImport& node) {
  with_alpha(node, 1);
}
void leaky_relu(NodeImport& node) {
  with_alpha(node, 0.01);
}

/// An expression of x0 and of attributes, s0, s1, ..., and that of its gradient: see the kind's "slope".
int expression(NodeImport& node, const char* body, const char* slope, std::vector<double> scalars,
               Attributes more = {}) {
  more.insert({{"body", body}, {"slope", slope}, {"scalars", std::move(scalars)}});
  return node.emit("pointwise", {node.in(0)}, std::move(more));
}
/// PyTorch's has an alpha of 1/6, ONNX's own one is 0.2.
void hard_sigmoid(NodeImport& node) {
  const double alpha = node.number("alpha", 0.2), beta = node.number("beta", 0.5);
  if (static_cast<float>(alpha) == 1.0F / 6 && beta == 0.5)
    return node.result(node.apply("hardsigmoid", {node.in(0)}));
  node.result(expression(node, "const real v = s0 * x0 + s1; y0 = v <= 0 ? 0 : v >= 1 ? 1 : v",
                         "const real v = s0 * x1 + s1; y0 = v > 0 && v < 1 ? x0 * s0 : 0", {alpha, beta}));
}
void selu(NodeImport& node) {
  node.result(expression(
      node, "y0 = x0 > 0 ? s1 * x0 : s1 * (s0 * expm1((real)x0))",
      "y0 = x1 > 0 ? x0 * s1 : x0 * s1 * s0 * exp((real)x1)",
      {node.number("alpha", 1.67326319217681884765625), node.number("gamma", 1.05070102214813232421875)}));
}
void shrink(NodeImport& node) {
  node.result(expression(node, "y0 = x0 < -s1 ? x0 + s0 : x0 > s1 ? x0 - s0 : 0",
                         "y0 = x1 < -s1 || x1 > s1 ? x0 : 0",
                         {node.number("bias", 0), node.number("lambd", 0.5)}));
}
void thresholded_relu(NodeImport& node) {
  node.result(expression(node, "y0 = x0 > s0 ? x0 : 0", "y0 = x1 > s0 ? x0 : 0", {node.number("alpha", 1)}));
}
/// x sigmoid(alpha x)
int gated(NodeImport& node, double alpha) {
  if (alpha == 1) return node.apply("silu", {node.in(0)});
  return expression(node, "y0 = x0 / (1 + exp(-s0 * x0))",
                    "const real g = 1 / (1 + exp(-s0 * x1)); y0 = x0 * g * (1 + s0 * x1 * (1 - g))", {alpha});
}
void swish(NodeImport& node) {
  node.result(gated(node, node.number("alpha", 1)));
}
/// The shapes of both inputs are one.
void swiglu(NodeImport& node) {
  const int gate = gated(node, node.number("alpha", 1));
  node.result(node.apply("mul", {gate, node.in(1)}));
}
void quick_gelu(NodeImport& node) {
  node.result(gated(node, node.number("alpha", 1.702)));
}
/// NaN is NaN's sign, where PyTorch's is 0.
void sign(NodeImport& node) {
  node.result(expression(node, "y0 = x0 != x0 ? x0 : (x0 > 0) - (x0 < 0)", "0", {}));
}
void is_inf(NodeImport& node) {
  const bool negative = node.integer("detect_negative", 1) != 0,
             positive = node.integer("detect_positive", 1) != 0;
  const char* body = negative && positive ? "y0 = x0 == INFINITY || x0 == -INFINITY"
                     : positive           ? "y0 = x0 == INFINITY"
                     : negative           ? "y0 = x0 == -INFINITY"
                                          : "y0 = 0";
  node.result(expression(node, body, "0", {}, {{"dtype", "bool"}}));
}
void gelu(NodeImport& node) {
  const std::string how = node.text("approximate", "none");
  if (how != "none" && how != "tanh") node.refuse("has approximate '" + how + "', must be none or tanh");
  node.result(node.apply(how == "tanh" ? "gelu_tanh" : "gelu", {node.in(0)}));
}

/// Quotients of whole numbers have no fraction.
void div(NodeImport& node) {
  node.result(node.emit("elementwise", node.all_inputs(), {{"function", "div"}, {"whole", "trunc_divide"}}));
}
void mod(NodeImport& node) {
  const char* name = node.integer("fmod", 0) != 0 ? "fmod" : "remainder";
  node.result(node.apply(name, node.all_inputs()));
}
/// The result is of the base's type.
void pow(NodeImport& node) {
  node.result(node.emit("elementwise", node.all_inputs(), {{"function", "pow"}, {"like", 0}}));
}
void bit_shift(NodeImport& node) {
  const std::string direction = node.text("direction");
  if (direction != "LEFT" && direction != "RIGHT") node.refuse("has direction '" + direction + "'");
  node.result(
      node.apply(direction == "LEFT" ? "bitwise_left_shift" : "bitwise_right_shift", node.all_inputs()));
}

/// Any number of inputs, folded in their order.
int fold(NodeImport& node, const char* name) {
  int value = node.in(0);
  for (int k = 1; k < node.input_count(); k++) value = node.apply(name, {value, node.in(k)});
  return value;
}
void folded(NodeImport& node) {
  node.result(fold(node, node.argument));
}
void mean(NodeImport& node) {
  const int sum = fold(node, "add");
  node.result(node.apply("affine", {sum}, {1.0 / node.input_count(), 0}));
}

void clip_by_attributes(NodeImport& node) {
  constexpr double kMost = 3.4028234663852886e38;
  node.result(node.apply("clip", {node.in(0)}, {node.number("min", -kMost), node.number("max", kMost)}));
}
/// The lower bound first: where they cross, the upper one holds.
void clip(NodeImport& node) {
  int value = node.in(0);
  if (node.has(1)) value = node.apply("maximum", {value, node.in(1)});
  if (node.has(2)) value = node.apply("minimum", {value, node.in(2)});
  node.result(value);
}

void cast_to(NodeImport& node, const Narrow& type) {
  int x = decoded(node, 0);
  Attributes attributes{{"format", type.format},
                        {"saturate", node.integer("saturate", 1)},
                        {"rounding", node.text("round_mode", "up")}};
  if (!type.floating) x = node.emit("cast", {x}, {{"dtype", "i64"}});
  node.result({node.emit("encode", {x}, std::move(attributes)), &type});
}
/// `saturate` and `round_mode` are for 8-bit floats alone.
void cast(NodeImport& node) {
  if (const Narrow* const type = node.narrow("to")) return cast_to(node, *type);
  node.ignore("saturate");
  node.ignore("round_mode");
  node.result(node.emit("cast", {decoded(node, 0)}, {{"dtype", node.dtype("to", ElementType::undefined)}}));
}
void cast_like(NodeImport& node) {
  const auto [like, type] = node.typed_in(1);
  if (type) return cast_to(node, *type);
  node.ignore("saturate");
  node.ignore("round_mode");
  node.result(node.emit("cast", {decoded(node, 0), like}));
}

constexpr OperatorEntry kOperators[] = {
    {"Abs", function, "abs"},
    {"Acos", function, "acos"},
    {"Acosh", function, "acosh"},
    {"Add", function, "add"},
    {"And", function, "logical_and"},
    {"Asin", function, "asin"},
    {"Asinh", function, "asinh"},
    {"Atan", function, "atan"},
    {"Atanh", function, "atanh"},
    {"BitShift", bit_shift},
    {"BitwiseAnd", function, "bitwise_and"},
    {"BitwiseNot", function, "bitwise_not"},
    {"BitwiseOr", function, "bitwise_or"},
    {"BitwiseXor", function, "bitwise_xor"},
    {"Cast", cast},
    {"CastLike", cast_like},
    {"Ceil", function, "ceil"},
    {"Celu", alpha_1, "celu"},
    {"Clip", clip_by_attributes},
    {"Clip", clip, nullptr, 11},
    {"Cos", function, "cos"},
    {"Cosh", function, "cosh"},
    {"Div", div},
    {"Elu", alpha_1, "elu"},
    {"Equal", function, "equal"},
    {"Erf", function, "erf"},
    {"Exp", function, "exp"},
    {"Floor", function, "floor"},
    {"Gelu", gelu},
    {"Greater", function, "greater"},
    {"GreaterOrEqual", function, "greater_equal"},
    {"HardSigmoid", hard_sigmoid},
    {"HardSwish", function, "hardswish"},
    {"IsInf", is_inf},
    {"IsNaN", function, "is_nan"},
    {"LeakyRelu", leaky_relu, "leaky_relu"},
    {"Less", function, "less"},
    {"LessOrEqual", function, "less_equal"},
    {"Log", function, "log"},
    {"Max", folded, "maximum"},
    {"Mean", mean},
    {"Min", folded, "minimum"},
    {"Mish", function, "mish"},
    {"Mod", mod},
    {"Mul", function, "mul"},
    {"Neg", function, "neg"},
    {"Not", function, "logical_not"},
    {"Or", function, "logical_or"},
    {"PRelu", function, "prelu"},
    {"Pow", pow},
    {"QuickGelu", quick_gelu, nullptr, 1, "com.microsoft"},
    {"Reciprocal", function, "reciprocal"},
    {"Relu", function, "relu"},
    {"Round", function, "round"},
    {"Selu", selu},
    {"Shrink", shrink},
    {"Sigmoid", function, "sigmoid"},
    {"Sign", sign},
    {"Sin", function, "sin"},
    {"Sinh", function, "sinh"},
    {"Softplus", function, "softplus"},
    {"Softsign", function, "softsign"},
    {"Sqrt", function, "sqrt"},
    {"Sub", function, "sub"},
    {"Sum", folded, "add"},
    {"SwiGLU", swiglu},
    {"Swish", swish},
    {"Tan", function, "tan"},
    {"Tanh", function, "tanh"},
    {"ThresholdedRelu", thresholded_relu},
    {"Where", function, "where"},
    {"Xor", function, "logical_xor"},
};

}  // namespace

OperatorList elementwise_operators() {
  return list_of(kOperators);
}

}  // namespace dlprim::onnx
