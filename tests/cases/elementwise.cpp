#include "cases/elementwise.hpp"

#include <algorithm>
#include <cmath>
#include <regex>
#include <sstream>
#include <stdexcept>

namespace dlprim::test {
namespace {

double logistic(double v) {
  return 1 / (1 + std::exp(-v));
}
double clipped(double v, double low, double high) {
  return std::isnan(v) ? v : std::fmin(std::fmax(v, low), high);
}
/// The larger one; a NaN if one is NaN.
double larger(double a, double b) {
  return std::isnan(a) || std::isnan(b) ? a + b : std::fmax(a, b);
}
/// What is left of a by b, with b's sign.
double floored(double a, double b) {
  const double rest = std::fmod(a, b);
  return rest != 0 && std::signbit(rest) != std::signbit(b) ? rest + b : rest;
}
/// The largest whole number not above a / b, as PyTorch rounds it.
double floored_quotient(double a, double b) {
  if (b == 0) return a / b;
  const double rest = std::fmod(a, b), quotient = (a - rest) / b;
  return quotient - (rest != 0 && std::signbit(rest) != std::signbit(b) ? 1 : 0);
}
int64_t whole(double v) {
  return static_cast<int64_t>(v);
}

#define REFERENCE(name, low, high, value)                                              \
  {                                                                                    \
    name, low, high, [](const double* x, [[maybe_unused]] const double* p) -> double { \
      [[maybe_unused]] const double a = x[0];                                          \
      return value;                                                                    \
    }                                                                                  \
  }
#define B x[1]
#define C x[2]

const ElementwiseReference kReferences[] = {
    REFERENCE("relu", -3, 3, larger(a, 0)),
    REFERENCE("relu6", -3, 9, clipped(a, 0, 6)),
    REFERENCE("leaky_relu", -3, 3, a*(a < 0 ? p[0] : 1)),
    REFERENCE("prelu", -3, 3, a*(a > 0 ? 1 : B)),
    REFERENCE("threshold", -3, 3, a > p[0] || std::isnan(a) ? a : p[1]),
    REFERENCE("hardtanh", -3, 3, clipped(a, p[0], p[1])),
    REFERENCE("hardsigmoid", -5, 5, clipped(a + 3, 0, 6) / 6),
    REFERENCE("hardswish", -5, 5, std::isinf(a) ? (a > 0 ? a : NAN) : a* clipped(a + 3, 0, 6) / 6),
    REFERENCE("hardshrink", -3, 3, std::fabs(a) <= p[0] ? 0 : a),
    REFERENCE("softshrink", -3, 3, std::isnan(a) ? a : std::copysign(std::fmax(std::fabs(a) - p[0], 0), a)),
    REFERENCE("tanhshrink", -3, 3, a - std::tanh(a)),
    REFERENCE("sigmoid", -8, 8, logistic(a)),
    REFERENCE("logsigmoid", -8, 8, -(a < -50 ? -a : std::log1p(std::exp(-a)))),
    REFERENCE("tanh", -4, 4, std::tanh(a)),
    REFERENCE("elu", -4, 4, a > 0 ? a : p[0] * std::expm1(a)),
    REFERENCE("selu", -4, 4, 1.0507009873554804934 * (a > 0 ? a : 1.6732632423543772848 * std::expm1(a))),
    REFERENCE("celu", -4, 4, larger(a, 0) + (a < 0 ? p[0] * std::expm1(a / p[0]) : 0)),
    REFERENCE("gelu", -4, 4,
              a * 0.5 * (a < 0 ? std::erfc(-a / std::sqrt(2.0)) : 1 + std::erf(a / std::sqrt(2.0)))),
    REFERENCE("gelu_tanh", -4, 4,
              a * 0.5 * (1 + std::tanh(std::sqrt(2 / M_PI) * (a + 0.044715 * std::pow(a, 3))))),
    REFERENCE("silu", -8, 8, a / (1 + std::exp(-a))),
    REFERENCE("mish", -8, 8, a* std::tanh(a > 40 ? a : std::log(1 + std::exp(a)))),
    REFERENCE("softplus", -8, 8, p[0] * a > p[1] ? a : std::log1p(std::exp(p[0] * a)) / p[0]),
    REFERENCE("softsign", -4, 4, a / (1 + std::fabs(a))),
    REFERENCE("glu", -4, 4, a* logistic(B)),
    REFERENCE("add", -4, 4, a + p[0] * B),
    REFERENCE("sub", -4, 4, a - p[0] * B),
    REFERENCE("mul", -4, 4, a* B),
    REFERENCE("div", 0.5, 4, a / B),
    REFERENCE("trunc_divide", 1, 4, std::trunc(a / B)),
    REFERENCE("floor_divide", 1, 4, floored_quotient(a, B)),
    REFERENCE("fmod", 1, 4, std::fmod(a, B)),
    REFERENCE("remainder", 1, 4, floored(a, B)),
    REFERENCE("affine", -4, 4, p[0] * a + p[1]),
    REFERENCE("neg", -4, 4, 0 - a),
    REFERENCE("abs", -4, 4, std::fabs(a)),
    REFERENCE("sign", -4, 4,
              a > 0   ? 1
              : a < 0 ? -1
                      : 0),
    REFERENCE("square", -4, 4, a* a),
    REFERENCE("reciprocal", 0.5, 4, 1 / a),
    REFERENCE("maximum", -4, 4, larger(a, B)),
    REFERENCE("minimum", -4, 4, -larger(-a, -B)),
    REFERENCE("clip", -4, 4, clipped(a, p[0], p[1])),
    REFERENCE("lerp", -2, 2, a*(1 - C) + B * C),
    REFERENCE("addcmul", -3, 3, a + p[0] * (B * C)),
    REFERENCE("addcdiv", 0.5, 3, a + p[0] * (B / C)),
    REFERENCE("where", -3, 3, a == 0 ? C : B),
    REFERENCE("exp", -4, 4, std::exp(a)),
    REFERENCE("exp2", -4, 4, std::pow(2, a)),
    REFERENCE("expm1", -4, 4, std::expm1(a)),
    REFERENCE("log", 0.25, 8, std::log(a)),
    REFERENCE("log2", 0.25, 8, std::log2(a)),
    REFERENCE("log10", 0.25, 8, std::log10(a)),
    REFERENCE("log1p", -0.75, 8, std::log1p(a)),
    REFERENCE("sqrt", 0.25, 8, std::sqrt(a)),
    REFERENCE("rsqrt", 0.25, 8, 1 / std::sqrt(a)),
    REFERENCE("pow", 0.5, 3, std::pow(a, B)),
    REFERENCE("power", 0.5, 3, std::pow(a, p[0])),
    REFERENCE("sin", -7, 7, std::sin(a)),
    REFERENCE("cos", -7, 7, std::cos(a)),
    REFERENCE("tan", -1, 1, std::sin(a) / std::cos(a)),
    REFERENCE("asin", -0.75, 0.75, std::asin(a)),
    REFERENCE("acos", -0.75, 0.75, std::acos(a)),
    REFERENCE("atan", -4, 4, std::atan(a)),
    REFERENCE("atan2", 0.5, 4, std::atan2(a, B)),
    REFERENCE("sinh", -4, 4, std::sinh(a)),
    REFERENCE("cosh", -4, 4, std::cosh(a)),
    REFERENCE("asinh", -4, 4, std::asinh(a)),
    REFERENCE("acosh", 1.25, 8, std::acosh(a)),
    REFERENCE("atanh", -0.75, 0.75, std::atanh(a)),
    REFERENCE("hypot", 0.5, 4, std::hypot(a, B)),
    REFERENCE("erf", -3, 3, std::erf(a)),
    REFERENCE("erfc", -3, 3, std::erfc(a)),
    REFERENCE("erfinv", -0.9, 0.9, static_cast<double>(erfinv_reference(a))),
    REFERENCE("lgamma", 0.5, 5, std::lgamma(a)),
    REFERENCE("digamma", 0.5, 5, static_cast<double>(digamma_reference(a))),
    REFERENCE("floor", -4, 4, std::floor(a)),
    REFERENCE("ceil", -4, 4, std::ceil(a)),
    REFERENCE("round", -4, 4, std::nearbyint(a)),
    REFERENCE("trunc", -4, 4, std::trunc(a)),
    REFERENCE("frac", 1, 4, std::isinf(a) ? NAN : a - std::trunc(a)),
    REFERENCE("copysign", 0.5, 4, std::copysign(a, B)),
    REFERENCE("equal", -2, 2, a == B),
    REFERENCE("not_equal", -2, 2, !(a == B)),
    REFERENCE("less", -2, 2, B > a),
    REFERENCE("less_equal", -2, 2, B >= a),
    REFERENCE("greater", -2, 2, B < a),
    REFERENCE("greater_equal", -2, 2, B <= a),
    REFERENCE("is_nan", -2, 2, std::isnan(a)),
    REFERENCE("is_inf", -2, 2, std::isinf(a)),
    REFERENCE("is_finite", -2, 2, std::isfinite(a)),
    REFERENCE("logical_and", -2, 2, a != 0 ? B != 0 : false),
    REFERENCE("logical_or", -2, 2, a != 0 ? true : B != 0),
    REFERENCE("logical_xor", -2, 2, (a == 0) != (B == 0)),
    REFERENCE("logical_not", -2, 2, a == 0),
    REFERENCE("bitwise_and", -99, 99, static_cast<double>(whole(a) & whole(B))),
    REFERENCE("bitwise_or", -99, 99, static_cast<double>(whole(a) | whole(B))),
    REFERENCE("bitwise_xor", -99, 99, static_cast<double>(whole(a) ^ whole(B))),
    REFERENCE("bitwise_not", -99, 99, -a - 1),
    REFERENCE("bitwise_left_shift", 0, 6, std::ldexp(a, static_cast<int>(B))),
    REFERENCE("bitwise_right_shift", 0, 6, std::floor(std::ldexp(a, -static_cast<int>(B)))),
};

#undef REFERENCE
#undef B
#undef C

std::string joined(const std::vector<std::string>& words, const char* between) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : between) + word;
  return text;
}

