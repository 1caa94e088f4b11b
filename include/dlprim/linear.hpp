// Linear (fully connected) layer: y = activation(x w^T + bias). A thin layer over gemm.hpp.
// x: [B, K], w: [N, K], bias: [N], y: [B, N]. f32.
#pragma once

#include <dlprim/activation.hpp>
#include <dlprim/export.hpp>
#include <dlprim/stream.hpp>
#include <dlprim/tensor.hpp>

namespace dlprim {

/// `bias` may be undefined.
DLPRIM_API void linear(const Stream& stream, const Tensor& x, const Tensor& w, const Tensor& bias,
                       Activation activation, const Tensor& y);
/// dx = dy w
DLPRIM_API void linear_backward_data(const Stream& stream, const Tensor& dy, const Tensor& w,
                                     const Tensor& dx);
/// dw = dy^T x
DLPRIM_API void linear_backward_weights(const Stream& stream, const Tensor& x, const Tensor& dy,
                                        const Tensor& dw);
/// dbias = sum of dy over rows
DLPRIM_API void linear_backward_bias(const Stream& stream, const Tensor& dy, const Tensor& dbias);

}  // namespace dlprim
