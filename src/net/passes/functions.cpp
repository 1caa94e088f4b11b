// SiLU, hardswish, hardsigmoid and GELU, written out as exporters do, become one elementwise node:
//   x * sigmoid(x);  x * relu6(x + 3) / 6;  x * 0.5 * (1 + erf(x / sqrt(2)))
// in any order of their factors and sums. What is around the inner function f is p(x) + q(x) f(z(x)) with
// polynomials p, q and z, which are worked out and compared.
#include <algorithm>
#include <array>
#include <cmath>

#include <dlprim/net_host.hpp>

#include "net/passes/pass.hpp"

namespace dlprim::detail {
namespace {

/// Coefficients of 1, x, x^2, x^3.
using Polynomial = std::array<double, 4>;
using MaybePolynomial = std::optional<Polynomial>;

Polynomial sum(const Polynomial& a, const Polynomial& b, double factor = 1) {
  Polynomial result = a;
  for (size_t i = 0; i < result.size(); i++) result[i] += factor * b[i];
  return result;
}

MaybePolynomial product(const Polynomial& a, const Polynomial& b) {
  Polynomial result{};
  for (size_t i = 0; i < a.size(); i++)
    for (size_t k = 0; k < b.size(); k++) {
      if (a[i] == 0 || b[k] == 0) continue;
      if (i + k >= result.size()) return {};
      result[i + k] += a[i] * b[k];
    }
  return result;
}

/// The quotient by a number.
MaybePolynomial quotient(const Polynomial& a, const Polynomial& b) {
  if (b[0] == 0 || b != Polynomial{b[0]}) return {};
  return product(a, {1 / b[0]});
}

/// Constants were rounded to the dtype; products of some are compared.
bool is_close(const Polynomial& a, const Polynomial& b, DType dtype) {
  const double tolerance = dtype == DType::bf16 ? 0x1p-7 : dtype == DType::f16 ? 0x1p-9 : 0x1p-20;
  for (size_t i = 0; i < a.size(); i++)
    if (!(std::fabs(a[i] - b[i]) <= tolerance * std::fabs(b[i]))) return false;
  return true;
}

constexpr double kRootHalf = 0.70710678118654752, kTanh = 0.79788456080286536, kCubic = 0.044715;

/// plain + factor * inner(argument) is the elementwise function.
struct Written {
  const char* inner;
  Polynomial argument, plain, factor;
  const char* function;
};
constexpr Written kWritten[] = {
    {"sigmoid", {0, 1}, {}, {0, 1}, "silu"},
    {"sigmoid", {0, 2 * kTanh, 0, 2 * kTanh* kCubic}, {}, {0, 1}, "gelu_tanh"},
    {"tanh", {0, kTanh, 0, kTanh* kCubic}, {0, 0.5}, {0, 0.5}, "gelu_tanh"},
    {"erf", {0, kRootHalf}, {0, 0.5}, {0, 0.5}, "gelu"},
    {"hardsigmoid", {0, 1}, {}, {0, 1}, "hardswish"},
    {"relu6", {3, 1}, {}, {0, 1.0 / 6}, "hardswish"},
    {"relu6", {3, 1}, {}, {1.0 / 6}, "hardsigmoid"},
    {"clip to one", {0.5, 1.0 / 6}, {}, {1}, "hardsigmoid"},
};

class Functions {
 public:
  explicit Functions(Rewritten& r) : r_(r), links_(r.graph) {}

  /// Whether the node is the inner function of one; then the last node of it becomes it.
  void take(size_t n) {
    const NetGraph::Node& node = r_.graph.nodes[n];
    int argument = node.inputs.empty() ? NetGraph::kNone : node.inputs[0];
    const std::string inner = inner_function(node, argument);
    if (inner.empty() || node.outputs.size() != 1) return;
    for (int x : candidates(argument)) {
      const MaybePolynomial z = polynomial(argument, x);
      if (z && take(n, inner, *z, x)) return;
    }
  }

 private:
  /// The node's function of `argument`, which is the clip's where two nodes clip; "" if it is none of those
  /// above.
  std::string inner_function(const NetGraph::Node& node, int& argument) const {
    const auto* function = attribute<std::string>(node, "function");
    const auto* bounds = attribute<std::vector<double>>(node, "parameters");
    if (node.kind != "elementwise" || !function) return "";
    if (*function == "clip" && bounds) return clip(*bounds);
    const std::string plain = plain_function(node);
    if (plain == "minimum" && node.inputs.size() == 2) {
      const int k = r_.number(node.inputs[0]) ? 0 : 1, producer = links_.producer(node.inputs[1 - k]);
      const auto most = r_.number(node.inputs[k]);
      if (!most || producer < 0) return "";
      const NetGraph::Node& lower = r_.graph.nodes[static_cast<size_t>(producer)];
      const std::string name = plain_function(lower);
      if (name == "maximum") {
        const int zero = r_.number(lower.inputs[0]) ? 0 : 1;
        if (r_.number(lower.inputs[zero]) != 0.0) return "";
        argument = lower.inputs[1 - zero];
      } else if (name == "relu") {
        argument = lower.inputs[0];
      } else {
        return "";
      }
      return clip({0, *most});
    }
    return node.inputs.size() == 1 ? plain : "";
  }
  static std::string clip(const std::vector<double>& bounds) {
    return bounds == std::vector<double>{0, 6}   ? "relu6"
           : bounds == std::vector<double>{0, 1} ? "clip to one"
                                                 : "";
  }

