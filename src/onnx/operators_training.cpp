// Steps of optimizers, domain ai.onnx.preview.training. Inputs: R, the learning rate, T, the number of steps
// before, then for any number of tensors all X, all gradients G, and all of each state; outputs: all new X
// and all of each state.
#include "core/text.hpp"
#include "onnx/operators.hpp"

namespace dlprim::onnx {
namespace {

constexpr const char* kDomain = "ai.onnx.preview.training";

/// How many tensors there are, with `states` beside X and G.
int tensor_count(NodeImport& node, int states) {
  const int inputs = node.input_count() - 2, each = 2 + states;
  if (inputs <= 0 || inputs % each != 0)
    node.refuse(detail::cat("must have 2 inputs and ", each, " for each tensor"));
  return inputs / each;
}

/// An expression over x0, x1, ..., of the dtype of x0.
int expression(NodeImport& node, const char* body, std::vector<int> inputs, std::vector<double> scalars) {
  return node.emit("pointwise", std::move(inputs),
                   {{"body", body}, {"scalars", std::move(scalars)}, {"like", 0}});
}

void adagrad(NodeImport& node) {
  const double norm = node.number("norm_coefficient", 0), decay = node.number("decay_factor", 0),
               epsilon = node.number("epsilon", 1e-6F);
  const int n = tensor_count(node, 1), rate = node.in(0), steps = node.in(1);
  for (int i = 0; i < n; i++) {
    const int x = node.in(2 + i), g = node.in(2 + n + i);
    const int h = expression(node, "const real g_ = s0 * x1 + x2; y0 = x0 + g_ * g_",
                             {node.in(2 + 2 * n + i), x, g}, {norm});
    node.result(expression(node,
                           "const real g_ = s0 * x0 + x1; "
                           "y0 = x0 - x3 / (1 + x4 * s1) * g_ / (sqrt((real)x2) + s2)",
                           {x, g, h, rate, steps}, {norm, decay, epsilon}),
                i);
    node.result(h, n + i);
  }
}

/// 1 - beta^T as -expm1(T log(beta)): differences of numbers near 1 would lose digits.
void adam(NodeImport& node) {
  const double norm = node.number("norm_coefficient", 0), post = node.number("norm_coefficient_post", 0),
               alpha = node.number("alpha", 0.9F), beta = node.number("beta", 0.999F),
               epsilon = node.number("epsilon", 1e-6F);
  if (alpha < 0 || beta < 0) node.refuse("has a negative alpha or beta");
  const int n = tensor_count(node, 2), rate = node.in(0), steps = node.in(1);
  for (int i = 0; i < n; i++) {
    const int x = node.in(2 + i), g = node.in(2 + n + i);
    const int v = expression(node, "y0 = s0 * x0 + s2 * (s1 * x1 + x2)", {node.in(2 + 2 * n + i), x, g},
                             {alpha, norm, 1 - alpha});
    const int h = expression(node, "const real g_ = s1 * x1 + x2; y0 = s0 * x0 + s2 * g_ * g_",
                             {node.in(2 + 3 * n + i), x, g}, {beta, norm, 1 - beta});
    node.result(expression(node,
                           "const real t_ = x4; "
                           "const real r_ = x4 > 0 ? x3 * sqrt(-expm1(t_ * log(s1))) / -expm1(t_ * log(s0)) "
                           ": x3; y0 = (1 - s3) * (x0 - r_ * x1 / (sqrt((real)x2) + s2))",
                           {x, v, h, rate, steps}, {alpha, beta, epsilon, post}),
                i);
    node.result(v, n + i);
    node.result(h, 2 * n + i);
  }
}

void momentum(NodeImport& node) {
  const std::string mode = node.text("mode");
  if (mode != "standard" && mode != "nesterov")
    node.refuse("has mode '" + mode + "', must be standard or nesterov");
  const double norm = node.number("norm_coefficient", 0), alpha = node.number("alpha", 0),
               beta = node.number("beta", 0);
  const int n = tensor_count(node, 1), rate = node.in(0), steps = node.in(1);
  for (int i = 0; i < n; i++) {
    const int x = node.in(2 + i), g = node.in(2 + n + i);
    const int v = expression(node, "y0 = s0 * x0 + (x3 > 0 ? s1 : 1) * (s2 * x1 + x2)",
                             {node.in(2 + 2 * n + i), x, g, steps}, {alpha, beta, norm});
    const char* body = mode == "standard" ? "y0 = x0 - x3 * x2" : "y0 = x0 - x3 * (s0 * x0 + x1 + s1 * x2)";
    node.result(expression(node, body, {x, g, v, rate}, {norm, alpha}), i);
    node.result(v, n + i);
  }
}

constexpr OperatorEntry kOperators[] = {
    {"Adagrad", adagrad, nullptr, 1, kDomain},
    {"Adam", adam, nullptr, 1, kDomain},
    {"Momentum", momentum, nullptr, 1, kDomain},
};

}  // namespace

OperatorList training_operators() {
  return list_of(kOperators);
}

}  // namespace dlprim::onnx
