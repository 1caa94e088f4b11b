// Views of tensors that a plan knows by their descriptions alone, and copies between them.
#pragma once

#include <dlprim/copy.hpp>

#include "core/composed.hpp"

namespace dlprim::detail {

/// What as_strided() of a tensor takes.
struct View {
  Shape shape;
  Strides strides;
  int64_t offset = 0;

  TensorDesc desc(const TensorDesc& of) const {
    const bool aligned = of.aligned && offset * static_cast<int64_t>(size_of(of.dtype)) % 16 == 0;
    return {shape, strides, of.dtype, aligned};
  }
  Tensor of(const Tensor& tensor) const { return tensor.as_strided(shape, strides, offset); }
};

/// All of the tensor.
inline View whole(const TensorDesc& desc) {
  return {desc.shape, desc.strides, 0};
}

/// Every `step`th place of the view from `start` to below `end` along an axis, all within it.
inline View sliced(View view, int axis, int64_t start, int64_t end, int64_t step = 1) {
  view.offset += start * view.strides[axis];
  view.shape[axis] = start == end ? 0 : (end - start - 1) / step + 1;
  if (view.shape[axis] > 1) view.strides[axis] *= step;
  return view;
}

/// A view of y becomes a view of x.
class ViewCopy {
 public:
  ViewCopy(const Context& context, const TensorDesc& x, View from, const TensorDesc& y, View to)
      : from_(from), to_(to), copy_(context, {from.desc(x), to.desc(y)}) {}
  void run(const Stream& stream, const Tensor& x, const Tensor& y) const {
    copy_.run(stream, from_.of(x), to_.of(y));
  }

 private:
  View from_, to_;
  Copy copy_;
};

}  // namespace dlprim::detail
