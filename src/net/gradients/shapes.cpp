// Rules of what moves elements: their gradients move them back.
#include <algorithm>

#include "net/gradients/rule.hpp"

namespace dlprim::detail {
namespace {

void identity_rule(GradientStep& step) {
  step.give(0, step.dy());
}

void reshape_rule(GradientStep& step) {
  step.give(0, step.reshaped(step.dy(), step.x(0)));
}

void transpose_rule(GradientStep& step) {
  const auto* given = attribute<Attribute::Integers>(step.node(), "axes");
  if (!given) return step.give(0, step.add("transpose", {step.dy()}));
  const Attribute::Integers& axes = *given;
  const auto rank = static_cast<int64_t>(axes.size());
  Attribute::Integers back(axes.size());
  for (size_t i = 0; i < axes.size(); i++)
    back[static_cast<size_t>(axes[i] < 0 ? axes[i] + rank : axes[i])] = static_cast<int64_t>(i);
  step.give(0, step.add("transpose", {step.dy()}, {{"axes", back}}));
}

void expand_rule(GradientStep& step) {
  step.give(0, step.add("sum_to", {step.dy(), step.sizes(step.x(0))}));
}

/// The size of a value along the axis, [1].
int size_along(GradientStep& step, int value, int64_t axis) {
  return step.add("gather", {step.sizes(value), step.whole({axis})}, {{"axis", 0}});
}

int64_t axis_of(const GradientStep& step) {
  const auto* axis = attribute<int64_t>(step.node(), "axis");
  return axis ? *axis : 0;
}

void concat_rule(GradientStep& step) {
  const int64_t axis = axis_of(step);
  const size_t count = step.node().inputs.size();
  std::vector<int> sizes;
  std::vector<bool> wanted;
  for (size_t k = 0; k < count; k++) {
    sizes.push_back(size_along(step, step.x(k), axis));
    wanted.push_back(step.wanted(k));
  }
  const int all = step.add("concat", std::move(sizes), {{"axis", 0}});
  const std::vector<int> parts = step.add_many("split", {step.dy(), all}, wanted, {{"axis", axis}});
  for (size_t k = 0; k < count; k++)
    if (wanted[k]) step.give(k, parts[k]);
}

void split_rule(GradientStep& step) {
  const size_t count = step.node().outputs.size();
  std::vector<int> parts;
  for (size_t k = 0; k < count; k++) {
    if (step.dy(k) != NetGraph::kNone) {
      parts.push_back(step.dy(k));
      continue;
    }
    const int zero = step.pointwise("y0 = x0 * 0", {step.y(k)});
    parts.push_back(zero);
  }
  step.give(0, step.add("concat", std::move(parts), {{"axis", axis_of(step)}}));
}

void slice_rule(GradientStep& step) {
  std::vector<int> inputs{step.dy()};
  for (size_t k = 1; k < 5; k++) inputs.push_back(step.has(k) ? step.x(k) : NetGraph::kNone);
  inputs.push_back(step.sizes(step.x(0)));
  step.give(0, step.add("slice_backward", std::move(inputs)));
}

void gather_rule(GradientStep& step) {
  step.give(0, step.add("gather_backward", {step.dy(), step.x(1), step.sizes(step.x(0))},
                        {{"axis", axis_of(step)}}));
}

/// What was put around goes again: widths of the other sign crop.
void pad_rule(GradientStep& step) {
  const auto* mode = attribute<std::string>(step.node(), "mode");
  if (mode && *mode != "constant") step.refuse("of its modes only constant has one");
  const int widths = step.add("elementwise", {step.x(1)}, {{"function", "neg"}});
  std::vector<int> inputs{step.dy(), widths};
  if (step.has(3)) inputs.insert(inputs.end(), {NetGraph::kNone, step.x(3)});
  step.give(0, step.add("pad", std::move(inputs)));
}

constexpr NamedRule kRules[] = {
    {"identity", identity_rule}, {"reshape", reshape_rule},   {"flatten", reshape_rule},
    {"squeeze", reshape_rule},   {"unsqueeze", reshape_rule}, {"transpose", transpose_rule},
    {"expand", expand_rule},     {"concat", concat_rule},     {"split", split_rule},
    {"slice", slice_rule},       {"gather", gather_rule},     {"pad", pad_rule},
};

}  // namespace

RuleList shape_rules() {
  return rules_of(kRules);
}

}  // namespace dlprim::detail
