// A or B as the nv engines' kernels read it: as it is, or packed by gemm_nv_pack.cl, with K contiguous and
// rows on 16-byte boundaries.
#pragma once

#include <array>

#include "core/composed.hpp"
#include "ops/gemm_impl.hpp"

namespace dlprim::detail {

class NvOperand {
 public:
  NvOperand() = default;
  /// `parts` copies of `rows` x K, packed unless `straight`: 1, or 2 tf32 parts of f32.
  NvOperand(const Context& context, const GemmProblem& p, const GemmOperand& x, int64_t rows, bool straight,
            int parts, WorkspaceParts& workspace);

  const GemmOperand& as_read() const { return as_read_; }
  /// Enqueues the packing.
  void prepare(const Stream& stream, const Tensor& x, const Tensor& workspace) const;
  Tensor part(int i, const Tensor& x, const Tensor& workspace) const;
  /// Pairs of magnitudes that the packing of two parts notes.
  Tensor ranges(const Tensor& workspace) const;
  int range_count() const { return static_cast<int>(ranges_); }

 private:
  int64_t groups_k() const { return ceil_div(k_, source_.unit_k ? 256 : 32); }
  int64_t elements() const { return batch_ * rows_ * as_read_.pitch; }

  GemmOperand source_, as_read_;
  int64_t rows_ = 0, k_ = 0, batch_ = 1, groups_n_ = 0, ranges_ = 0;
  size_t ranges_at_ = 0;
  bool packed_ = false;
  DType dtype_ = DType::f32;
  std::array<size_t, 2> at_{};
  Kernel pack_;
};

}  // namespace dlprim::detail