/// For a cell of a table.
std::string code(const std::string& text) {
  std::string result;
  for (char c : text) result += c == '|' ? std::string("\\|") : std::string(1, c);
  return "`" + result + "`";
}

std::string cell_of_gradients(const ElementwiseFunction& f) {
  std::vector<std::string> cells;
  for (size_t i = 0; i < f.gradients.size(); i++)
    if (!f.gradients[i].empty())
      cells.push_back(f.inputs.size() == 1 ? code(f.gradients[i])
                                           : f.inputs[i] + ": " + code(f.gradients[i]));
  return cells.empty() ? "-" : joined(cells, "<br>");
}

}  // namespace

long double digamma_reference(long double x) {
  constexpr long double kPi = 3.14159265358979323846264338327950288L;
  if (x == 0) return std::copysign(INFINITY, -x);
  if (x < 0)
    return x == std::floor(x) ? NAN : digamma_reference(1 - x) - kPi / std::tan(kPi * (x - std::rint(x)));
  if (x < 40) return digamma_reference(x + 1) - 1 / x;
  const long double w = 1 / (x * x);
  return std::log(x) - 1 / (2 * x) -
         w * (1 / 12.0L - w * (1 / 120.0L - w * (1 / 252.0L - w * (1 / 240.0L - w / 132))));
}

