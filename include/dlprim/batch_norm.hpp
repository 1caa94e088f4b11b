// Batch normalisation over all axes but axis 1 (Ioffe and Szegedy, 2015), with a residual and an activation
// fused: y = f((x - mean) / sqrt(variance + epsilon) * weight + bias + residual).
// x, y, residual and their gradients: [N, C, ...], floating dtypes in any mix, any strides; weight, bias,
// statistics and the gradients of weight and bias: [C], row-major, f64 if x or y (backward: x or dy) is, else
// f32.
#pragma once

#include <optional>

#include <dlprim/activation.hpp>
#include <dlprim/export.hpp>
#include <dlprim/plan.hpp>
#include <dlprim/stream.hpp>
#include <dlprim/tensor.hpp>

namespace dlprim {

struct BatchNormParams {
  double epsilon = 1e-5;
  double momentum = 0.1;  ///< running = (1 - momentum) * running + momentum * batch
  Activation activation = Activation::identity;
  bool unbiased = true;  ///< the batch's variance in the running one
};

struct BatchNormDesc {
  TensorDesc x, y;
  BatchNormParams params;              ///< inference uses no momentum
  bool running = true;                 ///< training: running statistics are updated
  bool weight = true, bias = true;     ///< without them: 1 and 0
  std::optional<TensorDesc> residual;  ///< of x's shape
  bool aligned = true;                 ///< all [C] start on 16-byte boundaries, as TensorDesc::aligned
};

/// By the batch's statistics; see batch_norm_training.
class DLPRIM_API BatchNormTraining : public Plan {
 public:
  /// Throws ValidationError: shapes, dtypes, fewer than two values a channel (they have no variance).
  explicit BatchNormTraining(const Context& context, const BatchNormDesc& desc, const Options& options = {});
  /// y may be x or residual; otherwise no output shares memory with another tensor. weight, bias, residual,
  /// running_mean and running_var are defined exactly if the description says so. Updated running statistics
  /// go to new_mean and new_var, or, where these are undefined, replace the old ones.
  void run(const Stream& stream, const Tensor& x, const Tensor& weight, const Tensor& bias,
           const Tensor& residual, const Tensor& running_mean, const Tensor& running_var, const Tensor& y,
           const Tensor& mean, const Tensor& inv_std, const Tensor& workspace = {},
           const Tensor& new_mean = {}, const Tensor& new_var = {}) const;

  struct Impl;

 private:
  BatchNormDesc desc_;
  std::shared_ptr<const Impl> impl_;
};

/// By the running statistics.
class DLPRIM_API BatchNormInference : public Plan {
 public:
  /// Throws ValidationError: shapes, dtypes, epsilon.
  explicit BatchNormInference(const Context& context, const BatchNormDesc& desc, const Options& options = {});
  /// y may be x or residual; otherwise it shares no memory with another tensor.
  void run(const Stream& stream, const Tensor& x, const Tensor& weight, const Tensor& bias,
           const Tensor& residual, const Tensor& running_mean, const Tensor& running_var, const Tensor& y,
           const Tensor& workspace = {}) const;

  struct Impl;

 private:
  BatchNormDesc desc_;
  std::shared_ptr<const Impl> impl_;
};

struct BatchNormBackwardDesc {
  TensorDesc dy, x;
  std::optional<TensorDesc> y;  ///< the result, which tells an activation's slope; see `bias`
  std::optional<TensorDesc> dx, dresidual;
  bool weight = true, dweight = true, dbias = true;
  Activation activation = Activation::identity;
  /// Of an activation without y: the slope is told from x again, which saves reading y twice, if there was no
  /// residual; the forward direction had this bias.
  bool bias = false;
  bool aligned = true;  ///< all [C] start on 16-byte boundaries, as TensorDesc::aligned
};

/// Of BatchNormTraining.
class DLPRIM_API BatchNormBackward : public Plan {
 public:
  /// Throws ValidationError: shapes, dtypes, no gradient, y without an activation, a bias that is not used, a
  /// residual's gradient without y.
  explicit BatchNormBackward(const Context& context, const BatchNormBackwardDesc& desc,
                             const Options& options = {});
  /// `mean` and `inv_std` as the forward direction wrote them. One of dx and dresidual may be dy; otherwise
  /// no output shares memory with another tensor.
  void run(const Stream& stream, const Tensor& dy, const Tensor& x, const Tensor& weight, const Tensor& bias,
           const Tensor& mean, const Tensor& inv_std, const Tensor& y, const Tensor& dx,
           const Tensor& dweight, const Tensor& dbias, const Tensor& dresidual,
           const Tensor& workspace = {}) const;

  struct Impl;

 private:
  BatchNormBackwardDesc desc_;
  std::shared_ptr<const Impl> impl_;
};

/// Normalises by the batch's statistics, which go to mean and inv_std (1/sqrt(var + epsilon)) for the
/// backward direction, and updates running_mean and running_var unless they are undefined, into new_mean and
/// new_var if those are there. weight, bias and residual may be undefined.
DLPRIM_API void batch_norm_training(const Stream& stream, const Tensor& x, const Tensor& weight,
                                    const Tensor& bias, const Tensor& residual, const BatchNormParams& params,
                                    const Tensor& running_mean, const Tensor& running_var, const Tensor& y,
                                    const Tensor& mean, const Tensor& inv_std, const Options& options = {},
                                    const Tensor& workspace = {}, const Tensor& new_mean = {},
                                    const Tensor& new_var = {});
/// Normalises by the running statistics. weight, bias and residual may be undefined.
DLPRIM_API void batch_norm_inference(const Stream& stream, const Tensor& x, const Tensor& weight,
                                     const Tensor& bias, const Tensor& residual, const Tensor& running_mean,
                                     const Tensor& running_var, const BatchNormParams& params,
                                     const Tensor& y, const Options& options = {},
                                     const Tensor& workspace = {});
/// Of batch_norm_training; weight and bias as there. An activation's slope is told from the result y, or,
/// where y is undefined, from x again, which is faster but not possible with a residual. Gradients that are
/// not wanted may be undefined. dx may be dy.
DLPRIM_API void batch_norm_backward(const Stream& stream, const Tensor& dy, const Tensor& x,
                                    const Tensor& weight, const Tensor& bias, const Tensor& mean,
                                    const Tensor& inv_std, const Tensor& y, Activation activation,
                                    const Tensor& dx, const Tensor& dweight, const Tensor& dbias,
                                    const Tensor& dresidual = {}, const Options& options = {},
                                    const Tensor& workspace = {});

}  // namespace dlprim
