// Sizes along the axes and strides, as kernels take them.
#pragma once

#include "ops/conv/conv_problem.hpp"
#include "ops/lib/int64.hpp"

namespace dlprim::detail {

#include "kernels/conv/conv_axes.h"

inline AxisSizes sizes_of(const Spatial& s) {
  return {s[0], s[1], s[2]};
}
inline PixelStrides strides_of(const ConvStrides& strides) {
  const std::array<int, 5> s = narrow(strides);
  return {s[0], s[1], s[2], s[3], s[4]};
}
inline LongStrides long_strides_of(const ConvStrides& s) {
  return {s[0], s[1], s[2], s[3], s[4]};
}

}  // namespace dlprim::detail
