// Losses of classes, each as PyTorch's of that name: the negative log-likelihood, and cross-entropy from
// logits.
//
//   cross_entropy(stream, logits, labels, {}, {}, y);    // the mean, without weights; y: [1]
//   cross_entropy_backward(stream, dy, logits, labels, {}, {}, dlogits);
#pragma once

#include <optional>

#include <dlprim/export.hpp>
#include <dlprim/loss.hpp>
#include <dlprim/plan.hpp>
#include <dlprim/stream.hpp>
#include <dlprim/tensor.hpp>

namespace dlprim {

/// A target that is no class, outside [0, C), counts as one to be ignored does: it gives nothing to sums and
/// no gradient.
struct ClassLossParams {
  LossReduction reduction = LossReduction::mean;
  int64_t ignore_index = -100;
  /// Of cross-entropy: the part of each target that all classes share, in [0, 1].
  double label_smoothing = 0;
};

/// x: [N, C, ...], f32, f16, bf16 or f64, any strides; the class axis is 1.
struct ClassLossDesc {
  TensorDesc x;       ///< logarithms of probabilities, or logits of cross-entropy
  TensorDesc target;  ///< [N, ...], i32, i64 or u8: classes. Of cross-entropy also x's shape, floating:
                      ///< probabilities
  TensorDesc loss;    ///< [1], or [N, ...] if nothing is reduced; floating
  std::optional<TensorDesc> weight = {};  ///< [C], floating
  ClassLossParams params = {};
};

/// A row's term is -weight[target] x[target].
class DLPRIM_API NllLoss : public Plan {
 public:
  /// Throws ValidationError (shapes, dtypes, parameters), BuildError.
  explicit NllLoss(const Context& context, const ClassLossDesc& desc, const Options& options = {});
  /// loss shares no memory with the others.
  void run(const Stream& stream, const Tensor& x, const Tensor& target, const Tensor& weight,
           const Tensor& loss, const Tensor& workspace = {}) const;

  struct Impl;

 private:
  std::shared_ptr<const Impl> impl_;
};

/// As ClassLossDesc: dloss of the loss' shape, dx of x's.
struct NllLossBackwardDesc {
  TensorDesc dloss, target, dx;
  std::optional<TensorDesc> weight = {};
  ClassLossParams params = {};
};

class DLPRIM_API NllLossBackward : public Plan {
 public:
  /// Throws as NllLoss.
  explicit NllLossBackward(const Context& context, const NllLossBackwardDesc& desc,
                           const Options& options = {});
  /// dx is written whole and shares no memory with the others.
  void run(const Stream& stream, const Tensor& dloss, const Tensor& target, const Tensor& weight,
           const Tensor& dx, const Tensor& workspace = {}) const;

  struct Impl;

 private:
  std::shared_ptr<const Impl> impl_;
};

/// A row's term is -sum(weight q log_softmax(x)), q the target's probabilities (1 of its class), smoothed.
class DLPRIM_API CrossEntropy : public Plan {
 public:
  /// Throws as NllLoss.
  explicit CrossEntropy(const Context& context, const ClassLossDesc& desc, const Options& options = {});
  /// loss shares no memory with the others.
  void run(const Stream& stream, const Tensor& x, const Tensor& target, const Tensor& weight,
           const Tensor& loss, const Tensor& workspace = {}) const;

  struct Impl;

 private:
  std::shared_ptr<const Impl> impl_;
};

/// As ClassLossDesc: dloss of the loss' shape, dx of x's.
struct CrossEntropyBackwardDesc {
  TensorDesc dloss, x, target, dx;
  std::optional<TensorDesc> weight = {};
  ClassLossParams params = {};
};

/// From x again, so that nothing but x has to be kept: dx = dloss (sum(weight q) softmax(x) - weight q).
class DLPRIM_API CrossEntropyBackward : public Plan {
 public:
  /// Throws as NllLoss.
  explicit CrossEntropyBackward(const Context& context, const CrossEntropyBackwardDesc& desc,
                                const Options& options = {});
  /// dx may be x; otherwise it shares no memory with the others.
  void run(const Stream& stream, const Tensor& dloss, const Tensor& x, const Tensor& target,
           const Tensor& weight, const Tensor& dx, const Tensor& workspace = {}) const;

  struct Impl;

 private:
  std::shared_ptr<const Impl> impl_;
};

// The same as calls: the plan is found in the context's cache, or made. `weight` may be undefined.
DLPRIM_API void nll_loss(const Stream& stream, const Tensor& x, const Tensor& target, const Tensor& weight,
                         const ClassLossParams& params, const Tensor& loss, const Options& options = {},
                         const Tensor& workspace = {});
DLPRIM_API void nll_loss_backward(const Stream& stream, const Tensor& dloss, const Tensor& target,
                                  const Tensor& weight, const ClassLossParams& params, const Tensor& dx,
                                  const Options& options = {}, const Tensor& workspace = {});
DLPRIM_API void cross_entropy(const Stream& stream, const Tensor& x, const Tensor& target,
                              const Tensor& weight, const ClassLossParams& params, const Tensor& loss,
                              const Options& options = {}, const Tensor& workspace = {});
DLPRIM_API void cross_entropy_backward(const Stream& stream, const Tensor& dloss, const Tensor& x,
                                       const Tensor& target, const Tensor& weight,
                                       const ClassLossParams& params, const Tensor& dx,
                                       const Options& options = {}, const Tensor& workspace = {});

}  // namespace dlprim
