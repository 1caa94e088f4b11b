// Kernels of conv_nv_mma.cl, apart from the engine, so that they can be compiled off line.
#pragma once

#include "ops/conv/conv_gather.hpp"

namespace dlprim::detail {

/// A work-group's tile and its warps.
struct ConvNvMmaTile {
  int m = 0, n = 0, warps_m = 0, warps_n = 0, stages = 0;
  double rate = 0;  ///< share of the instructions' rate that full turns reach

  int64_t items() const { return 32 * int64_t{warps_m} * warps_n; }
  uint64_t local_bytes() const {
    return static_cast<uint64_t>(stages * kStepBytes) * static_cast<uint64_t>(m + n);
  }
  static constexpr int kStepBytes = 128;
};

/// The source's channels as the kernel counts them, in pieces of 16 bytes.
void round_up_channels(ConvGather& gather, const ConvProblem& problem);

/// `unit_source`: w's channels of the source are contiguous, else those of the target.
Defines conv_nv_mma_defines(const ConvProblem& problem, const ConvGather& gather, const ConvNvMmaTile& tile,
                            bool split, bool unit_source);

}  // namespace dlprim::detail
