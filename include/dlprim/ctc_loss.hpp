// The loss of connectionist temporal classification (Graves et al., 2006): labels whose places in time are
// not known.
#pragma once

#include <dlprim/export.hpp>
#include <dlprim/loss.hpp>
#include <dlprim/plan.hpp>
#include <dlprim/stream.hpp>
#include <dlprim/tensor.hpp>

namespace dlprim {

struct CtcLossParams {
  LossReduction reduction =
      LossReduction::mean;     ///< mean: of each loss divided by its number of labels, 1 at least
  int64_t blank = 0;           ///< the class that stands for none
  bool zero_infinity = false;  ///< sequences too short for their labels count 0, without a gradient
};

/// Lengths beyond their tensors count as the largest that fits. A label that is no class makes its loss
/// infinite.
struct CtcLossDesc {
  TensorDesc x;              ///< [T, N, C], logarithms of probabilities, floating, any strides
  TensorDesc labels;         ///< [N, S], i32 or i64, padded at the end with anything
  TensorDesc x_lengths;      ///< [N], i32 or i64: times of each sequence
  TensorDesc label_lengths;  ///< [N], i32 or i64
  TensorDesc loss;           ///< [1], or [N] if nothing is reduced; floating
  TensorDesc alpha;          ///< [N, T, 2 S + 1], row-major, f64 if x or loss is, else f32: for backward
  CtcLossParams params = {};
};

struct CtcLossInputs {
  Tensor x, labels, x_lengths, label_lengths;
};

class DLPRIM_API CtcLoss : public Plan {
 public:
  /// Throws ValidationError (shapes, dtypes, blank, reduction), BuildError.
  explicit CtcLoss(const Context& context, const CtcLossDesc& desc, const Options& options = {});
  /// loss and alpha share no memory with the others.
  void run(const Stream& stream, const CtcLossInputs& inputs, const Tensor& loss, const Tensor& alpha,
           const Tensor& workspace = {}) const;

  struct Impl;

 private:
  std::shared_ptr<const Impl> impl_;
};

/// As CtcLossDesc: dloss of the loss' shape, dx of x's; alpha is f64 if x or dloss is, else f32.
struct CtcLossBackwardDesc {
  TensorDesc dloss, x, labels, x_lengths, label_lengths;
  TensorDesc alpha;  ///< forward's
  TensorDesc dx;
  CtcLossParams params = {};
};

/// The gradient as PyTorch has it: dloss (exp(x) - the probability of the class at that time). It is the
/// loss' own behind the gradient of the log-softmax that x comes from; 0 past a sequence's end.
class DLPRIM_API CtcLossBackward : public Plan {
 public:
  /// Throws as CtcLoss.
  explicit CtcLossBackward(const Context& context, const CtcLossBackwardDesc& desc,
                           const Options& options = {});
  /// dx shares no memory with the others.
  void run(const Stream& stream, const Tensor& dloss, const CtcLossInputs& inputs, const Tensor& alpha,
           const Tensor& dx, const Tensor& workspace = {}) const;

  struct Impl;

 private:
  std::shared_ptr<const Impl> impl_;
};

/// Of the alpha that a loss over these inputs needs.
DLPRIM_API TensorDesc ctc_loss_alpha(const TensorDesc& x, const TensorDesc& labels, DType loss = DType::f32);

/// The same as calls: the plan is found in the context's cache, or made.
DLPRIM_API void ctc_loss(const Stream& stream, const CtcLossInputs& inputs, const CtcLossParams& params,
                         const Tensor& loss, const Tensor& alpha, const Options& options = {},
                         const Tensor& workspace = {});
DLPRIM_API void ctc_loss_backward(const Stream& stream, const Tensor& dloss, const CtcLossInputs& inputs,
                                  const Tensor& alpha, const CtcLossParams& params, const Tensor& dx,
                                  const Options& options = {}, const Tensor& workspace = {});

}  // namespace dlprim
