// Convolution (cross-correlation, as deep learning has it) in one, two or three dimensions, forward and
// backward.
//
//   y[n,k,p,q] = activation(scale[k] * sum over c,r,s of x[n, c, p*stride - pad + r*dilation, ...] *
//   w[k,c,r,s]
//                           + bias[k] + residual[n,k,p,q])
//
// x: [N, C, D, H, W], w: [K, C/groups, T, R, S], y: [N, K, O, P, Q], or without D, T, O and H, R, P.
// `transposed`: its backward data direction with x and y exchanged, w: [C, K/groups, T, R, S].
#pragma once

#include <dlprim/activation.hpp>
#include <dlprim/epilogue.hpp>
#include <dlprim/export.hpp>
#include <dlprim/plan.hpp>
#include <dlprim/stream.hpp>
#include <dlprim/tensor.hpp>

namespace dlprim {

namespace detail {
class ConvRunner;
}

/// Each list has a number for each spatial axis, in their order, or one for all of them, or none.
struct ConvParams {
  Dims stride = {};  ///< none: 1
  Dims pad_begin =
      {};             ///< in front of each axis: rows above, columns to the left. None: 0; negative ones crop
  Dims pad_end = {};  ///< behind each axis; none: as pad_begin
  Dims dilation = {};  ///< none: 1
  int64_t groups = 1;
  Activation activation = Activation::identity;  ///< forward only; the backward directions refuse others
  bool transposed = false;
  /// Transposed: what is added to y's size, since several sizes of y belong to one of x. Below the stride or
  /// the dilation.
  Dims output_pad = {};
};

/// The shape of y. Throws ValidationError when x, w and params do not fit together.
DLPRIM_API Shape conv_output_shape(const Shape& x, const Shape& w, const ConvParams& params);

/// Any strides: channels-last tensors are permuted views. x, w and y have one dtype, f32, f16, bf16 or, where
/// the device has it, f64; the one that is written may be f32 where the others are f16 or bf16. Sums are f32
/// or f64. Tensors beside x, w and y are contiguous [K] or lie as y does, and are of y's dtype, unless said
/// otherwise.
struct ConvDesc {
  TensorDesc x, w, y;
  ConvParams params = {};
  bool bias = false;
  bool scale = false;          ///< factors of the sums: a folded normalisation
  bool residual = false;       ///< added before the activation
  bool preactivation = false;  ///< what is given to the activation is stored too, for its backward pass
  bool statistics = false;  ///< mean and biased variance of each channel of y, f32 [K]: what BatchNorm needs
  /// x stands for prologue_activation(input_scale[c] * x + input_shift[c]), f32 [C], a normalisation that was
  /// not written; padding stays 0.
  bool prologue = false;
  Activation prologue_activation = Activation::identity;
  /// w's memory holds the same numbers in every run, as weights do in inference: the plan may keep what it
  /// prepared of it, as Gemm does of constant operands.
  bool constant_w = false;
};

/// Dtypes and strides as ConvDesc has them.
struct ConvBackwardDataDesc {
  TensorDesc dy, w, dx;
  ConvParams params = {};
};

/// Dtypes, strides and prologue as ConvDesc has them.
struct ConvBackwardFilterDesc {
  TensorDesc x, dy, dw;
  ConvParams params = {};
  Write write = Write::replace;  ///< `add`: gradients of several passes become one
  bool prologue = false;
  Activation prologue_activation = Activation::identity;
};

/// What a convolution reads and writes beside x, w and y. Each is undefined exactly if the description does
/// not have it.
struct ConvExtras : EpilogueTensors {
  ConvExtras() = default;
  ConvExtras(const Tensor& only_bias) : EpilogueTensors(only_bias) {}  // NOLINT(google-explicit-constructor)

  Tensor mean, variance;            ///< written
  Tensor input_scale, input_shift;  ///< read
};

/// y from x and w. Every engine is deterministic.
class DLPRIM_API Conv : public Plan {
 public:
  /// Throws ValidationError (shapes that do not fit, strides, dtypes), BuildError.
  explicit Conv(const Context& context, const ConvDesc& desc, const Options& options = {});
  /// What is written is written whole and shares no memory with the others.
  void run(const Stream& stream, const Tensor& x, const Tensor& w, const ConvExtras& with, const Tensor& y,
           const Tensor& workspace = {}) const;
  /// For a constant w that was changed after all: see Gemm.
  void forget_constants() const;
  using Plan::serialize;

 private:
  std::shared_ptr<const detail::ConvRunner> runner_;
};

/// dx from dy and w.
class DLPRIM_API ConvBackwardData : public Plan {
 public:
  /// Throws as Conv.
  explicit ConvBackwardData(const Context& context, const ConvBackwardDataDesc& desc,
                            const Options& options = {});
  /// dx is written whole and shares no memory with the others.
  void run(const Stream& stream, const Tensor& dy, const Tensor& w, const Tensor& dx,
           const Tensor& workspace = {}) const;
  using Plan::serialize;

 private:
  std::shared_ptr<const detail::ConvRunner> runner_;
};

/// dw from x and dy.
class DLPRIM_API ConvBackwardFilter : public Plan {
 public:
  /// Throws as Conv.
  explicit ConvBackwardFilter(const Context& context, const ConvBackwardFilterDesc& desc,
                              const Options& options = {});
  /// dw is written whole and shares no memory with the others. `with` has the prologue's tensors.
  void run(const Stream& stream, const Tensor& x, const Tensor& dy, const ConvExtras& with, const Tensor& dw,
           const Tensor& workspace = {}) const;
  using Plan::serialize;

 private:
  std::shared_ptr<const detail::ConvRunner> runner_;
};

// The same as calls: the plan is found in the context's cache, or made. The forward direction has those
// extras that are defined; x, w and y may have any of its layouts.

DLPRIM_API void conv(const Stream& stream, const Tensor& x, const Tensor& w, const ConvExtras& with,
                     const ConvParams& params, const Tensor& y, const Options& options = {},
                     const Tensor& workspace = {});
DLPRIM_API void conv_backward_data(const Stream& stream, const Tensor& dy, const Tensor& w,
                                   const ConvParams& params, const Tensor& dx, const Options& options = {},
                                   const Tensor& workspace = {});
DLPRIM_API void conv_backward_filter(const Stream& stream, const Tensor& x, const Tensor& dy,
                                     const ConvParams& params, const Tensor& dw, const Options& options = {},
                                     const Tensor& workspace = {});
DLPRIM_API void conv_backward_filter(const Stream& stream, const Tensor& x, const Tensor& dy,
                                     const ConvParams& params, const Tensor& dw, Write write,
                                     const Options& options = {}, const Tensor& workspace = {});
/// dbias[k] = sum over all axes of dy but the channels, dimension 1. Floating dtypes; dbias may be f32 where
/// dy is f16 or bf16. Its plan is a Reduce (pointwise.hpp) of sum_of("x0").
DLPRIM_API void conv_backward_bias(const Stream& stream, const Tensor& dy, const Tensor& dbias,
                                   const Options& options = {}, const Tensor& workspace = {});

}  // namespace dlprim
