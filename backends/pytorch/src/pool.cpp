// Pooling of one to three dimensions, with sliding and adaptive windows, its gradients, and unpooling,
// through dlprim's.
#include <dlprim/max_unpool.hpp>
#include <dlprim/pool.hpp>

#include "plans.hpp"
#include "structured.hpp"

namespace ocl {

namespace {

using dlprim::PoolMode;
using dlprim::PoolParams;

/// A number for each of the axes; the default where there is none.
dlprim::Dims numbers(at::IntArrayRef given, int axes, const dlprim::Dims& otherwise = {}) {
  if (given.empty()) return otherwise;
  return given.size() == 1 ? dlprim::Dims::filled(axes, given[0]) : dims_of(given);
}

PoolParams sliding(PoolMode mode, int axes, at::IntArrayRef kernel, at::IntArrayRef stride,
                   at::IntArrayRef padding, at::IntArrayRef dilation, bool ceil_mode) {
  PoolParams params;
  params.mode = mode;
  params.kernel = numbers(kernel, axes);
  params.stride = numbers(stride, axes, params.kernel);
  params.pad_begin = numbers(padding, axes);
  params.dilation = numbers(dilation, axes);
  params.ceil_mode = ceil_mode;
  return params;
}

PoolParams average(int axes, at::IntArrayRef kernel, at::IntArrayRef stride, at::IntArrayRef padding,
                   bool ceil_mode, bool count_include_pad, std::optional<int64_t> divisor) {
  PoolParams params = sliding(PoolMode::average, axes, kernel, stride, padding, {}, ceil_mode);
  params.count_include_pad = count_include_pad;
  TORCH_CHECK(!divisor || *divisor != 0, "pooling: the divisor is 0");
  params.divisor = divisor.value_or(0);
  return params;
}

Key key_of(const PoolParams& p, const dlprim::Tensor& x, const dlprim::Tensor& y,
           const dlprim::Tensor& indices) {
  return Key::of(x, y, indices, p.mode, p.kernel, p.stride, p.pad_begin, p.dilation, p.output, p.ceil_mode,
                 p.count_include_pad, p.divisor);
}

void forward(const PoolParams& params, const at::Tensor& input, const at::Tensor& output,
             const at::Tensor& places = {}) {
  if (output.numel() == 0) return;
  const dlprim::Tensor x = view(input), y = view(output), indices = view(places);
  run_plan<dlprim::Pool>(
      home_of(input), key_of(params, x, y, indices),
      [&] {
        return dlprim::Pool(home_of(input).context, {x, y, params, description(indices)});
      },
      [&](const dlprim::Pool& plan, const dlprim::Stream& stream) { plan.run(stream, x, y, indices); });
}

void backward(const PoolParams& params, const at::Tensor& grad, const at::Tensor& grad_input,
              const at::Tensor& places = {}) {
  if (grad_input.numel() == 0) return;
  if (grad.numel() == 0) {
    grad_input.zero_();
    return;
  }
  const dlprim::Tensor dy = view(grad), dx = view(grad_input), indices = view(places);
  run_plan<dlprim::PoolBackward>(
      home_of(grad), key_of(params, dy, dx, indices),
      [&] {
        return dlprim::PoolBackward(home_of(grad).context, {dy, dx, params, description(indices)});
      },
      [&](const dlprim::PoolBackward& plan, const dlprim::Stream& stream) {
        plan.run(stream, dy, {indices}, dx);
      });
}

// Maxima

struct MaxPool2d : at::meta::structured_max_pool2d_with_indices {
  static constexpr bool floating_only = true;
  void impl(const at::Tensor& x, at::IntArrayRef kernel, at::IntArrayRef stride, at::IntArrayRef padding,
            at::IntArrayRef dilation, bool ceil_mode, const at::Tensor& y, const at::Tensor& indices) {
    forward(sliding(PoolMode::max, 2, kernel, stride, padding, dilation, ceil_mode), x, y, indices);
  }
};

struct MaxPool2dBackward : at::meta::structured_max_pool2d_with_indices_backward {
  void impl(const at::Tensor& dy, const at::Tensor&, at::IntArrayRef kernel, at::IntArrayRef stride,
            at::IntArrayRef padding, at::IntArrayRef dilation, bool ceil_mode, const at::Tensor& indices,
            const at::Tensor& dx) {
    backward(sliding(PoolMode::max, 2, kernel, stride, padding, dilation, ceil_mode), dy, dx, indices);
  }
};

#define ADAPTIVE_MAXIMUM(axes)                                                                               \
  struct AdaptiveMaxPool##axes##d : at::meta::structured_adaptive_max_pool##axes##d {                        \
    static constexpr bool floating_only = true;                                                              \
    void impl(const at::Tensor& x, at::IntArrayRef output, const at::Tensor& y, const at::Tensor& indices) { \
      forward(dlprim::adaptive_pool(PoolMode::max, numbers(output, axes)), x, y, indices);                   \
    }                                                                                                        \
  };                                                                                                         \
  struct AdaptiveMaxPool##axes##dBackward : at::meta::structured_adaptive_max_pool##axes##d_backward {       \
    void impl(const at::Tensor& dy, const at::Tensor&, const at::Tensor& indices, const at::Tensor& dx) {    \
      backward(dlprim::adaptive_pool(PoolMode::max, dims_of(dy.sizes().slice(dy.dim() - axes))), dy, dx,     \
               indices);                                                                                     \
    }                                                                                                        \
  };
