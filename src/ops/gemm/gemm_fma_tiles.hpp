// Tile sizes of gemm_fma.cl, for GEMM and for convolution as implicit GEMM.
#pragma once

#include <cstdint>
#include <string>

#include <dlprim/device.hpp>

#include "core/defines.hpp"

namespace dlprim::detail {

struct GemmFmaTile {
  int tm, tn, tk;  ///< the tile of a work-group, and the steps of k it takes at once
  int rm, rn;      ///< the sums of a work-item

  int items() const { return tm / rm * (tn / rn); }
  /// Bytes of local memory: two buffers of both tiles of floats.
  uint64_t local_bytes() const { return uint64_t{8} * (tk * (tm + 4 + tn + 4) + 16); }
  /// TM, TN, TK, RM, RN.
  void define(Defines& defines) const;
};

/// That the tile is one that gemm_fma.cl can be compiled with. Throws ValidationError.
void require_gemm_fma_tile(const GemmFmaTile& tile);
/// Why the device cannot run it; empty if it can. `element`: bytes of an element in local memory.
std::string refuse_gemm_fma_tile(const Device& device, const GemmFmaTile& tile,
                                 uint64_t element = sizeof(float));

}  // namespace dlprim::detail
