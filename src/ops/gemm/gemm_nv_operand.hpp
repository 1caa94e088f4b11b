// A or B as the nv engines' kernels read it: as it is, or packed by gemm_nv_pack.cl, with K contiguous and
// rows on 16-byte boundaries.
#pragma once

#include <array>
#include <memory>

#include "core/composed.hpp"
#include "core/constants.hpp"
#include "ops/gemm/gemm_impl.hpp"

namespace dlprim::detail {

class NvOperand {
 public:
  NvOperand() = default;
  enum class Form { one, split, noted };
  /// `rows` x K. `one`: packed unless `straight`; `noted`: the same, with its magnitudes; `split`: two tf32
  /// parts of f32, with its magnitudes. What is made of a constant operand is kept, else it is a part of the
  /// workspace.
  NvOperand(const Context& context, const GemmProblem& p, const GemmOperand& x, int64_t rows, bool straight,
            Form form, bool constant, WorkspaceParts& workspace);

  const GemmOperand& as_read() const { return as_read_; }
  /// Enqueues the packing, unless it was done before. The memory that has its results.
  Tensor prepare(const Stream& stream, const Tensor& x, const Tensor& workspace) const;
  Tensor part(int i, const Tensor& x, const Tensor& prepared) const;
  /// Pairs of magnitudes.
  Tensor ranges(const Tensor& prepared) const;
  int range_count() const { return static_cast<int>(ranges_); }
  void forget_constant() const;

 private:
  void pack(const Stream& stream, const Tensor& x, const Tensor& to) const;
  int64_t groups_k() const { return ceil_div(k_, source_.unit_k ? 256 : 32); }
  int64_t elements() const { return batch_ * rows_ * as_read_.pitch; }

  GemmOperand source_, as_read_;
  int64_t rows_ = 0, k_ = 0, batch_ = 1, groups_n_ = 0, ranges_ = 0;
  size_t ranges_at_ = 0;
  bool packed_ = false, prepared_ = false;
  DType dtype_ = DType::f32;
  std::array<size_t, 2> at_{};
  Kernel pack_;
  WorkspaceParts kept_;
  std::unique_ptr<Constants> constant_;  ///< if there is something to keep
};

}  // namespace dlprim::detail
