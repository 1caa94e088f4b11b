// Taking elements by place: slices, gathers, repetitions; and tensors that a rule fills.
#include <algorithm>
#include <cmath>

#include <dlprim/copy.hpp>
#include <dlprim/index.hpp>
#include <dlprim/movement.hpp>
#include <dlprim/patterns.hpp>
#include <dlprim/reduction.hpp>

#include "net/nodes/families.hpp"
#include "net/nodes/host.hpp"

namespace dlprim::detail {
namespace {

/// Elements start, start + step, ... of one axis.
struct AxisSlice {
  int axis;
  int64_t start, count, step;
};

/// Inputs: x, starts, ends, axes (all, from the first on), steps (1). As NumPy's slices.
std::vector<AxisSlice> asked_slices(NodeStep& step, const Shape& x) {
  const std::vector<int64_t> starts = step.integers(1), ends = step.integers(2);
  std::vector<int64_t> axes, steps(starts.size(), 1);
  if (step.has(3))
    axes = step.integers(3);
  else
    for (size_t i = 0; i < starts.size(); i++) axes.push_back(static_cast<int64_t>(i));
  if (step.has(4)) steps = step.integers(4);
  require(ends.size() == starts.size() && axes.size() == starts.size() && steps.size() == starts.size(),
          "inputs", starts.size(), " starts, ", ends.size(), " ends, ", axes.size(), " axes, ", steps.size(),
          " steps");
  normal_axes(axes, x.size());
  std::vector<AxisSlice> slices;
  for (size_t i = 0; i < starts.size(); i++) {
    const int axis = normal_axis(axes[i], x.size());
    const int64_t size = x[axis], by = steps[i];
    require(by != 0, "steps", "the step of axis ", axis, " is 0");
    const auto bound = [&](int64_t at, int64_t lowest, int64_t highest) {
      return std::clamp(at < 0 ? at + size : at, lowest, highest);
    };
    const int64_t start = by > 0 ? bound(starts[i], 0, size) : bound(starts[i], -1, size - 1);
    const int64_t end = by > 0 ? bound(ends[i], 0, size) : bound(ends[i], -1, size - 1);
    const int64_t span = by > 0 ? end - start : start - end, stride = by > 0            ? by
                                                                      : by == INT64_MIN ? INT64_MAX
                                                                                        : -by;
    slices.push_back({axis, start, span <= 0 ? 0 : (span - 1) / stride + 1, by > 0 ? stride : -stride});
  }
  return slices;
}
void infer_slice(NodeStep& step) {
  Shape shape = step.shape(0);
  for (const AxisSlice& slice : asked_slices(step, shape)) shape[slice.axis] = slice.count;
  step.output(0, step.dtype(0), shape);
}
/// The part of x, which is larger than 0; axes along which it lies the other way round than asked for.
Tensor sliced(Tensor x, const std::vector<AxisSlice>& slices, std::vector<int>& backwards) {
  for (const AxisSlice& slice : slices) {
    if (slice.count == 1) {
      x = x.slice(slice.axis, slice.start, slice.start + 1);
    } else if (slice.step > 0) {
      x = x.slice(slice.axis, slice.start, slice.start + (slice.count - 1) * slice.step + 1, slice.step);
    } else {
      x = x.slice(slice.axis, slice.start + (slice.count - 1) * slice.step, slice.start + 1, -slice.step);
      backwards.push_back(slice.axis);
    }
  }
  return x;
}
void run_slice(NodeStep& step) {
  if (element_count(step.out(0).shape) == 0) return step.set(0, step.y());
  std::vector<int> backwards;
  const Tensor x = sliced(step.x(0), asked_slices(step, step.shape(0)), backwards);
  if (backwards.empty()) return step.set(0, x);
  flip(step.stream, x, backwards, step.y(), step.options);
}
bool slice_on_host(NodeStep& step) {
  const Strides own = contiguous_strides(step.shape(0));
  std::vector<int64_t> strides(own.begin(), own.end());
  int64_t offset = 0;
  for (const AxisSlice& slice : asked_slices(step, step.shape(0))) {
    if (slice.count == 0) continue;  // no element is looked at
    offset += slice.start * own[slice.axis];
    strides[static_cast<size_t>(slice.axis)] *= slice.count == 1 ? 1 : slice.step;
  }
  view_on_host(step, offset, strides);
  return true;
}

/// Inputs: dy, then those of slice; the sizes of x. dx is 0 but where x was taken.
void infer_slice_backward(NodeStep& step) {
  step.output(0, step.dtype(0), Shape(step.integers(5)));
}
void run_slice_backward(NodeStep& step) {
  const std::vector<AxisSlice> slices = asked_slices(step, step.out(0).shape);
  if (step.y().numel() == 0) return;
  fill(step.stream, 0, step.y(), step.options);
  if (element_count(step.shape(0)) == 0) return;
  std::vector<int> backwards;
  const Tensor part = sliced(step.y(), slices, backwards);
  if (backwards.empty()) return copy(step.stream, step.x(0), part, step.options);
  flip(step.stream, step.x(0), backwards, part, step.options);
}

/// Inputs: x, indices (any shape, which takes the axis' place). Negative ones count from the end.
void infer_gather(NodeStep& step) {
  const int axis = step.axis("axis", 0, step.rank(0));
  Shape shape;
  for (int i = 0; i < axis; i++) shape.push_back(step.shape(0)[i]);
  for (int64_t size : step.shape(1)) shape.push_back(size);
  for (int i = axis + 1; i < step.rank(0); i++) shape.push_back(step.shape(0)[i]);
  step.output(0, step.dtype(0), shape);
}
void run_gather(NodeStep& step) {
  std::vector<Tensor> indices(static_cast<size_t>(step.axis("axis", 0, step.rank(0))));
  indices.push_back(step.x(1));
  if (element_count(step.out(0).shape) != 0)
    index(step.stream, step.x(0), indices, step.y(), step.options);
  else
    step.y();
}

/// Inputs: x, how often along each axis.
void infer_tile(NodeStep& step) {
  const std::vector<int64_t> times = step.integers(1);
  require(times.size() == static_cast<size_t>(step.rank(0)), "inputs", times.size(), " repeats of x, ",
          step.shape(0));
  Shape shape = step.shape(0);
  for (int i = 0; i < shape.size(); i++) {
    const int64_t n = times[static_cast<size_t>(i)];
    require(n >= 0 && (n == 0 || shape[i] < kElementLimit / n), "inputs", n, " repeats of axis ", i, " of ",
            shape);
    shape[i] *= n;
  }
  step.output(0, step.dtype(0), shape);
}
void run_tile(NodeStep& step) {
  const Tensor& y = step.y();
  if (y.numel() != 0) tile(step.stream, step.x(0), y, step.options);
}

/// Inputs: dy, the sizes of x, which was repeated: the sum over all repeats, axis by axis.
void infer_tile_backward(NodeStep& step) {
  step.output(0, step.dtype(0), Shape(step.integers(1)));
  const Shape &x = step.out(0).shape, &dy = step.shape(0);
  bool fits = x.size() == dy.size();
  for (int i = 0; fits && i < x.size(); i++) fits = x[i] == 0 ? dy[i] == 0 : dy[i] % x[i] == 0;
  require(fits, "inputs", "dy is ", dy, ", no repeats of ", x);
}
void run_tile_backward(NodeStep& step) {
  const Shape x = step.out(0).shape;
  if (element_count(step.shape(0)) == 0) {
    if (step.y().numel() != 0) fill(step.stream, 0, step.y(), step.options);
    return;
  }
  Tensor sums = step.x(0);
  for (int i = 0; i < x.size(); i++) {
    if (sums.size(i) == x[i]) continue;
    Shape shape = sums.shape(), repeats{1, sums.size(i) / x[i], x[i], 1};
    shape[i] = x[i];
    for (int k = 0; k < x.size(); k++)
      if (k != i) repeats[k < i ? 0 : 3] *= shape[k];
    const Tensor of = step.dense(sums).reshape(repeats);
    sums = step.scratch(shape, step.dtype(0));
    repeats[1] = 1;
    reduction(step.stream, "sum", of, {}, {sums.reshape(repeats)}, step.options);
  }
  step.set(0, sums);
}

/// Inputs: sizes, a tensor of one element, which y is full of.
void infer_fill(NodeStep& step) {
  require(element_count(step.shape(1)) == 1, "inputs", "the element is ", step.shape(1), ", must be one");
  step.output(0, step.dtype(1), Shape(step.integers(0)));
}
void run_fill(NodeStep& step) {
  if (step.y().numel() == 0) return;
  if (is_floating(step.dtype(1)))
    fill(step.stream, step.numbers(1)[0], step.y(), step.options);
  else
    fill(step.stream, step.integers(1)[0], step.y(), step.options);
}
bool fill_on_host(NodeStep& step) {
  if (element_count(step.out(0).shape) > kMostOnHost) return false;
  HostTensor y = step.host(1);
  y.shape = step.out(0).shape;
  const std::vector<unsigned char> element = y.data;
  y.data.clear();
  for (int64_t i = element_count(y.shape); i-- > 0;)
    y.data.insert(y.data.end(), element.begin(), element.end());
  step.set_host(0, std::move(y));
  return true;
}

/// Inputs: start, limit, delta: start, start + delta, ... before the limit.
void infer_range(NodeStep& step) {
  for (int k = 0; k < 3; k++)
    require(element_count(step.shape(k)) == 1, "inputs", "input ", k, " must be one number");
  double count = 0;
  if (is_floating(step.dtype(0))) {
    count = std::ceil((step.numbers(1)[0] - step.numbers(0)[0]) / step.numbers(2)[0]);
  } else {
    const int64_t start = step.integers(0)[0], limit = step.integers(1)[0], delta = step.integers(2)[0];
    require(delta != 0, "inputs", "the step of a range is 0");
    const auto span = static_cast<__int128>(limit) - start;
    count = static_cast<double>(span / delta + (span % delta != 0 && (span < 0) == (delta < 0)));
  }
  require(count < static_cast<double>(kElementLimit), "inputs", "a range of ", count,
          " elements");  // NaN, too
  step.output(0, step.dtype(0), {static_cast<int64_t>(std::max(count, 0.0))});
}
void run_range(NodeStep& step) {
  const Tensor& y = step.y();
  if (y.numel() == 0) return;
  if (is_floating(step.dtype(0)))
    arange(step.stream, step.numbers(0)[0], step.numbers(2)[0], y, step.options);
  else
    arange(step.stream, step.integers(0)[0], step.integers(2)[0], y, step.options);
}
bool range_on_host(NodeStep& step) {
  const int64_t count = step.out(0).shape[0];
  if (is_floating(step.dtype(0)) || count > kMostOnHost) return false;
  std::vector<int64_t> elements;
  for (int64_t i = 0; i < count; i++) elements.push_back(step.integers(0)[0] + i * step.integers(2)[0]);
  step.set_host(0, host_tensor(step.out(0).dtype, step.out(0).shape, elements));
  return true;
}

constexpr NodeKind kKinds[] = {
    {"slice", 3, 5, infer_slice, run_slice, slice_on_host},
    {"slice_backward", 3, 6, infer_slice_backward, run_slice_backward},
    {"gather", 2, 2, infer_gather, run_gather, gather_on_host},
    {"tile", 2, 2, infer_tile, run_tile},
    {"tile_backward", 2, 2, infer_tile_backward, run_tile_backward},
    {"fill", 2, 2, infer_fill, run_fill, fill_on_host},
    {"range", 3, 3, infer_range, run_range, range_on_host},
};

}  // namespace

KindList index_kinds() {
  return list_of(kKinds);
}

}  // namespace dlprim::detail