  /// What x may be: a value that the argument is made of.
  std::vector<int> candidates(int argument) const {
    constexpr size_t kMost = 12;
    std::vector<int> values{argument};
    for (size_t i = 0; i < values.size() && values.size() < kMost; i++) {
      const int producer = links_.producer(values[i]);
      if (producer < 0 || plain_function(r_.graph.nodes[static_cast<size_t>(producer)]).empty()) continue;
      for (int value : r_.graph.nodes[static_cast<size_t>(producer)].inputs)
        if (!r_.constant(value) && std::find(values.begin(), values.end(), value) == values.end())
          values.push_back(value);
    }
    return values;
  }

  /// The value as a polynomial in x, if it is one.
  MaybePolynomial polynomial(int value, int x, int depth = 0) const {
    constexpr int kDeepest = 8;
    if (value == x) return Polynomial{0, 1};
    if (const auto constant = r_.number(value)) return Polynomial{*constant};
    const int producer = links_.producer(value);
    if (producer < 0 || depth == kDeepest) return {};
    const NetGraph::Node& node = r_.graph.nodes[static_cast<size_t>(producer)];
    const std::string function = plain_function(node);
    const auto input = [&](size_t k) { return polynomial(node.inputs[k], x, depth + 1); };
    if (function == "neg" || function == "square") {
      const MaybePolynomial a = input(0);
      return !a ? a : function == "neg" ? sum({}, *a, -1) : product(*a, *a);
    }
    if (node.inputs.size() != 2) return {};
    if (function == "pow") return power(input(0), r_.number(node.inputs[1]));
    if (function != "add" && function != "sub" && function != "mul" && function != "div") return {};
    const MaybePolynomial a = input(0), b = a ? input(1) : a;
    if (!b) return {};
    return function == "mul"   ? product(*a, *b)
           : function == "div" ? quotient(*a, *b)
                               : sum(*a, *b, function == "add" ? 1 : -1);
  }
  static MaybePolynomial power(const MaybePolynomial& a, const std::optional<double>& exponent) {
    if (!a || (exponent != 2.0 && exponent != 3.0)) return {};
    const MaybePolynomial square = product(*a, *a);
    return square && exponent == 3.0 ? product(*square, *a) : square;
  }

  /// plain + factor * the inner function, after the node that reads `value`, which is this.
  bool step(const NetGraph::Node& node, int value, int x, Polynomial& plain, Polynomial& factor) const {
    const std::string function = plain_function(node);
    if (node.inputs.size() != 2 || node.outputs.size() != 1 || node.inputs[0] == node.inputs[1]) return false;
    const MaybePolynomial other = polynomial(other_input(node, value), x);
    if (!other) return false;
    const bool first = node.inputs[0] == value;
    MaybePolynomial p, q;
    if (function == "add" || function == "sub") {
      const double sign = function == "add" ? 1 : -1;
      p = first ? sum(plain, *other, sign) : sum(*other, plain, sign);
      q = first ? factor : sum({}, factor, sign);
    } else if (function == "mul") {
      p = product(plain, *other), q = product(factor, *other);
    } else if (function == "div" && first) {
      p = quotient(plain, *other), q = quotient(factor, *other);
    }
    if (!p || !q) return false;
    plain = *p, factor = *q;
    return true;
  }

  bool take(size_t n, const std::string& inner, const Polynomial& argument, int x) {
    const ValueFacts* fact = r_.fact(x);
    if (!fact || !is_floating(fact->dtype)) return false;
    Polynomial plain{}, factor{1};
    std::vector<size_t> members{n};
    constexpr size_t kMost = 6;
    while (members.size() <= kMost) {
      const NetGraph::Node& last = r_.graph.nodes[members.back()];
      const int value = last.outputs[0];
      for (const Written& w : kWritten)
        if (inner == w.inner && is_close(argument, w.argument, fact->dtype) &&
            is_close(plain, w.plain, fact->dtype) && is_close(factor, w.factor, fact->dtype))
          return replace(members, x, w.function);
      const int reader = links_.only_reader(value);
      if (reader < 0 || !step(r_.graph.nodes[static_cast<size_t>(reader)], value, x, plain, factor)) break;
      members.push_back(static_cast<size_t>(reader));
    }
    return false;
  }

  /// The last of the members becomes function(x), if that is of the same shape and dtype.
  bool replace(const std::vector<size_t>& members, int x, const char* function) {
    NetGraph::Node& last = r_.graph.nodes[members.back()];
    const ValueFacts *from = r_.fact(x), *to = r_.fact(last.outputs[0]);
    if (!to || to->dtype != from->dtype || to->shape != from->shape) return false;
    last.attributes = {{"function", function}};
    last.inputs = {x};
    for (size_t member : members)
      if (member != members.back()) r_.graph.nodes[member].outputs.clear();
    return true;
  }

  Rewritten& r_;
  const Links links_;
};

}  // namespace

void recognise_functions(Rewritten& r) {
  Functions functions(r);
  for (size_t n = 0; n < r.graph.nodes.size(); n++)
    if (!r.graph.nodes[n].outputs.empty()) functions.take(n);
  drop_emptied(r.graph);
}

}  // namespace dlprim::detail
