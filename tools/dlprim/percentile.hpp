// What is reported of repeated measurements.
#pragma once

#include <cstddef>
#include <vector>

namespace dlprim::cli {

/// Of numbers in ascending order, at least one: the one that `share` of them do not exceed.
inline double percentile(const std::vector<double>& sorted, double share) {
  return sorted[static_cast<size_t>(share * static_cast<double>(sorted.size() - 1) + 0.5)];
}

}  // namespace dlprim::cli
