// Softmax, log-softmax and the negative log-likelihood loss.
#pragma once

#include <dlprim/export.hpp>
#include <dlprim/plan.hpp>
#include <dlprim/stream.hpp>
#include <dlprim/tensor.hpp>

namespace dlprim {

/// Any strides; f32, f16, bf16, f64 in any mix; one shape.
struct SoftmaxDesc {
  TensorDesc x, y;   ///< backward: of dy and y
  TensorDesc dx;     ///< backward only
  int axis = -1;     ///< a negative one counts from the end
  bool log = false;  ///< log-softmax
};

/// y = exp(x) / sum(exp(x)) along the axis, or its logarithm.
class DLPRIM_API Softmax : public Plan {
 public:
  /// Throws ValidationError (dtypes, shapes that differ, axis), BuildError.
  explicit Softmax(const Context& context, const SoftmaxDesc& desc, const Options& options = {});
  /// y may be x; otherwise they share no memory. A row with nothing above -infinity, or with +infinity, gives
  /// NaN.
  void run(const Stream& stream, const Tensor& x, const Tensor& y, const Tensor& workspace = {}) const;

  struct Impl;

 private:
  SoftmaxDesc desc_;
  std::shared_ptr<const Impl> impl_;
};

/// From the output y: dx = y * (dy - sum(dy * y)); of log-softmax: dx = dy - exp(y) * sum(dy).
class DLPRIM_API SoftmaxBackward : public Plan {
 public:
  /// `desc` is of dy (as x), y and dx. Throws as Softmax.
  explicit SoftmaxBackward(const Context& context, const SoftmaxDesc& desc, const Options& options = {});
  /// dx may be dy; otherwise it shares no memory with the others.
  void run(const Stream& stream, const Tensor& dy, const Tensor& y, const Tensor& dx,
           const Tensor& workspace = {}) const;

  struct Impl;

 private:
  SoftmaxDesc desc_;
  std::shared_ptr<const Impl> impl_;
};

// The same as calls: the plan is found in the context's cache, or made. They throw as the plans do.

/// Along `axis`; the maximum is subtracted first, so large inputs do not overflow.
DLPRIM_API void softmax(const Stream& stream, const Tensor& x, int axis, const Tensor& y);
DLPRIM_API void log_softmax(const Stream& stream, const Tensor& x, int axis, const Tensor& y);
/// From the output y: dx = y * (dy - sum(dy * y)), and dx = dy - exp(y) * sum(dy).
DLPRIM_API void softmax_backward(const Stream& stream, const Tensor& dy, const Tensor& y, int axis,
                                 const Tensor& dx);
DLPRIM_API void log_softmax_backward(const Stream& stream, const Tensor& dy, const Tensor& y, int axis,
                                     const Tensor& dx);

struct NllLossDesc {
  TensorDesc log_p;   ///< [B, C], f32, f16 or bf16, any strides; backward: of d_log_p
  TensorDesc target;  ///< [B], i32, i64 or u8
  TensorDesc loss;    ///< [1], f32, f16 or bf16; backward: of dloss
};

/// See nll_loss.
class DLPRIM_API NllLoss : public Plan {
 public:
  /// Throws ValidationError (shapes, dtypes, more than 2^24 classes), BuildError.
  explicit NllLoss(const Context& context, const NllLossDesc& desc, const Options& options = {});
  /// loss shares no memory with the others.
  void run(const Stream& stream, const Tensor& log_p, const Tensor& target, const Tensor& loss,
           const Tensor& workspace = {}) const;

  struct Impl;

 private:
  NllLossDesc desc_;
  std::shared_ptr<const Impl> impl_;
};

/// d_log_p[b, target[b]] = -dloss / number of targets that are classes; 0 elsewhere.
class DLPRIM_API NllLossBackward : public Plan {
 public:
  /// `desc` is of d_log_p, target and dloss. Throws as NllLoss.
  explicit NllLossBackward(const Context& context, const NllLossDesc& desc, const Options& options = {});
  /// d_log_p is written whole and shares no memory with the others.
  void run(const Stream& stream, const Tensor& dloss, const Tensor& target, const Tensor& d_log_p,
           const Tensor& workspace = {}) const;

  struct Impl;

 private:
  NllLossDesc desc_;
  std::shared_ptr<const Impl> impl_;
};

/// loss: [1] = -mean over b of log_p[b, target[b]]. log_p: [B, C] floating; target: [B], i32, i64 or u8. A
/// target outside [0, C) contributes nothing to the sum and the count; with none left the loss is NaN.
DLPRIM_API void nll_loss(const Stream& stream, const Tensor& log_p, const Tensor& target, const Tensor& loss);
/// d_log_p from dloss: [1].
DLPRIM_API void nll_loss_backward(const Stream& stream, const Tensor& dloss, const Tensor& target,
                                  const Tensor& d_log_p);

}  // namespace dlprim