ADAPTIVE_MAXIMUM(2)
ADAPTIVE_MAXIMUM(3)
#undef ADAPTIVE_MAXIMUM

std::tuple<at::Tensor, at::Tensor> max_pool3d(const at::Tensor& x, at::IntArrayRef kernel,
                                              at::IntArrayRef stride, at::IntArrayRef padding,
                                              at::IntArrayRef dilation, bool ceil_mode) {
  const PoolParams params = sliding(PoolMode::max, 3, kernel, stride, padding, dilation, ceil_mode);
  const dlprim::Shape shape = dlprim::pool_output_shape(dims_of(x.sizes()), params);
  const at::Tensor y = at::empty(at::IntArrayRef(shape.begin(), shape.end()),
                                 x.options().memory_format(x.suggest_memory_format()));
  const at::Tensor indices = at::empty_like(y, y.options().dtype(at::kLong));
  forward(params, x, y, indices);
  return {y, indices};
}

at::Tensor max_pool3d_backward(const at::Tensor& dy, const at::Tensor& x, at::IntArrayRef kernel,
                               at::IntArrayRef stride, at::IntArrayRef padding, at::IntArrayRef dilation,
                               bool ceil_mode, const at::Tensor& indices) {
  const at::Tensor dx = at::empty_like(x);
  backward(sliding(PoolMode::max, 3, kernel, stride, padding, dilation, ceil_mode), dy, dx, indices);
  return dx;
}

// Averages

#define AVERAGE(axes)                                                                                        \
  struct AvgPool##axes##d : at::meta::structured_avg_pool##axes##d {                                         \
    static constexpr bool floating_only = true;                                                              \
    void impl(const at::Tensor& x, at::IntArrayRef kernel, at::IntArrayRef stride, at::IntArrayRef padding,  \
              bool ceil_mode, bool count_include_pad, std::optional<int64_t> divisor, const at::Tensor& y) { \
      forward(average(axes, kernel, stride, padding, ceil_mode, count_include_pad, divisor), x, y);          \
    }                                                                                                        \
  };                                                                                                         \
  struct AvgPool##axes##dBackward : at::meta::structured_avg_pool##axes##d_backward {                        \
    void impl(const at::Tensor& dy, const at::Tensor&, at::IntArrayRef kernel, at::IntArrayRef stride,       \
              at::IntArrayRef padding, bool ceil_mode, bool count_include_pad,                               \
              std::optional<int64_t> divisor, const at::Tensor& dx) {                                        \
      backward(average(axes, kernel, stride, padding, ceil_mode, count_include_pad, divisor), dy, dx);       \
    }                                                                                                        \
  };
AVERAGE(2)
AVERAGE(3)
#undef AVERAGE

template <int axes>
at::Tensor adaptive_average(const at::Tensor& x, c10::SymIntArrayRef output) {
  const at::IntArrayRef windows = C10_AS_INTARRAYREF_SLOW(output);
  TORCH_CHECK(x.dim() == axes + 1 || x.dim() == axes + 2, "adaptive pooling: the input has ", x.dim(),
              " dimensions");
  std::vector<int64_t> shape = x.sizes().vec();
  std::copy(windows.begin(), windows.end(), shape.end() - axes);
  const at::Tensor y = at::empty(shape, x.options().memory_format(x.suggest_memory_format()));
  forward(dlprim::adaptive_pool(PoolMode::average, numbers(windows, axes)), x, y);
  return y;
}

