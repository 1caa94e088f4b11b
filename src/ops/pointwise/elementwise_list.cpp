// The list of elementwise functions: what they compute, and what their gradients are. The operators, their
// tests, benchmarks and documentation are made of it.
#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <limits>
#include <sstream>

#include <dlprim/elementwise.hpp>

#include "core/check.hpp"

namespace dlprim {

using namespace detail;

namespace {

constexpr auto kFloating = ElementwiseFunction::Domain::floating,
               kNumbers = ElementwiseFunction::Domain::numbers,
               kToFloating = ElementwiseFunction::Domain::to_floating,
               kIntegers = ElementwiseFunction::Domain::integers;
constexpr bool kTruth = true;

/// A line of the list. Inputs and parameters are words, gradients stand between semicolons, empty where there
/// is none.
struct Row {
  const char* name;
  ElementwiseFunction::Domain domain;
  const char *inputs, *parameters, *let, *result, *gradients;
  bool truth = false;
};

struct Topic {
  const char* name;
  std::vector<Row> rows;
};

/// Comparisons are such that a NaN passes through, and that its gradient is dy where PyTorch's is.
const std::vector<Topic>& topics() {
  static const std::vector<Topic> list = {
      {"Activations",
       {
           {"relu", kFloating, "x", "", "", "x <= 0 ? 0 : x", "x <= 0 ? 0 : dy"},
           {"relu6", kFloating, "x", "", "", "x <= 0 ? 0 : x >= 6 ? 6 : x", "x <= 0 || x >= 6 ? 0 : dy"},
           {"leaky_relu", kFloating, "x", "slope=0.01", "", "x > 0 ? x : slope * x",
            "x > 0 ? dy : slope * dy"},
           {"prelu", kFloating, "x slope", "", "", "x > 0 ? x : slope * x",
            "x > 0 ? dy : slope * dy;x > 0 ? 0 : x * dy"},
           {"threshold", kFloating, "x", "threshold=0 value=0", "", "x <= threshold ? value : x",
            "x <= threshold ? 0 : dy"},
           {"hardtanh", kFloating, "x", "min=-1 max=1", "", "x <= min ? min : x >= max ? max : x",
            "x <= min || x >= max ? 0 : dy"},
           {"hardsigmoid", kFloating, "x", "", "", "x <= -3 ? 0 : x >= 3 ? 1 : x / 6 + 0.5",
            "x > -3 && x < 3 ? dy / 6 : 0"},
           {"hardswish", kFloating, "x", "", "", "x >= 3 ? x : x * (x > -3 ? x + 3 : 0) / 6",
            "x <= -3 ? 0 : x >= 3 ? dy : dy * (x / 3 + 0.5)"},
           {"hardshrink", kFloating, "x", "lambda=0.5", "", "x >= -lambda && x <= lambda ? 0 : x",
            "x >= -lambda && x <= lambda ? 0 : dy"},
           {"softshrink", kFloating, "x", "lambda=0.5", "",
            "x > lambda ? x - lambda : x < -lambda ? x + lambda : x - x",
            "x >= -lambda && x <= lambda ? 0 : dy"},
           {"tanhshrink", kFloating, "x", "", "real t = tanh(x)", "x - t", "dy * t * t"},
           {"sigmoid", kFloating, "x", "", "real s = sigmoid(x)", "s", "dy * s * (1 - s)"},
           {"logsigmoid", kFloating, "x", "", "", "(x < 0 ? x : 0) - log1p(exp(-fabs(x)))",
            "dy * sigmoid(-x)"},
           {"tanh", kFloating, "x", "", "real t = tanh(x)", "t", "dy * (1 - t * t)"},
           {"elu", kFloating, "x", "alpha=1", "", "x > 0 ? x : alpha * expm1(x)",
            "x > 0 ? dy : dy * alpha * exp(x)"},
           {"selu", kFloating, "x", "", "real l = 1.0507009873554805, a = 1.7580993408473766",
            "x > 0 ? l * x : a * expm1(x)", "x > 0 ? l * dy : dy * a * exp(x)"},
           {"celu", kFloating, "x", "alpha=1", "real inverse = 1 / alpha",
            "x > 0 ? x : alpha * expm1(x * inverse)", "x > 0 ? dy : dy * exp(x * inverse)"},
           {"gelu", kFloating, "x", "", "real e = exp(x * x * -0.5), p = normal_cdf(x, e)", "x * p",
            "dy * (p + x * 0.39894228040143268 * e)"},
           {"gelu_tanh", kFloating, "x", "",
            "real s = sigmoid(1.5957691216057308 * (x + 0.044715 * x * x * x))", "x * s",
            "dy * s * (1 + x * (1 - s) * 1.5957691216057308 * (1 + 0.134145 * x * x))"},
           {"silu", kFloating, "x", "", "real s = sigmoid(x)", "x * s", "dy * s * (1 + x * (1 - s))"},
           {"mish", kFloating, "x", "", "real e = exp(x > 20 ? 20 : x), n = e * (e + 2), t = n / (n + 2)",
            "x * t", "dy * (t + x * sigmoid(x) * (1 - t * t))"},
           {"softplus", kFloating, "x", "beta=1 threshold=20", "real z = beta * x, l = log1p(exp(z)) / beta",
            "z > threshold ? x : l", "z > threshold ? dy : dy * sigmoid(z)"},
           {"softsign", kFloating, "x", "", "real d = 1 + fabs(x)", "x / d", "dy / (d * d) + (x - x)"},
           {"glu", kFloating, "a b", "", "real s = sigmoid(b)", "a * s", "dy * s;dy * a * s * (1 - s)"},
       }},
      {"Arithmetic",
       {
           {"add", kNumbers, "a b", "alpha=1", "", "a + alpha * b", "dy;alpha * dy"},
           {"sub", kNumbers, "a b", "alpha=1", "", "a - alpha * b", "dy;-alpha * dy"},
           {"mul", kNumbers, "a b", "", "", "a * b", "b * dy;a * dy"},
           {"div", kToFloating, "a b", "", "", "(real)a / (real)b", "dy / b;-dy * (a / b) / b"},
           {"trunc_divide", kNumbers, "a b", "", "", "trunc_quotient(a, b)", "0;0"},
           {"floor_divide", kNumbers, "a b", "", "real m = trunc_rest(a, b)", "floor_quotient(a, b, m)",
            "0;0"},
           {"fmod", kNumbers, "a b", "", "", "trunc_rest(a, b)", "dy;-dy * trunc_quotient(a, b)"},
           {"remainder", kNumbers, "a b", "", "real m = trunc_rest(a, b)", "floor_rest(b, m)",
            "dy;-dy * floor_quotient(a, b, m)"},
           {"affine", kFloating, "x", "scale=1 shift=0", "", "scale * x + shift", "scale * dy"},
           {"neg", kNumbers, "x", "", "", "-x", "-dy"},
           {"abs", kNumbers, "x", "", "", "x > 0 ? x : x == 0 ? 0 : -x", "x > 0 ? dy : x < 0 ? -dy : 0"},
           {"sign", kNumbers, "x", "", "", "(x > 0) - (x < 0)", "0"},
           {"square", kNumbers, "x", "", "", "x * x", "2 * x * dy"},
           {"reciprocal", kFloating, "x", "", "", "1 / x", "-dy / x / x"},
           {"maximum", kNumbers, "a b", "", "", "a > b || a != a ? a : b",
            "a == b ? dy / 2 : a < b ? 0 : dy;a == b ? dy / 2 : b < a ? 0 : dy"},
           {"minimum", kNumbers, "a b", "", "", "a < b || a != a ? a : b",
            "a == b ? dy / 2 : a > b ? 0 : dy;a == b ? dy / 2 : b > a ? 0 : dy"},
           {"clip", kNumbers, "x", "min=-INFINITY max=INFINITY", "",
            "x > max ? max : x < min ? (min > max ? max : min) : x", "x >= min && x <= max ? dy : 0"},
           {"lerp", kFloating, "a b weight", "", "",
            "fabs((real)weight) < 0.5 ? a + weight * (b - a) : b - (b - a) * (1 - weight)",
            "dy * (1 - weight);dy * weight;dy * (b - a)"},
           {"addcmul", kNumbers, "x a b", "value=1", "", "x + value * a * b",
            "dy;value * b * dy;value * a * dy"},
           {"addcdiv", kFloating, "x a b", "value=1", "", "x + value * a / b",
            "dy;value * dy / b;-value * dy * (a / b) / b"},
           {"where", kNumbers, "condition a b", "", "", "condition != 0 ? a : b",
            ";condition != 0 ? dy : 0;condition != 0 ? 0 : dy"},
       }},
      {"Exponentials and powers",
       {
           {"exp", kFloating, "x", "", "", "exp(x)", "dy * exp(x)"},
           {"exp2", kFloating, "x", "", "", "exp2(x)", "dy * exp2(x) * 0.69314718055994531"},
           {"expm1", kFloating, "x", "", "", "expm1(x)", "dy * exp(x)"},
           {"log", kFloating, "x", "", "", "log(x)", "dy / x"},
           {"log2", kFloating, "x", "", "", "log2(x)", "dy / (x * 0.69314718055994531)"},
           {"log10", kFloating, "x", "", "", "log10(x)", "dy / (x * 2.3025850929940457)"},
           {"log1p", kFloating, "x", "", "", "log1p(x)", "dy / (x + 1)"},
           {"sqrt", kFloating, "x", "", "", "sqrt(x)", "dy / (2 * sqrt(x))"},
           {"rsqrt", kFloating, "x", "", "real r = rsqrt(x)", "r", "dy * -0.5 * r * r * r"},
           {"pow", kNumbers, "a b", "", "real p = power_of(a, b)", "p",
            "b == 0 ? 0 : dy * b * pow((real)a, (real)(b - 1));a == 0 && b >= 0 ? 0 : dy * p * log(a)"},
           {"power", kFloating, "x", "exponent=2", "",
            "exponent == 2 ? x * x : exponent == 3 ? x * x * x : pow((real)x, exponent)",
            "exponent == 0 ? 0 : exponent == 2 ? dy * 2 * x : exponent == 3 ? dy * 3 * x * x : dy * exponent "
            "* pow((real)x, exponent - 1)"},
       }},
      {"Trigonometric and hyperbolic functions, the error and the gamma function",
       {
           {"sin", kFloating, "x", "", "", "sin(x)", "dy * cos(x)"},
           {"cos", kFloating, "x", "", "", "cos(x)", "-dy * sin(x)"},
           {"tan", kFloating, "x", "", "real t = tan(x)", "t", "dy * (1 + t * t)"},
           {"asin", kFloating, "x", "", "", "asin(x)", "dy * rsqrt((1 - x) * (1 + x))"},
           {"acos", kFloating, "x", "", "", "acos(x)", "-dy * rsqrt((1 - x) * (1 + x))"},
           {"atan", kFloating, "x", "", "", "atan(x)", "dy / (1 + x * x)"},
           {"atan2", kFloating, "a b", "", "real q = a * a + b * b", "atan2((real)a, (real)b)",
            "q == 0 ? 0 : dy * b / q;q == 0 ? 0 : -dy * a / q"},
           {"sinh", kFloating, "x", "", "", "sinh(x)", "dy * cosh(x)"},
           {"cosh", kFloating, "x", "", "", "cosh(x)", "dy * sinh(x)"},
           {"asinh", kFloating, "x", "", "", "asinh(x)", "dy * rsqrt(x * x + 1)"},
           {"acosh", kFloating, "x", "", "", "acosh(x)", "dy * rsqrt((fabs(x) - 1) * (fabs(x) + 1))"},
           {"atanh", kFloating, "x", "", "", "atanh(x)", "dy / ((1 - x) * (1 + x))"},
           {"hypot", kFloating, "a b", "", "real h = hypot((real)a, (real)b)", "h", "dy * a / h;dy * b / h"},
           {"erf", kFloating, "x", "", "", "erf(x)", "dy * 1.1283791670955126 * exp(-x * x)"},
           {"erfc", kFloating, "x", "",
            "real near = x > 28 ? 28 : x < -28 ? -28 : x, square = near * near, e = exp(-square), rest = "
            "fma(near, near, -square)",
            "2 * normal_cdf(x * -1.4142135623730951, e - rest * e)", "-dy * 1.1283791670955126 * e"},
           {"erfinv", kFloating, "x", "", "real y = erf_inverse(x)", "y",
            "dy * 0.88622692545275801 * exp(y * y)"},
           {"lgamma", kFloating, "x", "", "", "log_gamma(x)", "dy * digamma(x)"},
           {"digamma", kFloating, "x", "", "", "digamma(x)", "dy * trigamma(x)"},
       }},
      {"Rounding; `round` takes halves to even",
       {
           {"floor", kFloating, "x", "", "", "floor(x)", "0"},
           {"ceil", kFloating, "x", "", "", "ceil(x)", "0"},
           {"round", kFloating, "x", "", "", "rint(x)", "0"},
           {"trunc", kFloating, "x", "", "", "trunc(x)", "0"},
           {"frac", kFloating, "x", "", "", "x - trunc(x)", "dy"},
           {"copysign", kFloating, "a b", "", "", "copysign((real)a, (real)b)",
            "a == 0 ? 0 : dy * (copysign((real)a, (real)b) / a);0"},
       }},
      {"Comparisons and logic; those of bits are for integers",
       {
           {"equal", kNumbers, "a b", "", "", "a == b", ";", kTruth},
           {"not_equal", kNumbers, "a b", "", "", "a != b", ";", kTruth},
           {"less", kNumbers, "a b", "", "", "a < b", ";", kTruth},
           {"less_equal", kNumbers, "a b", "", "", "a <= b", ";", kTruth},
           {"greater", kNumbers, "a b", "", "", "a > b", ";", kTruth},
           {"greater_equal", kNumbers, "a b", "", "", "a >= b", ";", kTruth},
           {"is_nan", kNumbers, "x", "", "", "x != x", "", kTruth},
           {"is_inf", kFloating, "x", "", "", "x == INFINITY || x == -INFINITY", "", kTruth},
           {"is_finite", kFloating, "x", "", "", "x - x == 0", "", kTruth},
           {"logical_and", kNumbers, "a b", "", "", "a != 0 && b != 0", ";", kTruth},
           {"logical_or", kNumbers, "a b", "", "", "a != 0 || b != 0", ";", kTruth},
           {"logical_xor", kNumbers, "a b", "", "", "(a != 0) != (b != 0)", ";", kTruth},
           {"logical_not", kNumbers, "x", "", "", "x == 0", "", kTruth},
           {"bitwise_and", kIntegers, "a b", "", "", "a & b", ";"},
           {"bitwise_or", kIntegers, "a b", "", "", "a | b", ";"},
           {"bitwise_xor", kIntegers, "a b", "", "", "a ^ b", ";"},
           {"bitwise_not", kIntegers, "x", "", "", "~x", ""},
           {"bitwise_left_shift", kIntegers, "a b", "", "", "shifted_left(a, b)", ";"},
           {"bitwise_right_shift", kIntegers, "a b", "", "", "shifted_right(a, b)", ";"},
       }},
  };
  return list;
}

std::vector<std::string> words(const char* text) {
  std::istringstream in(text);
  return {std::istream_iterator<std::string>(in), {}};
}

std::vector<std::string> between_semicolons(const std::string& text, size_t count) {
  std::vector<std::string> parts;
  size_t at = 0;
  for (size_t i = 0; i < count; i++) {
    const size_t end = std::min(text.find(';', at), text.size());
    parts.push_back(text.substr(at, end - at));
    at = std::min(end + 1, text.size());
  }
  return parts;
}

ElementwiseFunction function_of(const char* topic, const Row& row) {
  ElementwiseFunction f;
  f.name = row.name, f.topic = topic;
  f.domain = row.domain, f.truth = row.truth;
  f.inputs = words(row.inputs);
  for (const std::string& word : words(row.parameters)) {
    const size_t equals = word.find('=');
    const std::string value = word.substr(equals + 1);
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    f.parameters.push_back({word.substr(0, equals), value == "INFINITY" ? kInfinity
                                                    : value == "-INFINITY"
                                                        ? -kInfinity
                                                        : std::strtod(value.c_str(), nullptr)});
  }
  f.let = row.let, f.result = row.result;
  f.gradients = between_semicolons(row.gradients, f.inputs.size());
  return f;
}

}  // namespace

const std::vector<ElementwiseFunction>& elementwise_functions() {
  static const std::vector<ElementwiseFunction> list = [] {
    std::vector<ElementwiseFunction> functions;
    for (const Topic& topic : topics())
      for (const Row& row : topic.rows) functions.push_back(function_of(topic.name, row));
    return functions;
  }();
  return list;
}

const ElementwiseFunction& elementwise_function(std::string_view name) {
  const std::vector<ElementwiseFunction>& list = elementwise_functions();
  const auto found =
      std::find_if(list.begin(), list.end(), [&](const ElementwiseFunction& f) { return f.name == name; });
  require(found != list.end(), "function", "there is no '", name, "'; docs/elementwise.md lists them");
  return *found;
}

}  // namespace dlprim
