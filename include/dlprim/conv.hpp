// Two-dimensional convolution (cross-correlation, as deep learning has it), forward and backward.
//
//   y[n,k,p,q] = bias[k] + sum over c,r,s of x[n, c, p*stride - pad + r*dilation, ...] * w[k,c,r,s]
//
// x: [N, C, H, W], w: [K, C/groups, R, S], row-major, y: [N, K, P, Q], bias: [K]. x, y and their gradients
// may have any strides (NHWC is a permuted view). f32. Every engine is deterministic.
#pragma once

#include <array>

#include <dlprim/activation.hpp>
#include <dlprim/export.hpp>
#include <dlprim/plan.hpp>
#include <dlprim/stream.hpp>
#include <dlprim/tensor.hpp>

namespace dlprim {

namespace detail {
struct ConvImpl;
}

struct ConvParams {
  std::array<int64_t, 2> stride{1, 1};     ///< along H, W
  std::array<int64_t, 2> pad_begin{0, 0};  ///< rows above, columns to the left; negative ones crop
  std::array<int64_t, 2> pad_end{0, 0};    ///< rows below, columns to the right
  std::array<int64_t, 2> dilation{1, 1};
  int64_t groups = 1;
  Activation activation = Activation::identity;  ///< forward only; the backward directions refuse others
};

/// The shape of y. Throws ValidationError when x, w and params do not fit together.
DLPRIM_API Shape conv2d_output_shape(const Shape& x, const Shape& w, const ConvParams& params);

struct ConvDesc {
  TensorDesc x, w, y;  ///< in the backward directions those of dx, w, dy and x, dw, dy
  ConvParams params;
  bool bias = false;  ///< forward only
};

/// y from x, w and bias.
class DLPRIM_API Conv2D : public Plan {
 public:
  /// Throws ValidationError (shapes that do not fit, strides, dtypes), BuildError.
  explicit Conv2D(const Context& context, const ConvDesc& desc, const Options& options = {});
  /// y is written whole and shares no memory with the others.
  void run(const Stream& stream, const Tensor& x, const Tensor& w, const Tensor& bias, const Tensor& y,
           const Tensor& workspace = {}) const;

 private:
  ConvDesc desc_;
  std::shared_ptr<const detail::ConvImpl> impl_;
};

/// dx from dy and w.
class DLPRIM_API Conv2DBackwardData : public Plan {
 public:
  /// `desc` is of dx, w and dy, without bias and activation. Throws as Conv2D.
  explicit Conv2DBackwardData(const Context& context, const ConvDesc& desc, const Options& options = {});
  /// dx is written whole and shares no memory with the others.
  void run(const Stream& stream, const Tensor& dy, const Tensor& w, const Tensor& dx,
           const Tensor& workspace = {}) const;

 private:
  ConvDesc desc_;
  std::shared_ptr<const detail::ConvImpl> impl_;
};

/// dw from x and dy.
class DLPRIM_API Conv2DBackwardFilter : public Plan {
 public:
  /// `desc` is of x, dw and dy, without bias and activation. Throws as Conv2D.
  explicit Conv2DBackwardFilter(const Context& context, const ConvDesc& desc, const Options& options = {});
  /// dw is written whole and shares no memory with the others.
  void run(const Stream& stream, const Tensor& x, const Tensor& dy, const Tensor& dw,
           const Tensor& workspace = {}) const;

 private:
  ConvDesc desc_;
  std::shared_ptr<const detail::ConvImpl> impl_;
};

// The same as calls: the plan is found in the context's cache, or made. `bias` may be undefined.

DLPRIM_API void conv2d(const Stream& stream, const Tensor& x, const Tensor& w, const Tensor& bias,
                       const ConvParams& params, const Tensor& y, const Options& options = {});
DLPRIM_API void conv2d_backward_data(const Stream& stream, const Tensor& dy, const Tensor& w,
                                     const ConvParams& params, const Tensor& dx, const Options& options = {});
DLPRIM_API void conv2d_backward_filter(const Stream& stream, const Tensor& x, const Tensor& dy,
                                       const ConvParams& params, const Tensor& dw,
                                       const Options& options = {});
/// dbias[k] = sum of dy[n,k,p,q] over n, p, q.
DLPRIM_API void conv2d_backward_bias(const Stream& stream, const Tensor& dy, const Tensor& dbias);

}  // namespace dlprim
