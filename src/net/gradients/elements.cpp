// Rules of what is computed element by element, and of reductions.
#include <algorithm>
#include <set>

#include <dlprim/elementwise.hpp>

#include "core/text.hpp"
#include "net/gradients/rule.hpp"

namespace dlprim::detail {
namespace {

/// Functions whose slope follows from the result: x is not kept for it, and stays free for a fusion in front.
/// Expressions of dy, x0, and y, x1.
const char* slope_of_result(const std::string& function) {
  if (function == "relu") return "y0 = x1 > 0 ? x0 : 0";
  if (function == "relu6") return "y0 = x1 > 0 && x1 < 6 ? x0 : 0";
  if (function == "sigmoid") return "y0 = x0 * x1 * (1 - x1)";
  if (function == "tanh") return "y0 = x0 * (1 - x1 * x1)";
  if (function == "exp") return "y0 = x0 * x1";
  return nullptr;
}

/// Whether the expression has the word.
bool mentions(const std::string& expression, const std::string& word) {
  const auto part = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; };
  for (size_t at = 0; (at = expression.find(word, at)) != std::string::npos; at += word.size()) {
    const bool begins = at == 0 || !part(expression[at - 1]);
    const size_t end = at + word.size();
    if (begins && (end == expression.size() || !part(expression[end]))) return true;
  }
  return false;
}

/// The list's own expression of the gradient of input k, with what it needs alone. It is broadcast as the
/// result was: where that made the input larger, the gradient is summed.
void elementwise_rule(GradientStep& step) {
  const auto* function = attribute<std::string>(step.node(), "function");
  const ElementwiseFunction& f = elementwise_function(function ? *function : "");
  const auto* parameters = attribute<Attribute::Numbers>(step.node(), "parameters");
  if (const char* slope = f.inputs.size() == 1 ? slope_of_result(f.name) : nullptr)
    return step.give(0, step.pointwise(slope, {step.dy(), step.y()}, {}, f.name));
  for (size_t k = 0; k < f.inputs.size(); k++) {
    if (!step.wanted(k)) continue;
    const std::string& gradient = f.gradients[k];
    if (gradient.empty()) continue;  // a condition's
    if (gradient == "0") continue;
    int dx = step.dy();
    if (gradient != "dy") {
      std::string body = "const real dy = x0; ";
      std::vector<int> inputs{step.dy()};
      std::vector<double> scalars;
      for (size_t i = 0; i < f.inputs.size(); i++) {
        if (!mentions(gradient, f.inputs[i]) && !mentions(f.let, f.inputs[i])) continue;
        body += cat("const real ", f.inputs[i], " = x", inputs.size(), "; ");
        inputs.push_back(step.x(i));
      }
      for (size_t i = 0; i < f.parameters.size(); i++) {
        body += cat("const real ", f.parameters[i].name, " = s", scalars.size(), "; ");
        scalars.push_back(parameters && !parameters->empty() ? (*parameters)[i] : f.parameters[i].standard);
      }
      if (!f.let.empty()) body += f.let + "; ";
      dx = step.pointwise(body + "y0 = " + gradient, std::move(inputs), std::move(scalars), f.name);
    }
    if (f.inputs.size() > 1) dx = step.add("sum_to", {dx, step.sizes(step.x(k))});
    step.give(k, dx);
  }
}

/// By the expression that came with the node's own.
void pointwise_rule(GradientStep& step) {
  const auto* slope = attribute<std::string>(step.node(), "slope");
  if (!slope || step.node().inputs.size() != 1) step.refuse("its expression came without one");
  if (*slope == "0") return;
  const auto* scalars = attribute<Attribute::Numbers>(step.node(), "scalars");
  step.give(0, step.pointwise(*slope, {step.dy(), step.x(0)}, scalars ? *scalars : Attribute::Numbers()));
}

void cast_rule(GradientStep& step) {
  step.give(0, step.add("cast", {step.dy(), step.x(0)}));
}

void dropout_rule(GradientStep& step) {
  if (!step.has(2) || step.constant(2).at(0) == 0) return step.give(0, step.dy());
  const double ratio = step.has(1) ? step.constant(1).at(0) : 0.5;
  if (ratio == 0) return step.give(0, step.dy());
  step.give(0, step.pointwise("y0 = x1 ? x0 * s0 : 0", {step.dy(), step.y(1)}, {1 / (1 - ratio)}));
}

/// Slopes of reductions by their elements: x0 is dy, x1 x, x2 y, where dy and y are spread over what was
/// reduced.
struct ReductionSlope {
  const char* function;
  const char* body;
};
constexpr ReductionSlope kSlopes[] = {
    {"l1", "y0 = x1 > 0 ? x0 : x1 < 0 ? -x0 : 0"},
    {"l2", "y0 = x2 == 0 ? 0 : x0 * x1 / x2"},
    {"sum_square", "y0 = 2 * x0 * x1"},
    {"log_sum", "y0 = x0 * exp(-x2)"},
    {"log_sum_exp", "y0 = x0 * exp(x1 - x2)"},
};

void reduce_rule(GradientStep& step) {
  const auto* name = attribute<std::string>(step.node(), "function");
  const std::string function = name ? *name : "";
  const auto along_axes = [&](const char* kind, std::vector<int> inputs, Attributes attributes) {
    if (step.has(1)) inputs.push_back(step.x(1));
    attributes.merge(step.taken({"axes", "no_axes"}));
    return step.add(kind, std::move(inputs), std::move(attributes));
  };
  const auto spread = [&](int value, bool mean = false) {
    return along_axes("reduce_backward", {value, step.sizes(step.x(0))}, {{"mean", mean}});
  };
  if (function == "sum" || function == "mean") return step.give(0, spread(step.dy(), function == "mean"));
  if (function == "max" || function == "min") {  // in equal shares to all that are the largest
    const int is_it = step.pointwise("y0 = x0 == x1 ? 1 : 0", {step.x(0), spread(step.y())});
    const int count = along_axes("reduce", {is_it}, {{"function", "sum"}});
    return step.give(0, step.pointwise("y0 = x0 * x1 / x2", {spread(step.dy()), is_it, spread(count)}));
  }
  for (const ReductionSlope& slope : kSlopes)
    if (function == slope.function)
      return step.give(0, step.pointwise(slope.body, {spread(step.dy()), step.x(0), spread(step.y())}));
  step.refuse("of reductions '" + function + "' has none");
}

/// Sums up to each element: dy is added up from the other end.
void cumulate_rule(GradientStep& step) {
  const auto* name = attribute<std::string>(step.node(), "function");
  if (name && *name != "sum") step.refuse("of its functions only sum has one");
  Attributes attributes = step.taken({"exclusive"});
  attributes.emplace("reverse", !has_flag(step.node(), "reverse"));
  step.give(0, step.add("cumulate", {step.dy(), step.x(1)}, std::move(attributes)));
}

constexpr NamedRule kRules[] = {
    {"elementwise", elementwise_rule}, {"pointwise", pointwise_rule}, {"cast", cast_rule},
    {"dropout", dropout_rule},         {"reduce", reduce_rule},       {"cumulate", cumulate_rule},
};

}  // namespace

RuleList element_rules() {
  return rules_of(kRules);
}

}  // namespace dlprim::detail
