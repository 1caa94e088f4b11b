// Sorting and merging the dimensions of a loop nest.
#include "core/gen/loop_nest.hpp"

#include <algorithm>
#include <climits>

#include "core/check.hpp"

namespace dlprim::detail {
namespace {

/// True if dimension `a` belongs outside `b`: by the first tensor that steps along both at different strides.
bool outside(const LoopDim& a, const LoopDim& b, const std::vector<size_t>& priority) {
  for (size_t t : priority)
    if (a.strides[t] && b.strides[t] && a.strides[t] != b.strides[t]) return a.strides[t] > b.strides[t];
  return false;
}

/// Insertion sort, since `outside` is no strict weak order when tensors disagree; equal ones keep their
/// order.
void sort_dims(std::vector<LoopDim>& dims, const std::vector<size_t>& priority) {
  for (size_t i = 1; i < dims.size(); i++)
    for (size_t j = i; j > 0 && outside(dims[j], dims[j - 1], priority); j--) std::swap(dims[j], dims[j - 1]);
}

void merge_dims(std::vector<LoopDim>& dims) {
  for (size_t i = dims.size(); i-- > 1;) {
    const LoopDim& inner = dims[i];
    LoopDim& outer = dims[i - 1];
    bool fits = true;
    for (size_t t = 0; t < inner.strides.size(); t++)
      fits &= outer.strides[t] == inner.strides[t] * inner.size;
    if (!fits) continue;
    outer.size *= inner.size;
    outer.strides = inner.strides;
    dims.erase(dims.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

int64_t smallest_stride(const std::vector<LoopDim>& dims, size_t tensor) {
  int64_t smallest = INT64_MAX;
  for (const LoopDim& d : dims)
    if (d.strides[tensor]) smallest = std::min(smallest, d.strides[tensor]);
  return smallest;
}

Shape common_shape(const std::vector<TensorDesc>& inputs, const std::vector<TensorDesc>& outputs,
                   bool reduces) {
  require(!outputs.empty(), "outputs", "there is none");
  const Shape& y = outputs[0].shape;
  for (size_t i = 1; i < outputs.size(); i++) require_shape(ArgName("outputs", i), outputs[i], y);
  Shape shape = y;
  for (size_t i = 0; i < inputs.size(); i++) {
    try {
      shape = broadcast_shapes(shape, inputs[i].shape);
    } catch (const ValidationError& error) {
      throw renamed(error, ArgName("inputs", i));
    }
    require(reduces || shape == y, ArgName("inputs", i), "shape ", inputs[i].shape,
            " does not broadcast to the outputs' ", y);
  }
  return shape;
}

}  // namespace

LoopNest make_loop_nest(const std::vector<TensorDesc>& inputs, const std::vector<TensorDesc>& outputs,
                        bool reduces) {
  for (size_t i = 0; i < inputs.size(); i++) require_strides(ArgName("inputs", i), inputs[i]);
  for (size_t i = 0; i < outputs.size(); i++) require_strides(ArgName("outputs", i), outputs[i]);
  std::vector<TensorDesc> tensors = inputs;
  tensors.insert(tensors.end(), outputs.begin(), outputs.end());
  const Shape shape = common_shape(inputs, outputs, reduces);
  const Shape& y = outputs[0].shape;

  LoopNest nest;
  for (int i = 0; i < shape.size(); i++) {
    const int at = i - (shape.size() - y.size());  // this dimension's place in the outputs
    const bool reduced = at < 0 || y[at] != shape[i];
    (reduced ? nest.reduced_count : nest.kept_count) *= shape[i];
    if (shape[i] == 1) continue;
    LoopDim dim;
    dim.size = shape[i];
    for (const TensorDesc& t : tensors) {
      const int place = i - (shape.size() - t.shape.size());
      dim.strides.push_back(place < 0 || t.shape[place] == 1 ? 0 : t.strides[place]);
    }
    (reduced ? nest.reduced : nest.kept).push_back(dim);
  }

  // A pointwise kernel goes along its output; a reduction along its first input, which is the larger.
  std::vector<size_t> priority;
  for (size_t t = 0; t < tensors.size(); t++)
    priority.push_back(reduces ? t : (t + inputs.size()) % tensors.size());
  sort_dims(nest.kept, priority);
  sort_dims(nest.reduced, priority);
  merge_dims(nest.kept);
  merge_dims(nest.reduced);
  if (!inputs.empty() && !nest.reduced.empty())
    nest.reduced_innermost = smallest_stride(nest.reduced, 0) <= smallest_stride(nest.kept, 0);

  constexpr int64_t kNarrow = int64_t{1} << 30;  // room for the steps by which a loop passes its end
  nest.wide = nest.kept_count > kNarrow || nest.reduced_count > kNarrow;
  for (const TensorDesc& t : tensors) nest.wide |= extent_of(t) > kNarrow;
  return nest;
}

}  // namespace dlprim::detail
