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

/// Its iterator in PyTorch borrows halves of the input that are gone when it runs.
struct Glu : at::meta::structured_glu {
  static constexpr bool floating_only = true;
  void impl(const at::Tensor& x, int64_t dim, const at::Tensor& y) {
    static constexpr Row row = expression("a * sigmoid(b)").in_output_dtype();
    const int64_t half = x.size(dim) / 2;
    const at::Tensor value = x.narrow(dim, 0, half), gate = x.narrow(dim, half, half);
    at::TensorIterator iter = iterator_over(y, {value, gate});
    run_pointwise(row, iter, {});
  }
};

at::Tensor& glu_backward_out(const at::Tensor& dy, const at::Tensor& x, int64_t dim, at::Tensor& dx) {
  static constexpr Row of_value = expression("a * sigmoid(b)").in_output_dtype(),
                       of_gate = expression("x * a * sigmoid(b) * (1 - sigmoid(b))").in_output_dtype();
  at::native::resize_output(dx, x.sizes());
  const int64_t half = x.size(dim) / 2;
  const at::Tensor value = x.narrow(dim, 0, half), gate = x.narrow(dim, half, half);
  at::TensorIterator first = iterator_over(dx.narrow(dim, 0, half), {dy, gate});
  run_pointwise(of_value, first, {});
  at::TensorIterator second = iterator_over(dx.narrow(dim, half, half), {dy, value, gate});
  run_pointwise(of_gate, second, {});
  return dx;
}
at::Tensor glu_backward(const at::Tensor& dy, const at::Tensor& x, int64_t dim) {
  at::Tensor dx = at::empty_like(x);
  return glu_backward_out(dy, x, dim, dx);
}

/// Of the weight for every element of x: autograd adds it up to the weight's shape.
std::tuple<at::Tensor, at::Tensor> prelu_backward(const at::Tensor& dy, const at::Tensor& x,
                                                  const at::Tensor& weight) {
  static constexpr Row of_x = expression("a > 0 ? x : b * x").in_output_dtype(),
                       of_weight = expression("b > 0 ? 0 : a * b").in_output_dtype();
  const at::Tensor dx = at::empty_like(x), dweight = at::empty_like(x);
  at::TensorIterator first = iterator_over(dx, {dy, x, weight});
  run_pointwise(of_x, first, {});
  at::TensorIterator second = iterator_over(dweight, {dy, x});
  run_pointwise(of_weight, second, {});
  return {dx, dweight};
}

/// In training each number that is not positive has a slope of its own, kept in `noise`.
at::Tensor& rrelu_out(const at::Tensor& x, at::Tensor& noise, const at::Scalar& lower,
                      const at::Scalar& upper, bool training, std::optional<at::Generator> generator,
                      at::Tensor& out) {
  const double low = lower.toDouble(), high = upper.toDouble();
  if (!training) return at::leaky_relu_out(out, x, (low + high) / 2);
  const at::Tensor slopes = at::empty_like(x).uniform_(low, high, generator);
  noise.copy_(at::where(x.le(0), slopes, at::Scalar(1)));
  return at::mul_out(out, x, noise);
}
at::Tensor rrelu(const at::Tensor& x, at::Tensor& noise, const at::Scalar& lower, const at::Scalar& upper,
                 bool training, std::optional<at::Generator> generator) {
  at::Tensor out = at::empty_like(x);
  return rrelu_out(x, noise, lower, upper, training, std::move(generator), out);
}
at::Tensor& rrelu_(at::Tensor& x, at::Tensor& noise, const at::Scalar& lower, const at::Scalar& upper,
                   bool training, std::optional<at::Generator> generator) {
  return rrelu_out(x, noise, lower, upper, training, std::move(generator), x);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  OCL_CLASS(gelu_out, Gelu)
  OCL_CLASS(gelu_backward_grad_input, GeluBackward)
  OCL_CLASS(glu_out, Glu)
  OCL_FUNCTION(glu_backward, glu_backward)
  OCL_FUNCTION(glu_backward_grad_input, glu_backward_out)
  OCL_FUNCTION(_prelu_kernel_backward, prelu_backward)
  OCL_FUNCTION(rrelu_with_noise, rrelu)
  OCL_FUNCTION(rrelu_with_noise_, rrelu_)
  OCL_FUNCTION(rrelu_with_noise_out, rrelu_out)
  OCL_FUNCTION(log_sigmoid_forward, log_sigmoid)
  OCL_FUNCTION(log_sigmoid_backward, log_sigmoid_backward)
}

}  // namespace

}  // namespace ocl
