// Layer normalisation (Ba, Kiros, Hinton, 2016) and RMS normalisation (Zhang, Sennrich, 2019) over the last
// axes, forward and backward, as PyTorch's layer_norm and rms_norm.
//
//   layer_norm(stream, x, weight, bias, 1, 1e-5, y, mean, inv_std);
//   layer_norm_backward(stream, dy, x, weight, mean, inv_std, 1, dx, dweight, dbias);
#pragma once

#include <optional>

#include <dlprim/export.hpp>
#include <dlprim/plan.hpp>
#include <dlprim/stream.hpp>
#include <dlprim/tensor.hpp>

namespace dlprim {

/// x, y: one shape, any strides; weight, bias: its last `axes` sizes. Floating dtypes in any mix.
struct LayerNormDesc {
  TensorDesc x, y;
  std::optional<TensorDesc> weight, bias;
  int axes = 1;  ///< how many of the last axes are normalised together: 1 or more
  double epsilon = 1e-5;
  bool rms = false;         ///< RMS normalisation: the mean is not taken off
  bool statistics = false;  ///< mean (not of RMS) and inv_std are written, for the backward direction
};

/// y = (x - mean) / sqrt(variance + epsilon) * weight + bias, by the mean and the biased variance of each
/// row; RMS normalisation: y = x / sqrt(mean of x^2 + epsilon) * weight + bias. Rows without elements have
/// NaN as statistics.
class DLPRIM_API LayerNorm : public Plan {
 public:
  /// Throws ValidationError: shapes, dtypes, axes, epsilon.
  explicit LayerNorm(const Context& context, const LayerNormDesc& desc, const Options& options = {});
  /// weight, bias, mean and inv_std are defined exactly if the description says so. mean and inv_std
  /// (1 / sqrt(variance + epsilon)): x's shape with 1 for each normalised axis, row-major, f64 if x or y is,
  /// else f32. y may be x; otherwise no output shares memory with another tensor.
  void run(const Stream& stream, const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& y,
           const Tensor& mean, const Tensor& inv_std, const Tensor& workspace = {}) const;

  struct Impl;

 private:
  std::shared_ptr<const Impl> impl_;
};

/// dy, x, dx: one shape. weight, dweight, dbias: its last `axes` sizes. Any strides, floating dtypes in any
/// mix. At least one gradient is there.
struct LayerNormBackwardDesc {
  TensorDesc dy, x;
  std::optional<TensorDesc> weight, dx, dweight, dbias;
  int axes = 1;
  bool rms = false;
};

/// Of LayerNorm. Gradients of weight and bias are added up in an order that depends on shapes and device
/// only.
class DLPRIM_API LayerNormBackward : public Plan {
 public:
  /// Throws ValidationError: shapes, dtypes, axes, no gradient.
  explicit LayerNormBackward(const Context& context, const LayerNormBackwardDesc& desc,
                             const Options& options = {});
  /// mean (undefined for RMS) and inv_std: as LayerNorm wrote them, f64 if x or dy is, else f32. dx may be
  /// dy; otherwise no output shares memory with another tensor.
  void run(const Stream& stream, const Tensor& dy, const Tensor& x, const Tensor& weight, const Tensor& mean,
           const Tensor& inv_std, const Tensor& dx, const Tensor& dweight, const Tensor& dbias,
           const Tensor& workspace = {}) const;

  struct Impl;

 private:
  std::shared_ptr<const Impl> impl_;
};

/// weight, bias, and mean with inv_std may be undefined.
DLPRIM_API void layer_norm(const Stream& stream, const Tensor& x, const Tensor& weight, const Tensor& bias,
                           int axes, double epsilon, const Tensor& y, const Tensor& mean = {},
                           const Tensor& inv_std = {}, const Options& options = {},
                           const Tensor& workspace = {});
/// weight and the gradients that are not wanted may be undefined.
DLPRIM_API void layer_norm_backward(const Stream& stream, const Tensor& dy, const Tensor& x,
                                    const Tensor& weight, const Tensor& mean, const Tensor& inv_std, int axes,
                                    const Tensor& dx, const Tensor& dweight, const Tensor& dbias,
                                    const Options& options = {}, const Tensor& workspace = {});
/// weight and inv_std may be undefined. PyTorch's default epsilon is the machine epsilon of x's dtype.
DLPRIM_API void rms_norm(const Stream& stream, const Tensor& x, const Tensor& weight, int axes,
                         double epsilon, const Tensor& y, const Tensor& inv_std = {},
                         const Options& options = {}, const Tensor& workspace = {});
/// weight and one of the gradients may be undefined.
DLPRIM_API void rms_norm_backward(const Stream& stream, const Tensor& dy, const Tensor& x,
                                  const Tensor& weight, const Tensor& inv_std, int axes, const Tensor& dx,
                                  const Tensor& dweight, const Options& options = {},
                                  const Tensor& workspace = {});

}  // namespace dlprim
