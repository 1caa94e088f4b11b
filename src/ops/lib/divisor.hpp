// The host's side of divisor.cl.
#pragma once

#include <algorithm>

#include "core/launch.hpp"

namespace dlprim::detail {

#include "kernels/lib/divisor.h"

/// With the reciprocal rounded up to 32 bits.
inline Divisor divisor_of(int d) {
  uint32_t shift = 0;
  while ((int64_t{1} << shift) < d) shift++;
  const uint64_t power = uint64_t{1} << (31 + shift);
  const auto divisor = static_cast<uint64_t>(std::max(1, d));
  return {d, static_cast<uint32_t>((power + divisor - 1) / divisor), shift};
}

/// Binds a DIVISOR.
inline void bind_divisor(Launch& launch, int d) {
  const Divisor divisor = divisor_of(d);
  launch.arg(divisor.d).arg(divisor.magic).arg(divisor.shift);
}

}  // namespace dlprim::detail
