// The host's side of divide.cl.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/launch.hpp"

namespace dlprim::detail {

/// Binds a DIVISOR: the value, and its reciprocal rounded up to 32 bits.
inline void bind_divisor(Launch& launch, int d) {
  uint32_t shift = 0;
  while ((int64_t{1} << shift) < d) shift++;
  const uint64_t power = uint64_t{1} << (31 + shift);
  const auto divisor = static_cast<uint64_t>(std::max(1, d));
  launch.arg(d).arg(static_cast<uint32_t>((power + divisor - 1) / divisor)).arg(shift);
}

}  // namespace dlprim::detail
