// The warp-group matrix instructions of kernels with slots [SPLIT_|REGISTER_]MULTIPLY and -WAIT:
// inline PTX with an operand per register, which no macro can write.
#pragma once

#include <string>

#include <dlprim/dtype.hpp>

namespace dlprim::detail {

struct WgmmaForm {
  DType dtype = DType::f32;  ///< f16, bf16, or f32 as tf32
  bool split = false;  ///< A in registers hi[16] and lo[16], B in two tensors; else both in local memory
  int tile_n = 128;    ///< a multiple of 8, at most 256
  bool a_unit_k = true, b_unit_k = true;
  bool a_registers = false;  ///< A in registers a[16], not split; those of the step before are before[16]
};

/// `text` with its slots filled. Variables that the kernel has: a_at, b_at, b_lo_at (descriptors);
/// sums[] or, split, part[].
std::string fill_wgmma_slots(const std::string& text, const WgmmaForm& form);

/// Both operands in local memory as parts, of which A's are `a_bytes` and B's `b_bytes` apart, contiguous
/// along M and N.
struct WgmmaPartsForm {
  DType dtype = DType::bf16;  ///< or f16
  int parts = 3;              ///< x[0] + x[1] + ...: products of parts i and j with i + j < parts
  int tile_n = 128, pixels = 32, a_bytes = 0, b_bytes = 0;
};

/// Slots MULTIPLY and WAIT, of sums[], with one part; PARTS_MULTIPLY, of part_sums[] and waiting, with more.
std::string fill_wgmma_parts_slots(const std::string& text, const WgmmaPartsForm& form);

}  // namespace dlprim::detail
