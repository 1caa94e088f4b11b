// What the depthwise engines tell their kernels.
#pragma once

#include "ops/conv/conv_axes.hpp"
#include "ops/lib/divisor.hpp"

namespace dlprim::detail {

#include "kernels/conv/conv_depthwise.h"

/// All but where strips or blocks begin, which engines choose.
DepthwiseGeometry depthwise_geometry(const ConvProblem& p);

}  // namespace dlprim::detail
