// Putting elements around a tensor, taking them away, and moving them between channels and space.
#include <algorithm>

#include <dlprim/copy.hpp>
#include <dlprim/index.hpp>
#include <dlprim/pad.hpp>

#include "net/nodes/families.hpp"
#include "net/nodes/tables.hpp"

namespace dlprim::detail {
namespace {

/// How many elements come in front of and behind each axis of x.
struct Pads {
  Dims begin, end;
};

/// Inputs: x; pads, of each axis in front, then of each axis behind, where negative ones take elements away;
/// value (0, any mode but constant is without); axes (all). Attribute: mode (constant, reflect, replicate,
/// circular), as NumPy's pad has them: what is taken away goes first, and patterns repeat.
Pads asked_pads(NodeStep& step) {
  const int rank = step.rank(0);
  const std::vector<int64_t> pads = step.integers(1);
  std::vector<int64_t> axes;
  if (step.has(3))
    axes = step.integers(3);
  else
    for (int i = 0; i < rank; i++) axes.push_back(i);
  normal_axes(axes, rank);
  require(pads.size() == 2 * axes.size(), "inputs", pads.size(), " pads of ", axes.size(), " axes");
  Pads all{Dims::filled(rank, 0), Dims::filled(rank, 0)};
  for (size_t i = 0; i < axes.size(); i++) {
    const int axis = normal_axis(axes[i], rank);
    all.begin[axis] = pads[i];
    all.end[axis] = pads[axes.size() + i];
  }
  return all;
}
PadMode asked_mode(const NodeStep& step) {
  const std::string mode = step.text("mode", "constant");
  if (mode == "constant") return PadMode::constant;
  if (mode == "reflect") return PadMode::reflect;
  if (mode == "replicate") return PadMode::replicate;
  require(mode == "circular", "mode", "'", mode, "' must be constant, reflect, replicate or circular");
  return PadMode::circular;
}
void infer_pad(NodeStep& step) {
  const Pads pads = asked_pads(step);
  Shape shape = step.shape(0);
  for (int i = 0; i < shape.size(); i++) {
    const int64_t left = shape[i] + std::min<int64_t>(0, pads.begin[i]) + std::min<int64_t>(0, pads.end[i]);
    const int64_t more = std::max<int64_t>(0, pads.begin[i]) + std::max<int64_t>(0, pads.end[i]);
    require(left >= 0, "pads", "take away more than axis ", i, " of ", shape, " has");
    require(left > 0 || more == 0 || asked_mode(step) == PadMode::constant, "pads", "axis ", i, " of ", shape,
            " has no elements to go on with");
    shape[i] = left + more;
  }
  step.output(0, step.dtype(0), shape);
}

/// Which of n elements stands at a place from -begin on.
int64_t source(PadMode mode, int64_t place, int64_t n) {
  const auto wrapped = [&](int64_t period) { return ((place % period) + period) % period; };
  if (mode == PadMode::replicate) return std::clamp<int64_t>(place, 0, n - 1);
  if (mode == PadMode::circular) return wrapped(n);
  if (n == 1) return 0;
  const int64_t at = wrapped(2 * n - 2);
  return at < n ? at : 2 * n - 2 - at;
}

/// One axis of x, by indices.
Tensor pad_axis(const NodeStep& step, const Tensor& x, int axis, int64_t begin, int64_t end, PadMode mode) {
  const int64_t size = x.shape()[axis];
  std::vector<int64_t> places;
  for (int64_t i = -begin; i < size + end; i++) places.push_back(source(mode, i, size));
  Shape shape = x.shape();
  shape[axis] += begin + end;
  const Tensor y = step.scratch(shape, x.dtype());
  std::vector<Tensor> indices(static_cast<size_t>(axis));
  indices.push_back(table(step, {shape[axis]}, places));
  index(step.stream, x, indices, y, step.options);
  return y;
}

/// Of any dtype: a filled tensor, and x in its middle.
void pad_by_copy(NodeStep& step, const Tensor& x, const Dims& begin) {
  Tensor inner = step.y();
  if (!step.has(2))
    fill(step.stream, 0, inner, step.options);
  else if (is_floating(step.dtype(2)))
    fill(step.stream, step.numbers(2).at(0), inner, step.options);
  else
    fill(step.stream, step.integers(2).at(0), inner, step.options);
  if (x.numel() == 0) return;
  for (int i = 0; i < x.rank(); i++) inner = inner.slice(i, begin[i], begin[i] + x.shape()[i]);
  copy(step.stream, x, inner, step.options);
}

void run_pad(NodeStep& step) {
  const Pads pads = asked_pads(step);
  const PadMode mode = asked_mode(step);
  const int rank = step.rank(0);
  if (step.y().numel() == 0) return;
  Tensor x = step.x(0);
  PadParams params;
  params.mode = mode;
  bool any = false, simple = is_floating(x.dtype()) && rank > 0 && x.numel() != 0;
  for (int i = 0; i < rank; i++) {
    const int64_t from = std::max<int64_t>(0, -pads.begin[i]), size = x.shape()[i];
    const int64_t to = size - std::max<int64_t>(0, -pads.end[i]);
    if (to - from < size && to > from) x = x.slice(i, from, to);
    if (to <= from && size > 0) x = step.scratch(Shape::filled(rank, 0), x.dtype());
    params.begin.push_back(std::max<int64_t>(0, pads.begin[i]));
    params.end.push_back(std::max<int64_t>(0, pads.end[i]));
    const int64_t more = std::max(params.begin[i], params.end[i]);
    any = any || more > 0;
    if (x.numel() == 0) break;
    if (mode == PadMode::reflect) simple = simple && more < to - from;
    if (mode == PadMode::circular) simple = simple && more <= to - from;
  }
  if (!any && x.numel() != 0) return step.set(0, x);
  simple = simple && x.numel() != 0;
  if (simple) {
    const double value = step.has(2) ? step.numbers(2).at(0) : 0.0;
    return dlprim::pad(step.stream, x, params, value, step.y(), step.options);
  }
  if (mode == PadMode::constant) return pad_by_copy(step, x, params.begin);
  for (int i = 0; i < rank; i++)
    if (params.begin[i] + params.end[i] != 0) x = pad_axis(step, x, i, params.begin[i], params.end[i], mode);
  step.set(0, x);
}

/// Inputs: x, sizes. Attribute: axes that these are of (all). Crops x about its middle, or puts zeros around
/// it; what is odd is cropped, or put, behind.
void infer_center(NodeStep& step) {
  const std::vector<int64_t> sizes = step.integers(1);
  std::vector<int64_t> axes = step.integers("axes");
  if (!step.has("axes"))
    for (int i = 0; i < step.rank(0); i++) axes.push_back(i);
  normal_axes(axes, step.rank(0));
  require(sizes.size() == axes.size(), "inputs", sizes.size(), " sizes of ", axes.size(), " axes");
  Shape shape = step.shape(0);
  for (size_t i = 0; i < axes.size(); i++) shape[normal_axis(axes[i], step.rank(0))] = sizes[i];
  step.output(0, step.dtype(0), shape);
}
void run_center(NodeStep& step) {
  const Shape to = step.out(0).shape;
  const Tensor& y = step.y();
  if (y.numel() == 0) return;
  Tensor x = step.x(0), inner = y;
  if (x.numel() == 0) return fill(step.stream, 0, y, step.options);
  bool padded = false;
  for (int i = 0; i < to.size(); i++) {
    const int64_t more = to[i] - x.shape()[i], size = std::min(to[i], x.shape()[i]);
    padded = padded || more > 0;
    if (more > 0) inner = inner.slice(i, more / 2, more / 2 + size);
    if (more < 0) x = x.slice(i, -more / 2, -more / 2 + size);
  }
  if (!padded) return step.set(0, x);
  fill(step.stream, 0, y, step.options);
  copy(step.stream, x, inner, step.options);
}

int64_t asked_block(const NodeStep& step) {
  const int64_t block = step.integer("block", 0);
  require(block >= 1, "block", block, " must be 1 or more");
  require(step.rank(0) == 4, "x", step.shape(0), " must have rank 4");
  return block;
}

/// x [N, C b b, H, W] becomes [N, C, H b, W b]. Attributes: block, b; channels_first: channel (c b + i) b + j
/// goes to row i and column j of each block, otherwise (i b + j) C + c.
void infer_depth_to_space(NodeStep& step) {
  const int64_t b = asked_block(step);
  const Shape& x = step.shape(0);
  require(x[1] % b == 0 && x[1] / b % b == 0, "x", x, " has no multiple of ", b, " x ", b, " channels");
  step.output(0, step.dtype(0), {x[0], x[1] / b / b, x[2] * b, x[3] * b});
}
void run_depth_to_space(NodeStep& step) {
  const int64_t b = asked_block(step);
  const Shape& x = step.shape(0);
  const int64_t channels = x[1] / b / b;
  if (step.y().numel() == 0) return;
  const Tensor parts =
      step.flag("channels_first")
          ? step.dense(0).reshape({x[0], channels, b, b, x[2], x[3]}).permute({0, 1, 4, 2, 5, 3})
          : step.dense(0).reshape({x[0], b, b, channels, x[2], x[3]}).permute({0, 3, 4, 1, 5, 2});
  copy(step.stream, parts, step.y().reshape(parts.shape()), step.options);
}

/// x [N, C, H b, W b] becomes [N, b b C, H, W]. Attributes: block, b; channels_first: row i and column j of
/// each block go to channel (c b + i) b + j, otherwise (i b + j) C + c.
void infer_space_to_depth(NodeStep& step) {
  const int64_t b = asked_block(step);
  const Shape& x = step.shape(0);
  require(x[2] % b == 0 && x[3] % b == 0, "x", x, " does not consist of blocks of ", b, " x ", b);
  step.output(0, step.dtype(0), {x[0], x[1] * b * b, x[2] / b, x[3] / b});
}
void run_space_to_depth(NodeStep& step) {
  const int64_t b = asked_block(step);
  const Shape& x = step.shape(0);
  if (step.y().numel() == 0) return;
  const Tensor blocks = step.dense(0).reshape({x[0], x[1], x[2] / b, b, x[3] / b, b});
  const Tensor parts =
      step.flag("channels_first") ? blocks.permute({0, 1, 3, 5, 2, 4}) : blocks.permute({0, 3, 5, 1, 2, 4});
  copy(step.stream, parts, step.y().reshape(parts.shape()), step.options);
}

/// NumPy's moveaxis. Attributes: from, to.
Dims moved_order(const NodeStep& step) {
  const int rank = step.rank(0), from = step.axis("from", 0, rank), to = step.axis("to", 0, rank);
  std::vector<int64_t> order;
  for (int i = 0; i < rank; i++)
    if (i != from) order.push_back(i);
  order.insert(order.begin() + to, from);
  return Dims(order);
}
void infer_move_axis(NodeStep& step) {
  Shape shape;
  for (int64_t axis : moved_order(step)) shape.push_back(step.shape(0)[static_cast<int>(axis)]);
  step.output(0, step.dtype(0), shape);
}
void run_move_axis(NodeStep& step) {
  step.set(0, step.x(0).permute(moved_order(step)));
}

constexpr NodeKind kKinds[] = {
    {"pad", 2, 4, infer_pad, run_pad},
    {"center", 2, 2, infer_center, run_center},
    {"depth_to_space", 1, 1, infer_depth_to_space, run_depth_to_space},
    {"space_to_depth", 1, 1, infer_space_to_depth, run_space_to_depth},
    {"move_axis", 1, 1, infer_move_axis, run_move_axis},
};

}  // namespace

KindList pad_kinds() {
  return list_of(kKinds);
}

}  // namespace dlprim::detail
