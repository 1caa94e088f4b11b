// Operands of conv_nv_mma.cl: channels contiguous, all else on 16-byte boundaries. As they are, or copied so.
#pragma once

#include <optional>

#include <dlprim/pointwise.hpp>

#include "core/composed.hpp"
#include "core/constants.hpp"
#include "ops/conv/conv_gather.hpp"
#include "ops/conv/conv_nv_source.hpp"

namespace dlprim::detail {

/// x, or y if `of_y`. `to` becomes how it lies then.
class ConvNvPixels {
 public:
  ConvNvPixels(const Context& context, const ConvProblem& p, bool of_y, ConvGatherTensor& to,
               WorkspaceParts& workspace);
  /// Enqueues the copy, if there is one; what is to be read.
  Tensor prepare(const Stream& stream, const Tensor& x, const Tensor& workspace) const;

 private:
  std::optional<ConvNvSource> whole_;  ///< groups' channels begin on boundaries of themselves
  std::optional<Pointwise> copied_;
  TensorDesc from_, packed_;
  size_t at_ = 0;
};

/// w: rows of the target's channels, taps and the source's channels, unless it can be read as it is.
class ConvNvMmaWeights {
 public:
  /// `gather` has the source's channels rounded up, and w as it is given; becomes how w lies then.
  ConvNvMmaWeights(const Context& context, const ConvProblem& p, ConvGather& gather,
                   WorkspaceParts& workspace);
  /// Whether the source's channels are contiguous; else the target's are.
  bool unit_source() const { return unit_source_; }
  Tensor prepare(const Stream& stream, const Tensor& w, const Tensor& workspace) const;
  void forget_constants() const { constant_.forget(); }

 private:
  Tensor pack(const Stream& stream, const Tensor& w, const Tensor& memory, size_t at) const;

  bool constant_w_, unit_source_ = true;
  std::optional<Pointwise> copied_;
  TensorDesc from_, packed_;
  size_t bytes_ = 0, at_ = 0;
  Constants constant_;
};

}  // namespace dlprim::detail
