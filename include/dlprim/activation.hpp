// Activations: relu, relu6, sigmoid, tanh and others; alone, and as the last step of GEMM and convolution.
#pragma once

#include <optional>
#include <string_view>

#include <dlprim/export.hpp>
#include <dlprim/plan.hpp>
#include <dlprim/stream.hpp>
#include <dlprim/tensor.hpp>

namespace dlprim {

/// relu: max(x, 0); relu6: min(max(x, 0), 6); hardsigmoid: relu6(x + 3) / 6; silu: x sigmoid(x); hardswish:
/// x hardsigmoid(x); gelu: x times the normal distribution's function; gelu_tanh: its approximation by tanh.
/// They are the elementwise functions of these names (dlprim/elementwise.hpp). All pass NaN on.
enum class Activation : uint8_t {
  identity,
  relu,
  relu6,
  sigmoid,
  tanh,
  hardsigmoid,
  silu,
  hardswish,
  gelu,
  gelu_tanh
};

/// "relu", and so on; "unknown" for a number that is none.
DLPRIM_API const char* name_of(Activation activation) noexcept;
/// The one of that name, or none.
DLPRIM_API std::optional<Activation> activation_named(std::string_view name) noexcept;
/// Whether the derivative can be told from the result: not of silu, hardswish, gelu and gelu_tanh, which take
/// one value twice.
DLPRIM_API bool is_told_from_result(Activation activation) noexcept;

/// Any strides; f32, f16, bf16, f64 in any mix; one shape.
struct ActivationDesc {
  TensorDesc x, y;
  Activation f = Activation::relu;
};

/// y = f(x), elementwise.
class DLPRIM_API ActivationForward : public Plan {
 public:
  /// Throws ValidationError (dtypes, shapes that differ, an activation that does not exist), BuildError.
  explicit ActivationForward(const Context& context, const ActivationDesc& desc, const Options& options = {});
  /// y may be x; otherwise they share no memory.
  void run(const Stream& stream, const Tensor& x, const Tensor& y, const Tensor& workspace = {}) const;

  struct Impl;

 private:
  std::shared_ptr<const Impl> impl_;
};

/// As ActivationDesc.
struct ActivationBackwardDesc {
  TensorDesc dy, y, dx;
  Activation f = Activation::relu;
};

/// dx = dy * f'(x), told from the output y = f(x). Where f has a kink, the derivative is 0; a NaN in y passes
/// dy on through relu and relu6, and dy / 6 through hardsigmoid.
class DLPRIM_API ActivationBackward : public Plan {
 public:
  /// Throws as ActivationForward, and for an activation that is not told from its result.
  explicit ActivationBackward(const Context& context, const ActivationBackwardDesc& desc,
                              const Options& options = {});
  /// dx may be dy; otherwise it shares no memory with the others.
  void run(const Stream& stream, const Tensor& dy, const Tensor& y, const Tensor& dx,
           const Tensor& workspace = {}) const;

  struct Impl;

 private:
  std::shared_ptr<const Impl> impl_;
};

/// y = f(x), elementwise; y may be x. Any strides, floating dtypes.
DLPRIM_API void activation(const Stream& stream, const Tensor& x, Activation f, const Tensor& y,
                           const Options& options = {}, const Tensor& workspace = {});
/// dx = dy * f'(x), told from the *output* y = f(x), where is_told_from_result(f); dx may be dy. The others'
/// gradients are elementwise_backward()'s.
DLPRIM_API void activation_backward(const Stream& stream, const Tensor& dy, const Tensor& y, Activation f,
                                    const Tensor& dx, const Options& options = {},
                                    const Tensor& workspace = {});

}  // namespace dlprim