long double erfinv_reference(long double x) {
  if (!(std::fabs(x) < 1)) return std::fabs(x) == 1 ? std::copysign(INFINITY, x) : NAN;
  long double low = 0, high = 10;
  const long double a = std::fabs(x), left = 1 - a;
  for (int i = 0; i < 80; i++) {
    const long double middle = (low + high) / 2;
    ((a < 0.5L ? std::erf(middle) < a : std::erfc(middle) > left) ? low : high) = middle;
  }
  return std::copysign(low, x);
}

const ElementwiseReference& elementwise_reference(const std::string& name) {
  const auto found = std::find_if(std::begin(kReferences), std::end(kReferences),
                                  [&](const ElementwiseReference& r) { return r.name == name; });
  if (found == std::end(kReferences)) throw std::runtime_error("no reference for '" + name + "'");
  return *found;
}

ElementwiseCase::ElementwiseCase(const ElementwiseFunction& f, bool backward, DType dtype, const Make& make)
    : f_(f), backward_(backward), y_(make("y", f.truth ? DType::boolean : dtype, !backward)) {
  for (size_t i = 0; i < f.inputs.size(); i++) {
    inputs_.push_back(make(f.inputs[i], dtype, false));
    gradients_.push_back(backward && !f.gradients[i].empty() ? make(f.inputs[i], dtype, true) : Tensor());
  }
}

void ElementwiseCase::run(const Stream& stream) const {
  if (backward_)
    elementwise_backward(stream, f_.name, y_, inputs_, {}, gradients_);
  else
    elementwise(stream, f_.name, inputs_, {}, y_);
}

double ElementwiseCase::bytes() const {
  double sum = 0;
  const auto add = [&](const Tensor& x) {
    if (x.defined()) sum += static_cast<double>(x.numel()) * static_cast<double>(size_of(x.dtype()));
  };
  const auto has = [](const std::string& text, const std::string& word) {
    return std::regex_search(text, std::regex("\\b" + word + "\\b"));
  };
  const std::string gradients = joined(f_.gradients, " ");
  for (size_t i = 0; i < inputs_.size(); i++)
    if (!backward_ || has(gradients, f_.inputs[i]) || has(f_.let, f_.inputs[i])) add(inputs_[i]);
  for (const Tensor& dx : gradients_) add(dx);
  if (!backward_ || has(gradients, "dy")) add(y_);
  return sum;
}

