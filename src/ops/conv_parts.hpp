// Long sums cut into parts: where a product has too few tiles to occupy the device, work-groups share the
// steps of k, each writes a result of its own into a workspace, and a second kernel adds those up, always in
// the same order.
#pragma once

#include <cstdint>

#include "core/launch.hpp"

namespace dlprim::detail {

struct ConvParts {
  int count = 1;
  int steps = 0;  ///< of k in a part; the last may have fewer
};

/// How to share `k` steps, taken `block` at a time. `tiles` work-groups compute a part, of `results` floats;
/// `room` is how many floats there are for parts.
ConvParts conv_parts_for(int64_t k, int64_t block, int64_t tiles, const Device& device, int64_t results,
                         int64_t room);

Kernel conv_add_parts_kernel(const Context& context);
/// y = the sum of the `parts` arrays, as large as y, which lie one after the other in x.
void conv_add_parts(const Stream& stream, const Kernel& kernel, const Tensor& x, const Tensor& y, int parts);

}  // namespace dlprim::detail
