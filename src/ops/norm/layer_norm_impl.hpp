// What both directions of layer normalisation say of shapes and optional tensors.
#pragma once

#include "ops/norm/norm_rows.hpp"

namespace dlprim::detail {

/// The last `axes` sizes of x. Throws ValidationError.
Shape normalized_shape(const Shape& x, int axes);
/// x's shape with 1 for each of the last `axes`.
Shape statistics_shape(Shape x, int axes);

}  // namespace dlprim::detail
