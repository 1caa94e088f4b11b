#include "net/passes/parts.hpp"

#include <algorithm>

#include <dlprim/net_host.hpp>

namespace dlprim::detail {
namespace {

std::optional<std::vector<int64_t>> whole_numbers(const Rewritten& r, const NetGraph::Node& node, size_t k) {
  const HostTensor* constant = k < node.inputs.size() ? r.constant(node.inputs[k]) : nullptr;
  if (!constant || is_floating(constant->dtype)) return std::nullopt;
  return integers_of(*constant);
}
bool has(const NetGraph::Node& node, size_t k) {
  return k < node.inputs.size() && node.inputs[k] != NetGraph::kNone;
}

/// From 0 on, or -1 if there is no such axis.
int axis_at(int64_t axis, const Shape& shape) {
  const int64_t normal = axis < 0 ? axis + shape.size() : axis;
  return normal >= 0 && normal < shape.size() ? static_cast<int>(normal) : -1;
}
int axis_of(const NetGraph::Node& node, const Shape& shape) {
  const auto* axis = attribute<int64_t>(node, "axis");
  return axis_at(axis ? *axis : 0, shape);
}

/// Indices that are one number, or follow one another.
std::optional<Part> gathered(const Rewritten& r, const NetGraph::Node& node, const Shape& x) {
  const auto indices = whole_numbers(r, node, 1);
  const int axis = axis_of(node, x);
  if (!indices || indices->empty() || axis < 0 || r.constant(node.inputs[1])->shape.size() > 1)
    return std::nullopt;
  const auto place = [&](int64_t index) { return index < 0 ? index + x[axis] : index; };
  const auto count = static_cast<int64_t>(indices->size());
  const int64_t start = place(indices->front());
  for (int64_t i = 0; i < count; i++)
    if (place((*indices)[static_cast<size_t>(i)]) != start + i) return std::nullopt;
  if (start < 0 || count > x[axis] - start) return std::nullopt;
  return Part{node.inputs[0], axis, start, count, 1, r.constant(node.inputs[1])->shape.empty()};
}

/// Along one axis, forwards.
std::optional<Part> sliced(const Rewritten& r, const NetGraph::Node& node, const Shape& x) {
  const auto starts = whole_numbers(r, node, 1), ends = whole_numbers(r, node, 2);
  if (!starts || !ends || starts->size() != 1 || ends->size() != 1) return std::nullopt;
  int64_t asked = 0, step = 1;
  for (size_t k : {3, 4}) {
    if (!has(node, k)) continue;
    const auto numbers = whole_numbers(r, node, k);
    if (!numbers || numbers->size() != 1) return std::nullopt;
    (k == 3 ? asked : step) = numbers->front();
  }
  const int axis = axis_at(asked, x);
  if (axis < 0 || step < 1) return std::nullopt;
  const auto bound = [&](int64_t at) { return std::clamp<int64_t>(at < 0 ? at + x[axis] : at, 0, x[axis]); };
  const int64_t start = bound(starts->front()), end = bound(ends->front());
  if (end <= start) return std::nullopt;
  return Part{node.inputs[0], axis, start, (end - start - 1) / step + 1, step, false};
}

std::optional<Part> split_off(const Rewritten& r, const NetGraph::Node& node, const Shape& x, int value) {
  const int axis = axis_of(node, x);
  if (axis < 0) return std::nullopt;
  int64_t start = 0;
  for (int output : node.outputs) {
    const ValueFacts* y = r.fact(output);
    if (!y) return std::nullopt;
    if (output == value) return Part{node.inputs[0], axis, start, y->shape[axis], 1, false};
    start += y->shape[axis];
  }
  return std::nullopt;
}

}  // namespace

std::optional<Part> part_of(const Rewritten& r, const Links& links, int value) {
  const int producer = links.producer(value);
  if (producer < 0) return std::nullopt;
  const NetGraph::Node& node = r.graph.nodes[static_cast<size_t>(producer)];
  const ValueFacts* x = node.inputs.empty() ? nullptr : r.fact(node.inputs[0]);
  if (!x || x->shape.empty()) return std::nullopt;
  if (node.kind == "gather") return gathered(r, node, x->shape);
  if (node.kind == "slice") return sliced(r, node, x->shape);
  if (node.kind == "split") return split_off(r, node, x->shape, value);
  return std::nullopt;
}

}  // namespace dlprim::detail
