// Activations: relu, relu6, sigmoid, tanh; alone, and as the last step of GEMM and convolution.
#pragma once

#include <dlprim/export.hpp>
#include <dlprim/plan.hpp>
#include <dlprim/stream.hpp>
#include <dlprim/tensor.hpp>

namespace dlprim {

/// relu: max(x, 0); relu6: min(max(x, 0), 6). All pass NaN on.
enum class Activation : uint8_t { identity, relu, relu6, sigmoid, tanh };

DLPRIM_API const char* name_of(Activation activation) noexcept;

/// y = f(x), elementwise; y may be x. Any strides, floating dtypes.
DLPRIM_API void activation(const Stream& stream, const Tensor& x, Activation f, const Tensor& y);
/// dx = dy * f'(x), told from the *output* y = f(x); dx may be dy.
DLPRIM_API void activation_backward(const Stream& stream, const Tensor& dy, const Tensor& y, Activation f,
                                    const Tensor& dx);

}  // namespace dlprim
