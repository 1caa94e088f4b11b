// Convolution's public face: plans, calls, the list of engines.
#include <dlprim/conv.hpp>

#include "core/composed.hpp"
#include "ops/conv_problem.hpp"

namespace dlprim {

using namespace detail;

namespace {

struct Made {
  std::shared_ptr<const PlanInfo> info;
  std::shared_ptr<const ConvImpl> impl;
};

Made make_plan(const char* op, ConvDirection direction, const Context& context, const ConvDesc& desc,
               const Options& options) {
  static const std::vector<ConvEngine> engines = {kConvCpu, kConvFma, kConvNaive};
  const ConvProblem problem = conv_problem(direction, desc);
  auto info = std::make_shared<PlanInfo>();
  std::shared_ptr<const ConvImpl> impl = choose_engine(op, engines, context, problem, options, *info);
  info->text = cat("op=", op, " engine=", info->engine, " ", conv_text(problem));
  info->flops = conv_flops(problem);
  info->bytes = traffic({desc.x, desc.w, desc.y});
  return {info, impl};
}

void check_memory(const PlanInfo& info, const Named& output, std::initializer_list<Named> inputs,
                  const Tensor& workspace) {
  require_apart({output}, inputs);
  if (info.workspace == 0) return;
  require_apart({{"workspace", workspace}}, inputs);
  require_apart({{"workspace", workspace}}, {output});
}

void enqueue(const Stream& stream, const PlanInfo& info, const ConvImpl& impl, const ConvTensors& t,
             const Tensor& output, const Tensor& workspace) {
  if (output.numel() == 0) return;
  const Tensor ws = workspace_for(info, stream, workspace);
  const OperatorScope scope(stream, info);
  impl.run(stream, t, ws);
}

TensorDesc bias_desc(const ConvDesc& desc) {
  return {{desc.w.shape[0]}, {1}, DType::f32, false};
}

PlanKey key_of(const char* op, const ConvDesc& desc) {
  PlanKey key(op);
  const ConvParams& p = desc.params;
  key.add(desc.x).add(desc.w).add(desc.y).add(desc.bias).add(p.groups).add(p.activation);
  for (size_t i = 0; i < 2; i++)
    key.add(p.stride[i]).add(p.pad_begin[i]).add(p.pad_end[i]).add(p.dilation[i]);
  return key;
}

}  // namespace

Conv2D::Conv2D(const Context& context, const ConvDesc& desc, const Options& options)
    : Plan(nullptr), desc_(desc) {
  Made made = make_plan("conv2d", ConvDirection::forward, context, desc, options);
  info_ = std::move(made.info);
  impl_ = std::move(made.impl);
}

void Conv2D::run(const Stream& stream, const Tensor& x, const Tensor& w, const Tensor& bias, const Tensor& y,
                 const Tensor& workspace) const {
  require_stream(*info_, stream);
  require_tensor("x", x, stream.context(), desc_.x);
  require_tensor("w", w, stream.context(), desc_.w);
  require(bias.defined() == desc_.bias, "bias",
          desc_.bias ? "is not defined" : "is given, but the plan has none");
  if (desc_.bias) require_tensor("bias", bias, stream.context(), bias_desc(desc_));
  require_tensor("y", y, stream.context(), desc_.y);
  check_memory(*info_, {"y", y}, {{"x", x}, {"w", w}, {"bias", bias}}, workspace);
  enqueue(stream, *info_, *impl_, {x, w, bias, y}, y, workspace);
}

Conv2DBackwardData::Conv2DBackwardData(const Context& context, const ConvDesc& desc, const Options& options)
    : Plan(nullptr), desc_(desc) {
  Made made = make_plan("conv2d_backward_data", ConvDirection::backward_data, context, desc, options);
  info_ = std::move(made.info);
  impl_ = std::move(made.impl);
}

void Conv2DBackwardData::run(const Stream& stream, const Tensor& dy, const Tensor& w, const Tensor& dx,
                             const Tensor& workspace) const {
  require_stream(*info_, stream);
  require_tensor("dy", dy, stream.context(), desc_.y);
  require_tensor("w", w, stream.context(), desc_.w);
  require_tensor("dx", dx, stream.context(), desc_.x);
  check_memory(*info_, {"dx", dx}, {{"dy", dy}, {"w", w}}, workspace);
  enqueue(stream, *info_, *impl_, {dx, w, {}, dy}, dx, workspace);
}

Conv2DBackwardFilter::Conv2DBackwardFilter(const Context& context, const ConvDesc& desc,
                                           const Options& options)
    : Plan(nullptr), desc_(desc) {
  Made made = make_plan("conv2d_backward_filter", ConvDirection::backward_filter, context, desc, options);
  info_ = std::move(made.info);
  impl_ = std::move(made.impl);
}

void Conv2DBackwardFilter::run(const Stream& stream, const Tensor& x, const Tensor& dy, const Tensor& dw,
                               const Tensor& workspace) const {
  require_stream(*info_, stream);
  require_tensor("x", x, stream.context(), desc_.x);
  require_tensor("dy", dy, stream.context(), desc_.y);
  require_tensor("dw", dw, stream.context(), desc_.w);
  check_memory(*info_, {"dw", dw}, {{"x", x}, {"dy", dy}}, workspace);
  enqueue(stream, *info_, *impl_, {x, dw, {}, dy}, dw, workspace);
}

void conv2d(const Stream& stream, const Tensor& x, const Tensor& w, const Tensor& bias,
            const ConvParams& params, const Tensor& y, const Options& options) {
  require_defined({{"x", x}, {"w", w}, {"y", y}});
  const ConvDesc desc{x, w, y, params, bias.defined()};
  cached_plan<Conv2D>(stream, key_of("conv2d", desc), desc, options)->run(stream, x, w, bias, y);
}

void conv2d_backward_data(const Stream& stream, const Tensor& dy, const Tensor& w, const ConvParams& params,
                          const Tensor& dx, const Options& options) {
  require_defined({{"dy", dy}, {"w", w}, {"dx", dx}});
  const ConvDesc desc{dx, w, dy, params, false};
  cached_plan<Conv2DBackwardData>(stream, key_of("conv2d_backward_data", desc), desc, options)
      ->run(stream, dy, w, dx);
}

void conv2d_backward_filter(const Stream& stream, const Tensor& x, const Tensor& dy, const ConvParams& params,
                            const Tensor& dw, const Options& options) {
  require_defined({{"x", x}, {"dy", dy}, {"dw", dw}});
  const ConvDesc desc{x, dw, dy, params, false};
  cached_plan<Conv2DBackwardFilter>(stream, key_of("conv2d_backward_filter", desc), desc, options)
      ->run(stream, x, dy, dw);
}

}  // namespace dlprim
