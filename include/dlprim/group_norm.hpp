// Group normalisation (Wu, He, 2018), forward and backward, as PyTorch's group_norm: mean and variance are
// those of a group of neighbouring channels of one image. Instance normalisation: dlprim/instance_norm.hpp.
//
//   group_norm(stream, x, weight, bias, 32, 1e-5, y, mean, inv_std);
//   group_norm_backward(stream, dy, x, weight, mean, inv_std, 32, dx, dweight, dbias);
#pragma once

#include <optional>

#include <dlprim/export.hpp>
#include <dlprim/plan.hpp>
#include <dlprim/stream.hpp>
#include <dlprim/tensor.hpp>

namespace dlprim {

/// x, y: [N, C, ...], any strides; weight, bias: [C]. Floating dtypes in any mix. One kernel reads a
/// row-major x once; other strides take a reduction and a pointwise step.
struct GroupNormDesc {
  TensorDesc x, y;
  std::optional<TensorDesc> weight, bias;
  int64_t groups = 1;  ///< divides C
  double epsilon = 1e-5;
  bool statistics = false;  ///< mean and inv_std are written, for the backward direction
  bool variance = false;    ///< so is each group's unbiased variance
};

/// y = (x - mean) / sqrt(variance + epsilon) * weight + bias, the variance biased.
class DLPRIM_API GroupNorm : public Plan {
 public:
  /// Throws ValidationError: shapes, dtypes, groups, epsilon.
  explicit GroupNorm(const Context& context, const GroupNormDesc& desc, const Options& options = {});
  /// weight, bias, mean, inv_std (1 / sqrt(variance + epsilon)) and variance are defined exactly if the
  /// description says so; the last three are [N, groups], row-major, f64 if x or y is, else f32. y may be x;
  /// otherwise no output shares memory with another tensor.
  void run(const Stream& stream, const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& y,
           const Tensor& mean, const Tensor& inv_std, const Tensor& variance,
           const Tensor& workspace = {}) const;

  struct Impl;

 private:
  std::shared_ptr<const Impl> impl_;
};

/// dy, x, dx: one shape; weight, dweight, dbias: [C]. Any strides, floating dtypes in any mix. At least one
/// gradient is there.
struct GroupNormBackwardDesc {
  TensorDesc dy, x;
  std::optional<TensorDesc> weight, dx, dweight, dbias;
  int64_t groups = 1;
};

/// Of GroupNorm.
class DLPRIM_API GroupNormBackward : public Plan {
 public:
  /// Throws ValidationError: shapes, dtypes, groups, no gradient.
  explicit GroupNormBackward(const Context& context, const GroupNormBackwardDesc& desc,
                             const Options& options = {});
  /// mean and inv_std as GroupNorm wrote them, f64 if x or dy is, else f32. dx may be dy; otherwise no output
  /// shares memory with another tensor.
  void run(const Stream& stream, const Tensor& dy, const Tensor& x, const Tensor& weight, const Tensor& mean,
           const Tensor& inv_std, const Tensor& dx, const Tensor& dweight, const Tensor& dbias,
           const Tensor& workspace = {}) const;

  struct Impl;

 private:
  GroupNormBackwardDesc desc_;
  std::shared_ptr<const Impl> impl_;
};

/// weight, bias, and mean with inv_std may be undefined.
DLPRIM_API void group_norm(const Stream& stream, const Tensor& x, const Tensor& weight, const Tensor& bias,
                           int64_t groups, double epsilon, const Tensor& y, const Tensor& mean = {},
                           const Tensor& inv_std = {}, const Options& options = {},
                           const Tensor& workspace = {});
/// weight and the gradients that are not wanted may be undefined.
DLPRIM_API void group_norm_backward(const Stream& stream, const Tensor& dy, const Tensor& x,
                                    const Tensor& weight, const Tensor& mean, const Tensor& inv_std,
                                    int64_t groups, const Tensor& dx, const Tensor& dweight,
                                    const Tensor& dbias, const Options& options = {},
                                    const Tensor& workspace = {});

}  // namespace dlprim
