// Pooling as plain loops in double over row-major arrays.
#pragma once

#include <cstdint>
#include <vector>

#include <dlprim/pool.hpp>

#include "cases/nn.hpp"

namespace dlprim::test {

struct Pooled {
  Values y;
  std::vector<int64_t> indices;  ///< of maxima
};
/// x of `shape`, [C, ...] or [N, C, ...].
Pooled pool_reference(const Values& x, const Shape& shape, const PoolParams& params);
/// Hands each dy back to where its maximum was, in shares to its window, or as the norm's slopes.
Values pool_backward_reference(const Values& dy, const Values& x, const Shape& shape,
                               const PoolParams& params);

}  // namespace dlprim::test
