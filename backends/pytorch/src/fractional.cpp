// Maxima of windows that begin where random numbers say: of two and three dimensions, by indices.
#include <ATen/TensorOperators.h>

#include "structured.hpp"

namespace ocl {

namespace {

using Two = std::tuple<at::Tensor, at::Tensor>;

/// Where windows along one dimension begin, for each image: [N, C, output].
at::Tensor starts(const at::Tensor& sample, int64_t input, int64_t output, int64_t window) {
  TORCH_CHECK(output > 0 && output + window - 1 <= input, "fractional_max_pool: ", output, " windows of ",
              window, " do not fit into ", input);
  const double step = output > 1 ? static_cast<double>(input - window) / static_cast<double>(output - 1) : 0;
  const at::Tensor s = sample.unsqueeze(-1), number = at::arange(output, sample.options());
  const at::Tensor first = number.add(s).mul_(step).to(at::kLong).sub_(s.mul(step).to(at::kLong));
  first.select(2, output - 1).fill_(input - window);
  return first;
}

/// Places in an image of all elements of all windows: [N, C, windows, elements of one].
template <int axes>
at::Tensor places(const at::Tensor& x, at::IntArrayRef window, at::IntArrayRef output,
                  const at::Tensor& samples) {
  at::Tensor sum;
  for (int i = 0; i < axes; i++) {
    const int64_t input = x.size(2 + i);
    const int which = axes == 2 ? 1 - i : i;  // of two numbers the first is the width's
    std::vector<int64_t> shape(2 + 2 * axes, 1), within = shape;
    shape[0] = x.size(0), shape[1] = x.size(1);
    shape[static_cast<size_t>(2 + i)] = output[static_cast<size_t>(i)];
    within[static_cast<size_t>(2 + axes + i)] = window[static_cast<size_t>(i)];
    const at::Tensor first = starts(samples.select(2, which), input, output[static_cast<size_t>(i)],
                                    window[static_cast<size_t>(i)]);
    const at::Tensor here =
        first.reshape(shape) + at::arange(window[static_cast<size_t>(i)], first.options()).reshape(within);
    sum = sum.defined() ? sum * input + here : here;
  }
  return sum.flatten(2 + axes).flatten(2, 1 + axes);
}

template <int axes>
Two fractional_max_pool(const at::Tensor& input, at::IntArrayRef window, at::IntArrayRef output,
                        const at::Tensor& samples) {
  TORCH_CHECK(input.dim() == axes + 1 || input.dim() == axes + 2, "fractional_max_pool of ", axes,
              " dimensions: the input has sizes ", input.sizes());
  TORCH_CHECK(window.size() == axes && output.size() == axes, "fractional_max_pool of ", axes,
              " dimensions: windows ", window, ", output ", output);
  const at::Tensor x = input.dim() == axes + 1 ? input.unsqueeze(0) : input;
  TORCH_CHECK(samples.dim() == 3 && samples.size(0) >= x.size(0) && samples.size(1) == x.size(1) &&
                  samples.size(2) == axes && samples.scalar_type() == input.scalar_type(),
              "fractional_max_pool: random samples of sizes ", samples.sizes(), ", dtype ",
              samples.scalar_type());
  std::vector<int64_t> shape = input.sizes().slice(0, static_cast<size_t>(input.dim()) - axes).vec();
  shape.insert(shape.end(), output.begin(), output.end());
  if (x.numel() == 0)
    return {at::empty(shape, input.options()), at::empty(shape, input.options().dtype(at::kLong))};
  const at::Tensor all = places<axes>(x, window, output, samples.narrow(0, 0, x.size(0)));
  const auto [values, which] = x.flatten(2).gather(2, all.flatten(2)).view(all.sizes()).max(3, true);
  return {values.reshape(shape), all.gather(3, which).reshape(shape)};
}

template <int axes>
std::tuple<at::Tensor&, at::Tensor&> fractional_max_pool_out(const at::Tensor& input, at::IntArrayRef window,
                                                             at::IntArrayRef output,
                                                             const at::Tensor& samples, at::Tensor& values,
                                                             at::Tensor& indices) {
  const auto [y, places] = fractional_max_pool<axes>(input, window, output, samples);
  at::native::resize_output(values, y.sizes());
  at::native::resize_output(indices, y.sizes());
  return {values.copy_(y), indices.copy_(places)};
}

template <int axes>
at::Tensor fractional_max_pool_backward(const at::Tensor& grad, const at::Tensor& input, at::IntArrayRef,
                                        at::IntArrayRef, const at::Tensor& indices) {
  const at::Tensor dx = at::zeros(input.sizes(), input.options());
  if (grad.numel() > 0) dx.flatten(-axes).scatter_add_(-1, indices.flatten(-axes), grad.flatten(-axes));
  return dx;
}

template <int axes>
at::Tensor& fractional_max_pool_backward_out(const at::Tensor& grad, const at::Tensor& input,
                                             at::IntArrayRef window, at::IntArrayRef output,
                                             const at::Tensor& indices, at::Tensor& grad_input) {
  at::native::resize_output(grad_input, input.sizes());
  return grad_input.copy_(fractional_max_pool_backward<axes>(grad, input, window, output, indices));
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
#define POOL(op, axes)                                            \
  OCL_FLOATING(op, fractional_max_pool<axes>)                     \
  OCL_FLOATING(op##_output, fractional_max_pool_out<axes>)        \
  OCL_FLOATING(op##_backward, fractional_max_pool_backward<axes>) \
  OCL_FLOATING(op##_backward_grad_input, fractional_max_pool_backward_out<axes>)
  POOL(fractional_max_pool2d, 2)
  POOL(fractional_max_pool3d, 3)
#undef POOL
}

}  // namespace

}  // namespace ocl
