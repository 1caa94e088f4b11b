// The axes of tensors in the roles that they have in a resampling kernel.
#pragma once

#include <vector>

#include <dlprim/tensor.hpp>

#include "ops/resample/taps.hpp"

namespace dlprim::detail {

inline constexpr int kMappedAxes = 3;  ///< that a pass maps at most

/// One axis of tensors and what happens along it.
struct MappedAxis {
  int axis = 0;
  AxisTaps taps;
};

/// An axis as a pass sees it.
struct LoopAxis {
  int64_t size = 1, x_size = 1, x_stride = 0, y_stride = 0;
  AxisTaps taps = identity_taps(1);
};

/// The axes of a pass in their roles.
struct ResampleRoles {
  LoopAxis mapped[kMappedAxes];  // by steps in y, the smallest last
  LoopAxis inner;                // not mapped, and neighbours in y
  std::vector<LoopAxis> planes;  // the others, outermost first

  ResampleRoles(const TensorDesc& x, const TensorDesc& y, const std::vector<MappedAxis>& axes, int64_t lanes);
  int64_t count() const {
    int64_t product = 1;
    for (const LoopAxis& axis : planes) product *= axis.size;
    return product;
  }

 private:
  void merge_planes();
  void widen_inner();
};

}  // namespace dlprim::detail
