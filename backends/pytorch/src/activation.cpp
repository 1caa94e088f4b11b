// Activations whose functions in PyTorch call the CPU's kernels by name: gelu, the logarithm of the sigmoid.
#include "expression.hpp"
#include "structured.hpp"

namespace ocl {

namespace {

struct Gelu : at::meta::structured_gelu {
  static constexpr bool floating_only = true;
  void impl(const at::Tensor&, c10::string_view approximate, const at::Tensor&) {
    static constexpr Row exact = listed("gelu"), by_tanh = listed("gelu_tanh");
    run_pointwise(approximate == "tanh" ? by_tanh : exact, *this, {});
  }
};

struct GeluBackward : at::meta::structured_gelu_backward {
  static constexpr bool floating_only = true;
  void impl(const at::Tensor&, const at::Tensor&, c10::string_view approximate, const at::Tensor&) {
#define SLOPE "sigmoid(1.5957691216057308 * (b + 0.044715 * b * b * b))"
    static constexpr Row
        exact = expression(
            "a * (normal_cdf(b, exp(b * b * -0.5)) + b * 0.39894228040143268 * exp(b * b * -0.5))"),
        by_tanh = expression("a * " SLOPE " * (1 + b * (1 - " SLOPE
                             ") * 1.5957691216057308 * (1 + 0.134145 * b * b))");
#undef SLOPE
    run_pointwise(approximate == "tanh" ? by_tanh : exact, *this, {});
  }
};

/// PyTorch's CPU keeps a buffer for the gradient, other devices none.
std::tuple<at::Tensor, at::Tensor> log_sigmoid(const at::Tensor& x) {
  static constexpr Row row = expression("fmin(x, 0) - log1p(exp(-fabs(x)))");
  const at::Tensor y = at::empty_like(x);
  at::TensorIterator iter = at::TensorIterator::unary_op(const_cast<at::Tensor&>(y), x);
  run_pointwise(row, iter, {});
  return {y, at::empty({0}, x.options())};
}

at::Tensor log_sigmoid_backward(const at::Tensor& dy, const at::Tensor& x, const at::Tensor&) {
  static constexpr Row row = expression("a * sigmoid(-b)");
  const at::Tensor dx = at::empty_like(x);
  at::TensorIterator iter = at::TensorIterator::borrowing_binary_op(dx, dy, x);
  run_pointwise(row, iter, {});
  return dx;
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  OCL_CLASS(gelu_out, Gelu)
  OCL_CLASS(gelu_backward_grad_input, GeluBackward)
  OCL_FUNCTION(log_sigmoid_forward, log_sigmoid)
  OCL_FUNCTION(log_sigmoid_backward, log_sigmoid_backward)
}

}  // namespace

}  // namespace ocl
