// Sizes along the axes, as kernels take them.
#pragma once

#include "ops/conv/conv_problem.hpp"

namespace dlprim::detail {

#include "kernels/conv/conv_axes.h"

inline AxisSizes sizes_of(const Spatial& s) {
  return {s[0], s[1], s[2]};
}

}  // namespace dlprim::detail