template <int axes>
at::Tensor adaptive_average_backward(const at::Tensor& dy, const at::Tensor& x) {
  const at::Tensor dx = at::empty(x.sizes(), x.options().memory_format(x.suggest_memory_format()));
  backward(dlprim::adaptive_pool(PoolMode::average,
                                 dims_of(dy.sizes().slice(static_cast<size_t>(dy.dim() - axes)))),
           dy, dx);
  return dx;
}

// The way back from maxima to where they were

template <int axes>
at::Tensor& unpool_out(const at::Tensor& x, const at::Tensor& indices, c10::SymIntArrayRef output,
                       at::Tensor& y) {
  const at::IntArrayRef sizes = C10_AS_INTARRAYREF_SLOW(output);
  TORCH_CHECK(indices.scalar_type() == at::kLong, "max_unpool: indices are of dtype ", indices.scalar_type(),
              ", not int64");
  TORCH_CHECK(
      sizes.size() == axes && (x.dim() == axes + 1 || x.dim() == axes + 2) && x.sizes() == indices.sizes(),
      "max_unpool: an input of sizes ", x.sizes(), ", indices of ", indices.sizes(), " and an output of ",
      sizes, " do not fit");
  std::vector<int64_t> shape = x.sizes().vec();
  std::copy(sizes.begin(), sizes.end(), shape.end() - axes);
  if (at::native::resize_output(y, shape) && x.dim() == axes + 2)
    y.unsafeGetTensorImpl()->empty_tensor_restride(x.suggest_memory_format());
  if (y.numel() == 0) return y;
  if (x.numel() == 0) return y.zero_();
  const dlprim::Tensor from = view(x), places = view(indices), to = view(y);
  run_plan<dlprim::MaxUnpool>(
      home_of(x), Key::of(from, places, to, axes),
      [&] {
        return dlprim::MaxUnpool(home_of(x).context, {from, places, to, axes});
      },
      [&](const dlprim::MaxUnpool& plan, const dlprim::Stream& stream) {
        plan.run(stream, from, places, to);
      });
  return y;
}

at::Tensor unpool2d(const at::Tensor& x, const at::Tensor& indices, c10::SymIntArrayRef output) {
  at::Tensor y = at::empty({0}, x.options());
  return unpool_out<2>(x, indices, output, y);
}

at::Tensor& unpool3d_out(const at::Tensor& x, const at::Tensor& indices, c10::SymIntArrayRef output,
                         at::IntArrayRef, at::IntArrayRef, at::Tensor& y) {
  return unpool_out<3>(x, indices, output, y);
}

at::Tensor unpool3d(const at::Tensor& x, const at::Tensor& indices, c10::SymIntArrayRef output,
                    at::IntArrayRef, at::IntArrayRef) {
  at::Tensor y = at::empty({0}, x.options());
  return unpool_out<3>(x, indices, output, y);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  OCL_FUNCTION(max_unpool2d, unpool2d)
  OCL_FUNCTION(max_unpool2d_out, unpool_out<2>)
  OCL_FUNCTION(max_unpool3d, unpool3d)
  OCL_FUNCTION(max_unpool3d_out, unpool3d_out)
  OCL_CLASS(adaptive_max_pool3d_out, AdaptiveMaxPool3d)
  OCL_CLASS(adaptive_max_pool3d_backward_grad_input, AdaptiveMaxPool3dBackward)
  OCL_CLASS(max_pool2d_with_indices_out, MaxPool2d)
  OCL_CLASS(max_pool2d_with_indices_backward_grad_input, MaxPool2dBackward)
  OCL_CLASS(adaptive_max_pool2d_out, AdaptiveMaxPool2d)
  OCL_CLASS(adaptive_max_pool2d_backward_grad_input, AdaptiveMaxPool2dBackward)
  OCL_FLOATING(max_pool3d_with_indices, max_pool3d)
  OCL_FUNCTION(max_pool3d_with_indices_backward, max_pool3d_backward)
  OCL_CLASS(avg_pool2d_out, AvgPool2d)
  OCL_CLASS(avg_pool2d_backward_grad_input, AvgPool2dBackward)
  OCL_CLASS(avg_pool3d_out, AvgPool3d)
  OCL_CLASS(avg_pool3d_backward_grad_input, AvgPool3dBackward)
  OCL_FLOATING(_adaptive_avg_pool2d, adaptive_average<2>)
  OCL_FUNCTION(_adaptive_avg_pool2d_backward, adaptive_average_backward<2>)
  OCL_FLOATING(_adaptive_avg_pool3d, adaptive_average<3>)
  OCL_FUNCTION(_adaptive_avg_pool3d_backward, adaptive_average_backward<3>)
}

}  // namespace

}  // namespace ocl
