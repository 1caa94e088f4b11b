// Batch normalisation over all axes but axis 1 (Ioffe and Szegedy, 2015).
// x, y and their gradients: [N, C, ...], f32, f16 or bf16, any strides; gamma, beta, statistics and the
// gradients of gamma and beta: [C], f32, row-major.
#pragma once

#include <dlprim/export.hpp>
#include <dlprim/plan.hpp>
#include <dlprim/stream.hpp>
#include <dlprim/tensor.hpp>

namespace dlprim {

struct BatchNormParams {
  double epsilon = 1e-5;
  double momentum = 0.1;  ///< running = (1 - momentum) * running + momentum * batch (unbiased variance)
};

struct BatchNormDesc {
  TensorDesc x, y;         ///< backward: of x and dy
  TensorDesc dx;           ///< backward only
  BatchNormParams params;  ///< inference uses epsilon alone, the backward direction nothing
  bool running = true;     ///< training: running statistics are updated
};

/// By the batch's statistics; see batch_norm_training.
class DLPRIM_API BatchNormTraining : public Plan {
 public:
  /// Throws ValidationError: shapes, dtypes, fewer than two values a channel (they have no variance).
  explicit BatchNormTraining(const Context& context, const BatchNormDesc& desc, const Options& options = {});
  /// y may be x; otherwise no output shares memory with another tensor. running_mean and running_var are
  /// defined exactly if the description says so.
  void run(const Stream& stream, const Tensor& x, const Tensor& gamma, const Tensor& beta,
           const Tensor& running_mean, const Tensor& running_var, const Tensor& y, const Tensor& mean,
           const Tensor& inv_std, const Tensor& workspace = {}) const;

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
  /// y = (x - running_mean) / sqrt(running_var + epsilon) * gamma + beta. y may be x; otherwise it shares no
  /// memory with another tensor.
  void run(const Stream& stream, const Tensor& x, const Tensor& gamma, const Tensor& beta,
           const Tensor& running_mean, const Tensor& running_var, const Tensor& y) const;

  struct Impl;

 private:
  BatchNormDesc desc_;
  std::shared_ptr<const Impl> impl_;
};

/// Of BatchNormTraining.
class DLPRIM_API BatchNormBackward : public Plan {
 public:
  /// `desc` is of x, dy (as y) and dx. Throws ValidationError: shapes, dtypes.
  explicit BatchNormBackward(const Context& context, const BatchNormDesc& desc, const Options& options = {});
  /// `mean` and `inv_std` as the forward direction wrote them. dx may be dy; otherwise no output shares
  /// memory with another tensor.
  void run(const Stream& stream, const Tensor& dy, const Tensor& x, const Tensor& gamma, const Tensor& mean,
           const Tensor& inv_std, const Tensor& dx, const Tensor& dgamma, const Tensor& dbeta,
           const Tensor& workspace = {}) const;

  struct Impl;

 private:
  BatchNormDesc desc_;
  std::shared_ptr<const Impl> impl_;
};

/// Normalises by the batch's statistics, which go to mean and inv_std (1/sqrt(var + epsilon)) for the
/// backward direction, and updates running_mean and running_var unless they are undefined.
DLPRIM_API void batch_norm_training(const Stream& stream, const Tensor& x, const Tensor& gamma,
                                    const Tensor& beta, const BatchNormParams& params,
                                    const Tensor& running_mean, const Tensor& running_var, const Tensor& y,
                                    const Tensor& mean, const Tensor& inv_std);
/// Normalises by the running statistics.
DLPRIM_API void batch_norm_inference(const Stream& stream, const Tensor& x, const Tensor& gamma,
                                     const Tensor& beta, const Tensor& running_mean,
                                     const Tensor& running_var, double epsilon, const Tensor& y);
/// Of batch_norm_training. dx may be dy.
DLPRIM_API void batch_norm_backward(const Stream& stream, const Tensor& dy, const Tensor& x,
                                    const Tensor& gamma, const Tensor& mean, const Tensor& inv_std,
                                    const Tensor& dx, const Tensor& dgamma, const Tensor& dbeta);

}  // namespace dlprim
