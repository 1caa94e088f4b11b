// The gradient of a slice in one pass over dx, on a GPU: an engine of SliceBackward.
#pragma once

#include <vector>

#include <dlprim/tensor.hpp>

#include "core/gen/loop_nest.hpp"
#include "core/launch.hpp"

namespace dlprim::detail {

/// Every `step`th place of an axis, from `start` on.
struct Slicing {
  int axis = 0;
  int64_t start = 0, step = 1;
};

class SliceBackwardDirect {
 public:
  /// Whether the kernel can count so many elements.
  static bool suits(const TensorDesc& dx);
  /// dy has dx's shape but along the axis. `wide`: offsets of 64 bits even where 32 do.
  SliceBackwardDirect(const Context& context, const TensorDesc& dy, const Slicing& slicing,
                      const TensorDesc& dx, bool wide = false);
  /// Of tensors as described, with elements.
  void run(const Stream& stream, const Tensor& dy, const Tensor& dx) const;

 private:
  Kernel kernel_;
  std::vector<LoopDim> dims_;  ///< innermost first; strides: dy's, dx's
  int64_t count_ = 0;          ///< words of dx
  Slicing slicing_;
  int filled_ = 0;  ///< places of the axis that come from dy
};

}  // namespace dlprim::detail
