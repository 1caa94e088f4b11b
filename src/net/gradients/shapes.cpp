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

/// Zeros of the value's shape and of the gradient's dtype. The value is not read: it may hold infinities.
int zeros(GradientStep& step, int value, int gradient) {
  return step.add("cast", {step.add("fill", {step.sizes(value), step.number(0)}), gradient});
}

void split_rule(GradientStep& step) {
  const size_t count = step.node().outputs.size();
  int flowing = NetGraph::kNone;  // the gradient of one output
  for (size_t k = 0; k < count; k++)
    if (step.dy(k) != NetGraph::kNone) flowing = step.dy(k);
  std::vector<int> parts;
  for (size_t k = 0; k < count; k++) {
    if (step.dy(k) != NetGraph::kNone) {
      parts.push_back(step.dy(k));
      continue;
    }
    parts.push_back(zeros(step, step.y(k), flowing));
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

void gather_elements_rule(GradientStep& step) {
  step.give(0, step.add("gather_elements_backward", {step.dy(), step.x(1), step.sizes(step.x(0))},
                        step.taken({"axis"})));
}
void gather_nd_rule(GradientStep& step) {
  step.give(0, step.add("gather_nd_backward", {step.dy(), step.x(1), step.sizes(step.x(0))},
                        step.taken({"batch"})));
}
void top_k_rule(GradientStep& step) {
  const auto* axis = attribute<int64_t>(step.node(), "axis");
  step.give(0, step.add("gather_elements_backward", {step.dy(), step.y(1), step.sizes(step.x(0))},
                        {{"axis", axis ? *axis : -1}}));
}

/// src's gradient is read where src was written. The gradient of x is dy: with src added, all of it; with src
/// in place of x's elements, 0 there. Places written twice without a reduction are undefined (ONNX).
void scatter_rule(GradientStep& step, const char* gather, std::initializer_list<const char*> of) {
  const auto* reduce = attribute<std::string>(step.node(), "reduce");
  const bool sum = reduce && *reduce == "sum";
  if (reduce && !sum && *reduce != "none") step.refuse("of its reductions only sum has one");
  if (step.wanted(0)) {
    const Attributes attributes = step.taken(of);
    const std::string kind = step.node().kind;
    step.give(0, sum ? step.dy()
                     : step.add(kind.c_str(), {step.dy(), step.x(1), zeros(step, step.x(2), step.dy())},
                                attributes));
  }
  if (step.wanted(2)) step.give(2, step.add(gather, {step.dy(), step.x(1)}, step.taken(of)));
}
void scatter_elements_rule(GradientStep& step) {
  scatter_rule(step, "gather_elements", {"axis"});
}
void scatter_nd_rule(GradientStep& step) {
  scatter_rule(step, "gather_nd", {});
}

/// Blocks that become channels go back by the other kind, and the other way round.
void depth_to_space_rule(GradientStep& step) {
  step.give(0, step.add("space_to_depth", {step.dy()}, step.taken({"block", "channels_first"})));
}
void space_to_depth_rule(GradientStep& step) {
  step.give(0, step.add("depth_to_space", {step.dy()}, step.taken({"block", "channels_first"})));
}

/// Reversing each sequence once more puts its elements back.
void reverse_sequence_rule(GradientStep& step) {
  step.give(0, step.add("reverse_sequence", {step.dy(), step.x(1)}, step.taken({"time_axis", "batch_axis"})));
}

void tile_rule(GradientStep& step) {
  step.give(0, step.add("tile_backward", {step.dy(), step.sizes(step.x(0))}));
}

void triangle_rule(GradientStep& step) {
  std::vector<int> inputs{step.dy()};
  if (step.has(1)) inputs.push_back(step.x(1));
  step.give(0, step.add("triangle", std::move(inputs), step.taken({"upper"})));
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
    {"identity", identity_rule},
    {"reshape", reshape_rule},
    {"flatten", reshape_rule},
    {"squeeze", reshape_rule},
    {"unsqueeze", reshape_rule},
    {"transpose", transpose_rule},
    {"expand", expand_rule},
    {"concat", concat_rule},
    {"split", split_rule},
    {"slice", slice_rule},
    {"gather", gather_rule},
    {"gather_elements", gather_elements_rule},
    {"gather_nd", gather_nd_rule},
    {"top_k", top_k_rule},
    {"scatter_elements", scatter_elements_rule},
    {"scatter_nd", scatter_nd_rule},
    {"depth_to_space", depth_to_space_rule},
    {"space_to_depth", space_to_depth_rule},
    {"reverse_sequence", reverse_sequence_rule},
    {"tile", tile_rule},
    {"triangle", triangle_rule},
    {"pad", pad_rule},
};

}  // namespace

RuleList shape_rules() {
  return rules_of(kRules);
}

}  // namespace dlprim::detail
