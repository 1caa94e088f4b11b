// References for operators with indices: plain loops over row-major arrays, and index tensors to feed them.
#pragma once

#include <dlprim/index.hpp>

#include "cases/nn.hpp"

namespace dlprim::test {

/// A row-major i32 or i64 tensor.
Tensor index_tensor(const Shape& shape, const std::vector<int64_t>& values, DType dtype = DType::i64);
/// Uniform in [-size, size) with `outside` of a thousand beyond it.
std::vector<int64_t> random_indices(int64_t count, int64_t size, Rng& rng, int outside = 0);

/// Coordinates of row-major element `i`, and the element at coordinates; -1 where one is outside.
std::vector<int64_t> coordinates(const Shape& shape, int64_t i);
int64_t element_at(const Shape& shape, const std::vector<int64_t>& coordinates);

Values gather_reference(const Values& x, const Shape& shape, const std::vector<int64_t>& index,
                        const Shape& index_shape, int axis);
/// One place's new value from the old one and what is scattered there, in order.
double fold_reference(ScatterReduce reduce, bool include_self, double old, const Values& values,
                      bool integers);
/// y after src was scattered to `places`, numbers of elements of y, below 0 none.
Values scatter_reference(const Values& y, const std::vector<int64_t>& places, const Values& src,
                         const ScatterParams& params, bool integers = false);
/// Where each element of a tensor of the index's shape goes in one of `shape`.
std::vector<int64_t> scatter_places(const Shape& shape, const std::vector<int64_t>& index,
                                    const Shape& index_shape, int axis);

}  // namespace dlprim::test
