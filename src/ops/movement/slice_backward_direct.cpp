// Words and dimensions of slice_backward.cl.
#include "ops/movement/slice_backward_direct.hpp"

#include <algorithm>
#include <climits>

#include "core/composed.hpp"
#include "core/gen/expression.hpp"
#include "ops/lib/divisor.hpp"
#include "ops/lib/int64.hpp"

namespace dlprim::detail {

#include "kernels/movement/slice_backward.h"

namespace {

constexpr int64_t kLocal = 256;         // work-items a group
constexpr int64_t kUnroll = 4;          // words of a work-item
constexpr int64_t kMost = INT_MAX / 4;  // elements, so that no sum of the kernel's passes 2^31

/// The loops over dx, innermost first, and which of them is the axis.
struct Loops {
  std::vector<LoopDim> dims;
  size_t axis = 0;
  bool wide = false;
};

Loops find_loops(TensorDesc dy, TensorDesc dx, int axis) {
  const LoopDim along{dx.shape[axis], {dy.strides[axis], dx.strides[axis]}};
  Loops loops;
  loops.wide = make_loop_nest({}, {dx}, false).wide || make_loop_nest({}, {dy}, false).wide;
  dy.shape[axis] = dx.shape[axis] = 1;
  loops.dims = make_loop_nest({dy}, {dx}, false).kept;
  std::reverse(loops.dims.begin(), loops.dims.end());
  while (loops.axis < loops.dims.size() && loops.dims[loops.axis].strides[1] < along.strides[1]) loops.axis++;
  loops.dims.insert(loops.dims.begin() + static_cast<std::ptrdiff_t>(loops.axis), along);
  return loops;
}

/// Whether words of `width` elements of tensor `t`, 0 for dy, have all their elements side by side and begin
/// at multiples of `width`.
bool has_words(const Loops& loops, size_t t, int64_t width) {
  bool fits = loops.dims[0].size % width == 0 && loops.dims[0].strides[t] == 1;
  for (size_t d = 1; d < loops.dims.size(); d++) fits &= loops.dims[d].strides[t] % width == 0;
  return fits;
}

int64_t width_of(const Loops& loops, const TensorDesc& dx) {
  if (!dx.aligned || size_of(dx.dtype) > 4) return 1;
  for (const int64_t width : {8, 4})
    if (width * static_cast<int64_t>(size_of(dx.dtype)) <= 16 && has_words(loops, 1, width)) return width;
  return 1;
}

/// Whether a word of dx is one of dy or has nothing of it.
bool is_whole(const Loops& loops, const TensorDesc& dy, const Slicing& slicing, int filled, int64_t width) {
  if (width == 1 || !dy.aligned || width * static_cast<int64_t>(size_of(dy.dtype)) > 16) return false;
  const bool kept =
      loops.axis > 0 || (slicing.step == 1 && slicing.start % width == 0 && filled % width == 0);
  return kept && has_words(loops, 0, width);
}

/// The type to move elements as where they stay as they are.
DType moved_as(DType dtype) {
  switch (size_of(dtype)) {
    case 1:
      return DType::u8;
    case 2:
      return DType::i16;
    case 4:
      return DType::i32;
    default:
      return DType::i64;
  }
}

}  // namespace

bool SliceBackwardDirect::suits(const TensorDesc& dx) {
  return element_count(dx.shape) <= kMost;
}

SliceBackwardDirect::SliceBackwardDirect(const Context& context, const TensorDesc& dy, const Slicing& slicing,
                                         const TensorDesc& dx, bool wide)
    : slicing_(slicing), filled_(to_int("dy", dy.shape[slicing.axis])) {
  slicing_.step = std::min(slicing.step, dx.shape[slicing.axis]);
  const Loops loops = find_loops(dy, dx, slicing.axis);
  dims_ = loops.dims;
  const int64_t width = width_of(loops, dx);
  dims_[0].size /= width;
  count_ = element_count(dx.shape) / width;
  const bool same = dy.dtype == dx.dtype;
  const DType from = same ? moved_as(dy.dtype) : dy.dtype, to = same ? moved_as(dx.dtype) : dx.dtype;
  Defines defines;
  defines.set("V", width).set("UNROLL", kUnroll).set("LOCAL", kLocal);
  defines.set("DIMS", static_cast<int64_t>(dims_.size())).set("AXIS", static_cast<int64_t>(loops.axis));
  defines.set("WHOLE", is_whole(loops, dy, slicing_, filled_, width));
  defines.set("OFFSET", wide || loops.wide ? "long" : "int");
  define_type(defines, "X", from);
  defines.set("X_C", compute_type(from));
  define_type(defines, "Y", to);
  defines.set("Y_C", compute_type(to));
  defines.set("TO_TRUTH", !same && to == DType::boolean);
  kernel_ = context.state().programs.kernel("slice_backward", "slice_backward", defines);
}

void SliceBackwardDirect::run(const Stream& stream, const Tensor& dy, const Tensor& dx) const {
  SliceBackwardNest nest{};
  for (size_t d = 0; d < dims_.size(); d++) {
    nest.dy[d] = dims_[d].strides[0], nest.dx[d] = dims_[d].strides[1];
    nest.size[d] = divisor_of(static_cast<int>(dims_[d].size));
  }
  nest.step = divisor_of(static_cast<int>(slicing_.step));
  nest.first = static_cast<int>(slicing_.start / slicing_.step);
  nest.lead = static_cast<int>(slicing_.start % slicing_.step);
  nest.filled = filled_, nest.count = static_cast<int>(count_);
  Launch launch(stream, kernel_);
  launch.arg(dy).arg(dx).arg(nest);
  launch.run({items_in_groups(ceil_div(count_, kUnroll), kLocal)}, {static_cast<size_t>(kLocal)});
}

}  // namespace dlprim::detail