std::string elementwise_page() {
  std::ostringstream out;
  out << "# Elementwise functions\n\n"
         "`elementwise(stream, \"gelu\", {x}, {}, y)` and `elementwise_backward(stream, \"gelu\", dy, {x}, "
         "{}, "
         "{dx})`, or the plans "
         "`Elementwise` and\n`ElementwiseBackward` (`dlprim/elementwise.hpp`). Inputs broadcast, with any "
         "strides and in any mix "
         "of dtypes; a gradient of an input\nthat was broadcast is a sum. Parameters are given in this "
         "order, or not at all.\n\n"
         "This page is made of the library's list (`src/ops/pointwise/elementwise_list.cpp`); "
         "`DLPRIM_UPDATE_GOLDEN=1 "
         "test_elementwise` "
         "writes it.\n"
         "\nOf whole numbers quotients, rests, powers and shifts are exact in 64 bits and wrap around. No "
         "device can "
         "throw, so where\nPyTorch does on CPUs a value is defined: quotient and rest of a division by zero "
         "are 0; a "
         "power with a negative exponent is\n1, -1 or 0, what is left without a fraction. Shifts by less "
         "than 0, or by as "
         "many places as there are bits and more, leave 0,\nand -1 of negative numbers to the right.\n"
         "\nu16 is computed in `int`, u32 in `long`, u64 in `ulong`. Beside u64 signed integers are taken "
         "modulo 2^64; functions of which that would\nmake another number (comparisons, `maximum`, "
         "`minimum`, quotients, rests, `bitwise_right_shift`) refuse it. `clip` of u64 takes bounds\nbelow "
         "0 as 0.\n"
         "\nNaN and infinities give what PyTorch gives, with these exceptions. Nothing overflows on the way: "
         "`hardswish` of "
         "the largest numbers is\nthe number, `gelu` of infinity infinity, the gradients of `addcdiv` and "
         "`softsign` keep "
         "their digits. `fmod`, `remainder` and\n`floor_divide` are exact beside subnormal numbers. "
         "Gradients at NaN "
         "follow PyTorch on CUDA where its CPU differs: those of\n`relu6`, `hardtanh`, `hardshrink` and "
         "`softshrink` pass `dy` "
         "on, those of `hardswish`, `elu`, `selu` and `celu` are NaN. `relu` and\n`relu6` of -0 are 0, "
         "`softshrink` of small negative numbers is -0, the gradient of `digamma` at -1, -2, ... is "
         "infinity.\n"
         "\nExpressions of `pointwise` and `reduce` may call these besides C's functions: `log_gamma(x)`, "
         "`digamma(x)`, `trigamma(x)`,\n`polygamma(n, x)`, `zeta(x, q)` (Hurwitz'), `erf_inverse(x)`; the "
         "modified Bessel functions `bessel_i0(x)`, `bessel_i1(x)`, and times\n`exp(-|x|)` `bessel_i0e(x)`, "
         "`bessel_i1e(x)`; of degree n `chebyshev_t(x, n)`, `_u`, `_v` and `_w`, `hermite_h(x, n)`, "
         "`hermite_he(x, n)`,\n`laguerre_l(x, n)`, `legendre_p(x, n)`.\n";
  std::string topic;
  for (const ElementwiseFunction& f : elementwise_functions()) {
    if (f.topic != topic)
      out << "\n## " << f.topic
          << "\n\n| function | inputs | parameters | result | gradient, with `dy` that of the result "
             "|\n|---|---|---|---|---|\n";
    topic = f.topic;
    std::vector<std::string> parameters;
    for (const ElementwiseFunction::Parameter& p : f.parameters) {
      std::ostringstream text;
      text << p.name << " = " << p.standard;
      parameters.push_back(text.str());
    }
    out << "| `" << f.name << "` | " << joined(f.inputs, ", ")
        << (f.domain == ElementwiseFunction::Domain::floating      ? ""
            : f.domain == ElementwiseFunction::Domain::numbers     ? "; any dtype"
            : f.domain == ElementwiseFunction::Domain::to_floating ? "; any dtype, the result floating"
                                                                   : "; integers, bool")
        << " | " << joined(parameters, ", ") << " | " << code((f.let.empty() ? "" : f.let + "; ") + f.result)
        << (f.truth ? ", 0 or 1" : "") << " | " << cell_of_gradients(f) << " |\n";
  }
  return out.str();
}

}  // namespace dlprim::test
