// Padding by constants, by reflection and by the border, and windows of images as columns; their gradients.
#include <ATen/Functions.h>
#include <ATen/NativeFunctions.h>
#include <ATen/native/im2col_shape_check.h>
#include <dlprim/pad.hpp>

#include "plans.hpp"
#include "structured.hpp"

namespace ocl {

namespace {

using dlprim::PadMode;

/// Of PyTorch's list, which has two numbers for each dimension, the last one first.
dlprim::PadParams params_of(PadMode mode, int64_t rank, at::IntArrayRef padding) {
  TORCH_CHECK(padding.size() % 2 == 0 && static_cast<int64_t>(padding.size()) <= 2 * rank, "padding by ",
              padding.size(), " numbers for ", rank, " dimensions");
  check_rank(rank);
  dlprim::PadParams params{dlprim::Dims::filled(static_cast<int>(rank), 0),
                           dlprim::Dims::filled(static_cast<int>(rank), 0), mode};
  for (size_t i = 0; i < padding.size() / 2; i++) {
    params.begin[static_cast<int>(rank) - 1 - static_cast<int>(i)] = padding[2 * i];
    params.end[static_cast<int>(rank) - 1 - static_cast<int>(i)] = padding[2 * i + 1];
  }
  return params;
}

void run(const dlprim::PadParams& params, const at::Tensor& from, double value, const at::Tensor& to) {
  if (to.numel() == 0) return;
  const dlprim::Tensor x = view(from), y = view(to);
  run_plan<dlprim::Pad>(
      home_of(from), Key::of(x, y, params.begin, params.end, params.mode),
      [&] {
        return dlprim::Pad(home_of(from).context, {x, y, params});
      },
      [&](const dlprim::Pad& plan, const dlprim::Stream& stream) { plan.run(stream, x, value, y); });
}

/// x: with a batch or without.
template <int axes>
void check_images(const at::Tensor& x, at::IntArrayRef padding) {
  TORCH_CHECK(padding.size() == 2 * axes && (x.dim() == axes + 1 || x.dim() == axes + 2), "padding of ", axes,
              " dimensions by ", padding.size(), " numbers: the input has ", x.dim());
  for (int64_t i = x.dim() == axes + 1 ? 0 : 1; i < x.dim(); i++)
    TORCH_CHECK(x.size(i) > 0, "padding: the input has sizes ", x.sizes());
}

/// What has no gradient, integers, is moved by dimension.
at::Tensor selected(PadMode mode, at::Tensor x, at::IntArrayRef padding) {
  for (size_t i = 0; i < padding.size() / 2; i++) {
    const int64_t axis = x.dim() - 1 - static_cast<int64_t>(i), last = x.size(axis) - 1;
    at::Tensor place =
        at::arange(-padding[2 * i], last + 1 + padding[2 * i + 1], x.options().dtype(at::kLong));
    place =
        mode == PadMode::reflect ? place.abs_().sub_(last).abs_().neg_().add_(last) : place.clamp_(0, last);
    x = x.index_select(axis, place);
  }
  return x;
}

template <PadMode mode, int axes>
at::Tensor& pad_out(const at::Tensor& x, c10::SymIntArrayRef numbers, at::Tensor& y) {
  const at::IntArrayRef padding = C10_AS_INTARRAYREF_SLOW(numbers);
  check_images<axes>(x, padding);
  const dlprim::PadParams params = params_of(mode, x.dim(), padding);
  const dlprim::Shape shape = dlprim::pad_output_shape(dims_of(x.sizes()), params);
  if (at::native::resize_output(y, at::IntArrayRef(shape.begin(), shape.end())) && x.dim() == axes + 2)
    y.unsafeGetTensorImpl()->empty_tensor_restride(x.suggest_memory_format());
  if (x.is_floating_point())
    run(params, x, 0, y);
  else if (y.numel() > 0)
    y.copy_(selected(mode, x, padding));
  return y;
}

template <PadMode mode, int axes>
at::Tensor pad(const at::Tensor& x, c10::SymIntArrayRef numbers) {
  at::Tensor y = at::empty({0}, x.options());
  return pad_out<mode, axes>(x, numbers, y);
}

template <PadMode mode, int axes>
at::Tensor& pad_backward_out(const at::Tensor& grad, const at::Tensor& x, c10::SymIntArrayRef numbers,
                             at::Tensor& grad_input) {
  const at::IntArrayRef padding = C10_AS_INTARRAYREF_SLOW(numbers);
  check_images<axes>(x, padding);
  if (at::native::resize_output(grad_input, x.sizes()) && x.dim() == axes + 2)
    grad_input.unsafeGetTensorImpl()->empty_tensor_restride(x.suggest_memory_format());
  if (grad.numel() == 0) return grad_input.zero_();
  if (grad_input.numel() == 0) return grad_input;
  const dlprim::PadParams params = params_of(mode, x.dim(), padding);
  const dlprim::Tensor dy = view(grad), dx = view(grad_input);
  run_plan<dlprim::PadBackward>(
      home_of(grad), Key::of(dy, dx, params.begin, params.end, params.mode),
      [&] {
        return dlprim::PadBackward(home_of(grad).context, {dy, dx, params});
      },
      [&](const dlprim::PadBackward& plan, const dlprim::Stream& stream) { plan.run(stream, dy, dx); });
  return grad_input;
}

template <PadMode mode, int axes>
at::Tensor pad_backward(const at::Tensor& grad, const at::Tensor& x, c10::SymIntArrayRef numbers) {
  at::Tensor grad_input = at::empty({0}, x.options());
  return pad_backward_out<mode, axes>(grad, x, numbers, grad_input);
}

/// The gradient is the same with the numbers negated. Integers, and what dlprim has not enough dimensions
/// for, are filled and copied.
at::Tensor constant_pad(const at::Tensor& x, c10::SymIntArrayRef numbers, const at::Scalar& value) {
  const at::IntArrayRef padding = C10_AS_INTARRAYREF_SLOW(numbers);
  if (!x.is_floating_point() || x.dim() == 0 || x.dim() > dlprim::kMaxRank || x.numel() == 0)
    return at::native::constant_pad_nd(x, padding, value);
  const dlprim::PadParams params = params_of(PadMode::constant, x.dim(), padding);
  const dlprim::Shape shape = dlprim::pad_output_shape(dims_of(x.sizes()), params);
  const at::Tensor y = at::empty(at::IntArrayRef(shape.begin(), shape.end()),
                                 x.options().memory_format(x.suggest_memory_format()));
  run(params, x, value.toDouble(), y);
  return y;
}

// Windows as columns: [N, C, H, W] to [N, C kh kw, windows], all by views and copies

struct Windows {
  Windows(at::IntArrayRef kernel_, at::IntArrayRef dilation_, at::IntArrayRef padding_,
          at::IntArrayRef stride_, int64_t height, int64_t width)
      : kernel(kernel_), dilation(dilation_), padding(padding_), stride(stride_) {
    const std::array<int64_t, 2> image{height, width};
    for (size_t i = 0; i < 2; i++)
      count[i] = (image[i] + 2 * padding[i] - dilation[i] * (kernel[i] - 1) - 1) / stride[i] + 1;
  }
  at::IntArrayRef kernel, dilation, padding, stride;
  std::array<int64_t, 2> count;

