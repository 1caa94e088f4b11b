// Linear (fully connected) layer: y = activation(x w^T + bias). x: [B, K], w: [N, K], bias: [N], y: [B, N];
// strides and dtypes as Gemm takes them. Thin layers over gemm.hpp: their plan is a Gemm of views,
// x.transpose(0, 1) and so on; that of the bias' gradient a Reduce (pointwise.hpp) of sum_of("x0").
#pragma once

#include <dlprim/activation.hpp>
#include <dlprim/export.hpp>
#include <dlprim/plan.hpp>
#include <dlprim/stream.hpp>
#include <dlprim/tensor.hpp>

namespace dlprim {

/// `bias` may be undefined. Throws what gemm() throws, in these arguments' names, as the others do.
DLPRIM_API void linear(const Stream& stream, const Tensor& x, const Tensor& w, const Tensor& bias,
                       Activation activation, const Tensor& y, const Options& options = {},
                       const Tensor& workspace = {});
/// dx = dy w
DLPRIM_API void linear_backward_data(const Stream& stream, const Tensor& dy, const Tensor& w,
                                     const Tensor& dx, const Options& options = {},
                                     const Tensor& workspace = {});
/// dw = dy^T x, or dw = dw + dy^T x
DLPRIM_API void linear_backward_weights(const Stream& stream, const Tensor& x, const Tensor& dy,
                                        const Tensor& dw, const Options& options = {},
                                        const Tensor& workspace = {});
DLPRIM_API void linear_backward_weights(const Stream& stream, const Tensor& x, const Tensor& dy,
                                        const Tensor& dw, Write write, const Options& options = {},
                                        const Tensor& workspace = {});
/// dbias = sum of dy over rows. Floating dtypes; dbias may be f32 where dy is f16 or bf16.
DLPRIM_API void linear_backward_bias(const Stream& stream, const Tensor& dy, const Tensor& dbias,
                                     const Options& options = {}, const Tensor& workspace = {});

}  // namespace dlprim
