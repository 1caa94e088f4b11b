// Convolutions of one to three dimensions, transposed or not, and their gradients, through dlprim's. Results
// lie channels-last where the input or the weights do.
#include <set>
#include <tuple>

#include <dlprim/conv.hpp>

#include "math.hpp"
#include "plans.hpp"
#include "structured.hpp"

namespace ocl {

namespace {

dlprim::Dims dims(c10::SymIntArrayRef values) {
  return dims_of(C10_AS_INTARRAYREF_SLOW(values));
}

struct Params : dlprim::ConvParams {
  Params(c10::SymIntArrayRef stride_, c10::SymIntArrayRef padding, c10::SymIntArrayRef dilation_,
         bool transposed_, c10::SymIntArrayRef output_padding, const c10::SymInt& groups_) {
    stride = dims(stride_);
    pad_begin = dims(padding);
    dilation = dims(dilation_);
    groups = groups_.guard_int(__FILE__, __LINE__);
    transposed = transposed_;
    if (transposed) output_pad = dims(output_padding);
  }
  Key key(const dlprim::Tensor& a, const dlprim::Tensor& b, const dlprim::Tensor& c,
          bool bias = false) const {
    return Key::of(a, b, c, stride, pad_begin, dilation, output_pad, groups, transposed, bias, math);
  }
  const dlprim::MathMode math = math_of(conv_tf32);
};

bool serves_all(const at::Tensor& a, const at::Tensor& b) {
  return a.is_floating_point() && serves(a) && serves(b);
}

at::MemoryFormat format_of(const at::Tensor& x, const at::Tensor& w) {
  const at::MemoryFormat format = x.suggest_memory_format();
  return format != at::MemoryFormat::Contiguous ? format : w.suggest_memory_format();
}

at::Tensor dense(const at::Tensor& t) {
  return t.is_non_overlapping_and_dense() ? t : t.contiguous();
}

/// Of layers that most networks for images have, with images of 224 pixels.
struct Layer {
  int64_t in, out, window, size;
};
constexpr Layer kUsualLayers[] = {{64, 64, 3, 56},   {64, 256, 1, 56},  {256, 64, 1, 56},   {128, 128, 3, 28},
                                  {512, 128, 1, 28}, {256, 256, 3, 14}, {1024, 256, 1, 14}, {512, 512, 3, 7},
                                  {512, 2048, 1, 7}, {2048, 512, 1, 7}};

dlprim::TensorDesc described(const dlprim::Shape& shape, dlprim::DType dtype, bool channels_last) {
  dlprim::TensorDesc desc(shape, dtype);
  if (channels_last) desc.strides = {shape[1] * shape[2] * shape[3], 1, shape[3] * shape[1], shape[1]};
  return desc;
}

/// A network's layers need several programs that GPUs' compilers take seconds for, one after the other. So
/// once programs had to be compiled, the next new convolution asks for those of usual layers too.
/// `last`, `w_last`: whether images and weights lie channels-last, which the strides of 1 x 1 windows do not
/// tell.
void rehearse_usual_layers(Device& on, const dlprim::Tensor& x, bool last, bool w_last,
                           const Params& params) {
  if (on.context.device().kind() != dlprim::DeviceKind::gpu || x.rank() != 4 || params.groups != 1) return;
  if (on.context.program_stats().built == 0) return;
  const bool gradients = at::GradMode::is_enabled();
  static std::mutex mutex;
  static auto* const done = new std::set<std::tuple<int, dlprim::DType, dlprim::MathMode, bool, bool, bool>>;
  {
    const std::lock_guard lock(mutex);
    if (!done->emplace(on.index, x.dtype(), params.math, last, w_last, gradients).second) return;
  }
  const auto plan = [&](const Layer& layer) {
    const int64_t size = std::max<int64_t>(1, layer.size * x.shape()[2] / 224), window = layer.window;
    const auto of = [&](const dlprim::Shape& shape, bool channels_last) {
      return described(shape, x.dtype(), channels_last);
    };
    const dlprim::TensorDesc from = of({x.shape()[0], layer.in, size, size}, last),
                             to = of({x.shape()[0], layer.out, size, size}, last),
                             by = of({layer.out, layer.in, window, window}, w_last);
    dlprim::ConvParams same;
    same.pad_begin = {window / 2, window / 2};
    dlprim::Conv(on.context, {from, by, to, same}, with(params.math));
    if (!gradients) return;
    dlprim::ConvBackwardData(on.context, {to, by, from, same}, with(params.math));
    dlprim::ConvBackwardFilter(on.context, {from, to, by, same}, with(params.math));
  };
  for (const Layer& layer : kUsualLayers) rehearse([&] { plan(layer); });
}

void check_dtypes(const at::Tensor& x, const at::Tensor& w) {
  TORCH_CHECK(x.scalar_type() == w.scalar_type(),
              "a convolution's input and weight are of one dtype, these are of ", x.scalar_type(), " and ",
              w.scalar_type());
}

at::Tensor forward(const at::Tensor& input, const at::Tensor& weight, const std::optional<at::Tensor>& bias,
                   c10::SymIntArrayRef stride, c10::SymIntArrayRef padding, c10::SymIntArrayRef dilation,
                   bool transposed, c10::SymIntArrayRef output_padding, c10::SymInt groups) {
  common_device<at::_ops::convolution>(input, weight, bias);
  if (!serves_all(input, weight))
    return at::native::call_fallback_fn_symint<&fallback, at::_ops::convolution>::call(
        input, weight, bias, stride, padding, dilation, transposed, output_padding, groups);
  check_dtypes(input, weight);
  const c10::DeviceGuard guard(input.device());
  const at::MemoryFormat format = format_of(input, weight);
  const Params params(stride, padding, dilation, transposed, output_padding, groups);
  const at::Tensor from = input.contiguous(format), by = dense(weight);
  const dlprim::Tensor x = view(from), w = view(by);
  const dlprim::Shape shape = dlprim::conv_output_shape(x.shape(), w.shape(), params);
  const at::Tensor output =
      at::empty(at::IntArrayRef(shape.begin(), shape.end()), input.options().memory_format(format));
  if (output.numel() == 0) return output;
  const dlprim::Tensor y = view(output);
  dlprim::Tensor b;
  if (bias && bias->defined()) b = view(bias->to(input.scalar_type()).contiguous());
  Device& on = home_of(input);
  run_plan<dlprim::Conv>(
      on, params.key(x, w, y, b.defined()),
      [&] {
        rehearse_gradients([&] {
          if (input.requires_grad())
            dlprim::ConvBackwardData(on.context, {y, w, x, params}, with(params.math));
          if (weight.requires_grad())
            dlprim::ConvBackwardFilter(on.context, {x, y, w, params}, with(params.math));
        });
        rehearse_usual_layers(on, x, format == at::MemoryFormat::ChannelsLast,
                              weight.suggest_memory_format() == at::MemoryFormat::ChannelsLast, params);
        dlprim::ConvDesc desc{x, w, y, params};
        desc.bias = b.defined();
        return dlprim::Conv(on.context, desc, with(params.math));
      },
      [&](const dlprim::Conv& plan, const dlprim::Stream& stream) { plan.run(stream, x, w, b, y); });
  return output;
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> backward(const at::Tensor& grad, const at::Tensor& input,
                                                        const at::Tensor& weight, c10::SymIntArrayRef stride,
                                                        c10::SymIntArrayRef padding,
                                                        c10::SymIntArrayRef dilation, bool transposed,
                                                        c10::SymIntArrayRef output_padding,
                                                        c10::SymInt groups, std::array<bool, 3> wanted) {
  common_device<at::_ops::convolution_backward>(grad, input, weight);
  if (!serves_all(input, weight)) {
    const std::array<c10::SymInt, 1> bias_size{weight.sym_size(transposed ? 1 : 0) *
                                               (transposed ? groups : 1)};
    return at::native::call_fallback_fn_symint<&fallback, at::_ops::convolution_backward>::call(
        grad, input, weight, c10::SymIntArrayRef(bias_size), stride, padding, dilation, transposed,
        output_padding, groups, wanted);
  }
  const c10::DeviceGuard guard(input.device());
  Device& on = home_of(input);
  const at::MemoryFormat format = format_of(input, weight);
  const Params params(stride, padding, dilation, transposed, output_padding, groups);
  const at::Tensor given = grad.contiguous(format);
  const dlprim::Tensor dy = view(given);
  at::Tensor grad_input, grad_weight, grad_bias;
  if (wanted[0]) {
    grad_input = at::empty(input.sizes(), input.options().memory_format(format));
    const dlprim::Tensor w = view(dense(weight)), dx = view(grad_input);
    run_plan<dlprim::ConvBackwardData>(
        on, params.key(dy, w, dx),
        [&] {
          return dlprim::ConvBackwardData(on.context, {dy, w, dx, params}, with(params.math));
        },
        [&](const dlprim::ConvBackwardData& plan, const dlprim::Stream& stream) {
          plan.run(stream, dy, w, dx);
        });
  }
  if (wanted[1]) {
    grad_weight = at::empty_like(weight);
    const dlprim::Tensor x = view(input.contiguous(format)), dw = view(grad_weight);
    run_plan<dlprim::ConvBackwardFilter>(
        on, params.key(x, dy, dw),
        [&] {
          return dlprim::ConvBackwardFilter(on.context, {x, dy, dw, params}, with(params.math));
        },
        [&](const dlprim::ConvBackwardFilter& plan, const dlprim::Stream& stream) {
          plan.run(stream, x, dy, {}, dw);
        });
  }
  if (wanted[2]) {
    std::vector<int64_t> axes{0};
    for (int64_t i = 2; i < given.dim(); i++) axes.push_back(i);
    grad_bias = given.sum(axes);
  }
  return {grad_input, grad_weight, grad_bias};
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("convolution_overrideable", TORCH_FN(forward));
  m.impl("convolution_backward_overrideable", TORCH_FN(backward));
}

}  // namespace

}  // namespace ocl
