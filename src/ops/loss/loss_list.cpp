// The list of losses that go element by element: what they compute and what their gradients are. The
// operator, its tests and benchmarks are made of it.
#include <limits>

#include <dlprim/loss.hpp>

#include "core/check.hpp"

namespace dlprim {

using namespace detail;

const std::vector<LossFunction>& loss_functions() {
  // Comparisons are such that a NaN passes through. Constants with a point would be double where there is
  // double.
  static const std::vector<LossFunction> list = {
      {"mse", {}, {}, "const real d = x - target", "d * d", "2 * d * dy", "-2 * d * dy"},
      {"l1",
       {},
       {},
       "const real d = x - target",
       "fabs(d)",
       "d > 0 ? dy : d < 0 ? -dy : 0",
       "d > 0 ? -dy : d < 0 ? dy : 0"},
      {"smooth_l1",
       {},
       {{"beta", 1}},
       "const real d = x - target, a = fabs(d), slope = d > beta ? 1 : d < -beta ? -1 : d == 0 ? 0 : d / "
       "beta",
       "a < beta ? a * a / (2 * beta) : a - beta / 2",
       "dy * slope",
       "-dy * slope"},
      {"huber",
       {},
       {{"delta", 1}},
       "const real d = x - target, a = fabs(d), slope = d > delta ? delta : d < -delta ? -delta : d",
       "a <= delta ? a * a / 2 : delta * (a - delta / 2)",
       "dy * slope",
       "-dy * slope"},
      {"bce",
       {"weight"},
       {},
       "const real log_x = log(x), log_rest = log1p(-x), variance = (1 - x) * x, "
       "a = log_x < -100 ? -100 : log_x, b = log_rest < -100 ? -100 : log_rest",
       "weight * ((target - 1) * b - target * a)",
       "weight * dy * (x - target) / (variance < (real)1e-12 ? (real)1e-12 : variance)",
       "weight * dy * (b - a)"},
      {"bce_with_logits",
       {"weight", "pos_weight"},
       {},
       "const real part = (pos_weight - 1) * target + 1, softplus = log1p(exp(-fabs(x))) + (x < 0 ? -x : 0)",
       "weight * ((1 - target) * x + part * softplus)",
       "weight * dy * (part * sigmoid(x) - pos_weight * target)",
       "weight * dy * ((pos_weight - 1) * softplus - x)"},
      {"kl_div",
       {},
       {},
       "",
       "(target == 0 ? 0 : target * log(target)) - target * x",
       "-target * dy",
       "(log(target) + 1 - x) * dy"},
      {"kl_div_log",
       {},
       {},
       "const real e = exp(target)",
       "e * (target - x)",
       "-e * dy",
       "e * (target - x + 1) * dy"},
      {"poisson_nll", {}, {}, "", "exp(x) - target * x", "dy * (exp(x) - target)", "-dy * x"},
      {"soft_margin",
       {},
       {},
       "const real z = -target * x",
       "log1p(exp(-fabs(z))) + (z > 0 ? z : z * 0)",
       "-target * dy * sigmoid(z)",
       "-x * dy * sigmoid(z)"},
  };
  return list;
}

const LossFunction& loss_function(std::string_view name) {
  for (const LossFunction& f : loss_functions())
    if (f.name == name) return f;
  throw ValidationError("function", cat("there is no loss '", name, "'"));
}

}  // namespace dlprim
