// Tile sizes of gemm_cpu_loop.cl and how its work is shared out, for GEMM and for convolution as implicit
// GEMM.
#pragma once

#include <cstdint>
#include <string>

#include <dlprim/device.hpp>

#include "core/defines.hpp"
#include "core/launch.hpp"

namespace dlprim::detail {

/// What is compiled in.
struct GemmCpuTiles {
  int vw = 8;    ///< numbers in a vector
  int nv = 2;    ///< vectors in a row of the register tile
  int mr = 6;    ///< rows of the register tile
  int kc = 256;  ///< steps of k in a block
  int nc = 128;  ///< most columns of B in a packed panel
  int mc = 120;  ///< rows of packed A that stay in the cache while the panel is used

  bool fetches = false;  ///< lines are fetched ahead of their use

  int nr() const { return vw * nv; }
  /// VW, NV, MR, KC, NC, MC, FETCHES.
  void define(Defines& defines) const;
};

/// What a work-group is given at run time.
struct GemmCpuShare {
  int columns;  ///< kernel parameter nc: a multiple of NR, at most NC
  int rows;     ///< kernel parameter rows: a multiple of MR

  /// Runs a kernel that has its arguments, for `batch` products of m x n numbers.
  void run(Launch& launch, int64_t m, int64_t n, int64_t batch) const;
};

/// Tiles for C of m x n numbers of `real` bytes.
GemmCpuTiles gemm_cpu_tiles_for(const Device& device, int64_t m, int64_t n, uint64_t real = sizeof(float));
/// What work-groups pack for themselves: their columns of B, their rows of A.
struct GemmCpuPacking {
  bool a = false, b = true;
};

/// Shares that keep all compute units busy for `batch` products, with as little packing as that allows.
GemmCpuShare gemm_cpu_share_for(const GemmCpuTiles& tiles, const Device& device, int64_t m, int64_t n,
                                int64_t batch, GemmCpuPacking packing = {});
/// Why gemm_cpu_loop.cl cannot run on the device; empty if it can.
std::string refuse_gemm_cpu(const Device& device);

}  // namespace dlprim::detail
