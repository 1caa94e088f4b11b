// Ordering along an axis: references by std::stable_sort over row-major arrays.
#pragma once

#include "cases/nn.hpp"

namespace dlprim::test {

/// PyTorch's order: NaN above all else.
bool sorts_before(double a, double b);

/// Of each row along the axis the first k places in order, as an array of the shape with k along the axis.
std::vector<int64_t> sorted_places(const Values& x, const Shape& shape, int axis, bool descending, int64_t k);
/// x's elements at such places.
Values taken_at(const Values& x, const Shape& shape, int axis, const std::vector<int64_t>& places, int64_t k);
/// The inverse: dx with dy's elements there, 0 elsewhere.
Values put_at(const Values& dy, const Shape& shape, int axis, const std::vector<int64_t>& places, int64_t k);

}  // namespace dlprim::test
