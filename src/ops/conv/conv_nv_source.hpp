// A tensor of pixels as bulk tensor copies in im2col mode read it: channels contiguous, other strides
// multiples of 16 bytes. As it is, or copied so into the workspace.
#pragma once

#include <optional>

#include <dlprim/pointwise.hpp>

#include "core/composed.hpp"
#include "ops/conv/conv_problem.hpp"
#include "ops/gemm/gemm_nv_operand.hpp"

namespace dlprim::detail {

class ConvNvSource {
 public:
  /// Of x, or of y if `backward`.
  ConvNvSource(const Context& context, const ConvProblem& p, bool backward, WorkspaceParts& workspace);

  /// Of the workspace: what is copied.
  static uint64_t bytes(const ConvProblem& p, bool backward);

  const ConvStrides& strides() const { return strides_; }
  /// Enqueues the copy, if there is one; what is to be read.
  Tensor prepare(const Stream& stream, const Tensor& x, const Tensor& workspace) const;

  /// Why maps in im2col mode cannot describe what taps see; empty if they can.
  static std::string refuse(const ConvProblem& p);

 private:
  ConvStrides strides_{};
  std::optional<NvOperand> transposed_;  ///< of planes, whose channels lie apart
  std::optional<Pointwise> copied_;      ///< anything else
  TensorDesc packed_;
  size_t at_ = 0;
};

}  // namespace dlprim::detail
