// Batch normalisation over all axes but axis 1 (Ioffe and Szegedy, 2015).
// x, y: [N, C, ...]; gamma, beta, statistics: [C], f32.
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

/// Normalises by the batch's statistics, which go to mean and inv_std (1/sqrt(var + epsilon)) for the
/// backward direction, and updates running_mean and running_var unless they are undefined.
DLPRIM_API void batch_norm_training(const Stream& stream, const Tensor& x, const Tensor& gamma, const Tensor& beta,
                                    const BatchNormParams& params, const Tensor& running_mean,
                                    const Tensor& running_var, const Tensor& y, const Tensor& mean,
                                    const Tensor& inv_std);
/// Normalises by the running statistics.
DLPRIM_API void batch_norm_inference(const Stream& stream, const Tensor& x, const Tensor& gamma, const Tensor& beta,
                                     const Tensor& running_mean, const Tensor& running_var, double epsilon,
                                     const Tensor& y);
/// Of batch_norm_training. dx may be dy.
DLPRIM_API void batch_norm_backward(const Stream& stream, const Tensor& dy, const Tensor& x, const Tensor& gamma,
                                    const Tensor& mean, const Tensor& inv_std, const Tensor& dx, const Tensor& dgamma,
                                    const Tensor& dbeta);

}  // namespace dlprim
