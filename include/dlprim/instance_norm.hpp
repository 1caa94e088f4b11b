// Instance normalisation (Ulyanov, Vedaldi, Lempitsky, 2016), as PyTorch's: group normalisation with a group
// for each channel, with running statistics if they are wanted. Inference by running statistics is
// batch_norm_inference().
#pragma once

#include <optional>

#include <dlprim/export.hpp>
#include <dlprim/plan.hpp>
#include <dlprim/stream.hpp>
#include <dlprim/tensor.hpp>

namespace dlprim {

struct InstanceNormParams {
  double epsilon = 1e-5;
  double momentum = 0.1;  ///< running = (1 - momentum) * running + momentum * mean over images
};

/// x, y: [N, C, ...], any strides; weight, bias: [C]. Floating dtypes in any mix.
struct InstanceNormDesc {
  TensorDesc x, y;
  std::optional<TensorDesc> weight, bias;
  InstanceNormParams params;
  bool running = false;     ///< running_mean and running_var are updated
  bool statistics = false;  ///< mean and inv_std are written, for the backward direction
};

class DLPRIM_API InstanceNorm : public Plan {
 public:
  /// Throws ValidationError: shapes, dtypes, epsilon, momentum, channels with fewer than two values.
  explicit InstanceNorm(const Context& context, const InstanceNormDesc& desc, const Options& options = {});
  /// weight, bias, the running and the other statistics are defined exactly if the description says so.
  /// running_mean and running_var, which takes unbiased variances: [C]; mean and inv_std (1 / sqrt(variance +
  /// epsilon)): [N, C]; row-major, f64 if x or y is, else f32. y may be x; otherwise what is written shares
  /// no memory with another tensor.
  void run(const Stream& stream, const Tensor& x, const Tensor& weight, const Tensor& bias,
           const Tensor& running_mean, const Tensor& running_var, const Tensor& y, const Tensor& mean,
           const Tensor& inv_std, const Tensor& workspace = {}) const;

  struct Impl;

 private:
  InstanceNormDesc desc_;
  std::shared_ptr<const Impl> impl_;
};

/// weight and bias may be undefined; so may the running statistics, and mean with inv_std.
DLPRIM_API void instance_norm(const Stream& stream, const Tensor& x, const Tensor& weight, const Tensor& bias,
                              const InstanceNormParams& params, const Tensor& running_mean,
                              const Tensor& running_var, const Tensor& y, const Tensor& mean = {},
                              const Tensor& inv_std = {}, const Options& options = {},
                              const Tensor& workspace = {});
/// As group_norm_backward() with C groups; the plan is GroupNormBackward with as many.
DLPRIM_API void instance_norm_backward(const Stream& stream, const Tensor& dy, const Tensor& x,
                                       const Tensor& weight, const Tensor& mean, const Tensor& inv_std,
                                       const Tensor& dx, const Tensor& dweight, const Tensor& dbias,
                                       const Options& options = {}, const Tensor& workspace = {});

}  // namespace dlprim
