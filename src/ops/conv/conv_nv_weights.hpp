// w as conv_nv_wgmma.cl reads it: as it is, where it lies so, or packed by conv_nv_pack.cl.
#pragma once

#include <array>

#include "core/composed.hpp"
#include "core/constants.hpp"
#include "ops/conv/conv_problem.hpp"

namespace dlprim::detail {

class ConvNvWeights {
 public:
  /// `parts`: 1 or 2. What is made of a constant w is kept, else it is a part of the workspace.
  ConvNvWeights(const Context& context, const ConvProblem& p, int parts, WorkspaceParts& workspace);

  /// Whether the target's channels are contiguous; else the source's are.
  bool unit_target() const { return unit_target_; }
  /// Elements from one tap to the next and from one row to the next.
  int64_t tap_stride() const { return tap_stride_; }
  int64_t row_stride() const { return row_stride_; }

  /// Enqueues the packing, unless it was done before. The memory that has its results.
  Tensor prepare(const Stream& stream, const Tensor& w, const Tensor& workspace) const;
  Tensor part(size_t i, const Tensor& w, const Tensor& prepared) const;
  /// Pairs of magnitudes; undefined with one part.
  Tensor ranges(const Tensor& prepared) const;
  int range_count() const { return parts_ == 2 ? static_cast<int>(ranges_) : 0; }
  void forget_constants() const { constant_.forget(); }

 private:
  bool lies_so() const;
  void pack(const Stream& stream, const Tensor& w, const Tensor& to) const;
  int64_t elements() const { return int64_t{p_.groups} * rows_ * row_stride_; }

  const ConvProblem p_;
  const int parts_;
  const bool backward_;
  int rows_ = 0;
  bool packed_ = false, unit_target_ = false;
  int64_t tap_stride_ = 0, row_stride_ = 0, ranges_ = 0;
  std::array<size_t, 2> at_{};
  size_t ranges_at_ = 0;
  std::array<int64_t, 2> groups_{};
  WorkspaceParts kept_;
  Constants constant_;
  Kernel pack_;
};

}  // namespace dlprim::detail
