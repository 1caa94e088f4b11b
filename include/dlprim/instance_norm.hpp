// Instance normalisation (Ulyanov, Vedaldi, Lempitsky, 2016), as PyTorch's: group normalisation with a group
// for each channel, with running statistics if they are wanted. Inference by running statistics is
// batch_norm_inference().
#pragma once

#include <dlprim/export.hpp>
#include <dlprim/stream.hpp>
#include <dlprim/tensor.hpp>

namespace dlprim {

struct InstanceNormParams {
  double epsilon = 1e-5;
  double momentum = 0.1;  ///< running = (1 - momentum) * running + momentum * mean over images
};

/// x, y: [N, C, ...], any strides, floating; weight, bias: [C] or undefined. mean and inv_std: [N, C],
/// row-major, f64 if x or y is, else f32, both or neither defined. running_mean and running_var: [C], of the
/// same dtype, both or neither defined; the latter takes unbiased variances. y may be x; otherwise what is
/// written shares no memory with another tensor. Throws ValidationError, also for channels with fewer than
/// two values.
DLPRIM_API void instance_norm(const Stream& stream, const Tensor& x, const Tensor& weight, const Tensor& bias,
                              const InstanceNormParams& params, const Tensor& running_mean,
                              const Tensor& running_var, const Tensor& y, const Tensor& mean = {},
                              const Tensor& inv_std = {});
/// As group_norm_backward().
DLPRIM_API void instance_norm_backward(const Stream& stream, const Tensor& dy, const Tensor& x,
                                       const Tensor& weight, const Tensor& mean, const Tensor& inv_std,
                                       const Tensor& dx, const Tensor& dweight, const Tensor& dbias);

}  // namespace dlprim
