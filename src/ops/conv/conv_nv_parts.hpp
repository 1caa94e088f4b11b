// f32 pixels as parts of bf16, channels side by side, for conv_nv_filter.cl: the host's side of
// conv_nv_parts.cl.
#pragma once

#include <optional>

#include <dlprim/pointwise.hpp>

#include "core/composed.hpp"
#include "ops/conv/conv_problem.hpp"

namespace dlprim::detail {

class ConvNvParts {
 public:
  /// How many pairs of magnitudes are noted.
  static constexpr int kRanges = 1056;  // eight groups on each of 132 units

  static constexpr int kParts = 3;

  /// Of x, or of y if `of_y`.
  ConvNvParts(const Context& context, const ConvProblem& p, bool of_y, WorkspaceParts& workspace);

  /// Of the workspace, without the magnitudes.
  static uint64_t bytes(const ConvProblem& p, bool of_y);

  /// Of a part; each lies like the others, part_stride() elements behind the one before.
  const ConvStrides& strides() const { return strides_; }
  int64_t part_stride() const { return strides_[0] * images_; }
  /// Enqueues the making; the first part.
  Tensor prepare(const Stream& stream, const Tensor& x, const Tensor& workspace) const;
  Tensor ranges(const Tensor& workspace) const;

 private:
  int channels_, images_;
  int64_t pixels_, pitch_;
  ConvStrides strides_{};
  int64_t image_stride_ = 0, channel_stride_ = 0, pixel_stride_ = 0;
  std::optional<Pointwise> copied_;  ///< where pixels do not lie evenly
  TensorDesc packed_;
  size_t packed_at_ = 0, at_ = 0, ranges_at_ = 0;
  Kernel kernel_;
};

}  // namespace dlprim::detail