  /// [N, C, kh, kw, windows down, windows across] of a padded image: a view.
  at::Tensor of(const at::Tensor& padded) const {
    const int64_t row = padded.stride(2), column = padded.stride(3);
    return padded.as_strided({padded.size(0), padded.size(1), kernel[0], kernel[1], count[0], count[1]},
                             {padded.stride(0), padded.stride(1), row * dilation[0], column * dilation[1],
                              row * stride[0], column * stride[1]});
  }
};

at::Tensor unfold_windows(const at::Tensor& input, at::IntArrayRef kernel, at::IntArrayRef dilation,
                          at::IntArrayRef padding, at::IntArrayRef stride) {
  TORCH_CHECK(kernel.size() == 2 && dilation.size() == 2 && padding.size() == 2 && stride.size() == 2,
              "im2col takes two numbers for each of its parameters");
  at::native::im2col_shape_check(input, at::Tensor(), kernel[0], kernel[1], dilation[0], dilation[1],
                                 padding[0], padding[1], stride[0], stride[1]);
  if (input.dim() == 3)
    return unfold_windows(input.unsqueeze(0), kernel, dilation, padding, stride).squeeze(0);
  const Windows windows(kernel, dilation, padding, stride, input.size(2), input.size(3));
  const at::Tensor padded = padding[0] || padding[1]
                                ? at::constant_pad_nd(input, {padding[1], padding[1], padding[0], padding[0]})
                                : input;
  return windows.of(padded).clone(at::MemoryFormat::Contiguous).flatten(4).flatten(1, 3);
}

at::Tensor& unfold_windows_out(const at::Tensor& input, at::IntArrayRef kernel, at::IntArrayRef dilation,
                               at::IntArrayRef padding, at::IntArrayRef stride, at::Tensor& out) {
  const at::Tensor columns = unfold_windows(input, kernel, dilation, padding, stride);
  at::native::resize_output(out, columns.sizes());
  return out.copy_(columns);
}

/// The sum of what the windows say of each place: a sum for each place in a window.
at::Tensor fold_windows(const at::Tensor& columns, c10::SymIntArrayRef output, at::IntArrayRef kernel,
                        at::IntArrayRef dilation, at::IntArrayRef padding, at::IntArrayRef stride) {
  const at::IntArrayRef image = C10_AS_INTARRAYREF_SLOW(output);
  TORCH_CHECK(image.size() == 2 && kernel.size() == 2 && dilation.size() == 2 && padding.size() == 2 &&
                  stride.size() == 2,
              "col2im takes two numbers for each of its parameters");
  at::native::col2im_shape_check(columns, at::Tensor(), image[0], image[1], kernel[0], kernel[1], dilation[0],
                                 dilation[1], padding[0], padding[1], stride[0], stride[1]);
  if (columns.dim() == 2)
    return fold_windows(columns.unsqueeze(0), output, kernel, dilation, padding, stride).squeeze(0);
  const Windows windows(kernel, dilation, padding, stride, image[0], image[1]);
  const int64_t channels = columns.size(1) / (kernel[0] * kernel[1]);
  const at::Tensor padded = at::zeros(
      {columns.size(0), channels, image[0] + 2 * padding[0], image[1] + 2 * padding[1]}, columns.options());
  const at::Tensor to = windows.of(padded),
                   from = columns.reshape(
                       {columns.size(0), channels, kernel[0], kernel[1], windows.count[0], windows.count[1]});
  for (int64_t i = 0; i < kernel[0]; i++)
    for (int64_t j = 0; j < kernel[1]; j++) to.select(2, i).select(2, j).add_(from.select(2, i).select(2, j));
  return padded.narrow(2, padding[0], image[0]).narrow(3, padding[1], image[1]).contiguous();
}

at::Tensor& fold_windows_out(const at::Tensor& columns, c10::SymIntArrayRef output, at::IntArrayRef kernel,
                             at::IntArrayRef dilation, at::IntArrayRef padding, at::IntArrayRef stride,
                             at::Tensor& out) {
  const at::Tensor image = fold_windows(columns, output, kernel, dilation, padding, stride);
  at::native::resize_output(out, image.sizes());
  return out.copy_(image);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
#define PAD(op, ...)                                       \
  OCL_FUNCTION(op, (pad<__VA_ARGS__>))                     \
  OCL_FUNCTION(op##_out, (pad_out<__VA_ARGS__>))           \
  OCL_FLOATING(op##_backward, (pad_backward<__VA_ARGS__>)) \
  OCL_FLOATING(op##_backward_grad_input, (pad_backward_out<__VA_ARGS__>))
  PAD(reflection_pad1d, PadMode::reflect, 1)
  PAD(reflection_pad2d, PadMode::reflect, 2)
  PAD(reflection_pad3d, PadMode::reflect, 3)
  PAD(replication_pad1d, PadMode::replicate, 1)
  PAD(replication_pad2d, PadMode::replicate, 2)
  PAD(replication_pad3d, PadMode::replicate, 3)
#undef PAD
  OCL_FUNCTION(constant_pad_nd, constant_pad)
  OCL_FUNCTION(im2col, unfold_windows)
  OCL_FUNCTION(im2col_out, unfold_windows_out)
  OCL_FUNCTION(col2im, fold_windows)
  OCL_FUNCTION(col2im_out, fold_windows_out)
}

}  // namespace

}  // namespace ocl
