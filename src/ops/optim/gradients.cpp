// Norms, clipping and scaling of many gradients, by multi_tensor.cl and gradients.cl.
#include <dlprim/gradients.hpp>
#include <dlprim/pointwise.hpp>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>

#include "core/composed.hpp"
#include "ops/optim/norm_form.hpp"

namespace dlprim {

using namespace detail;

namespace detail {

template <>
inline constexpr int kFields<GradientNormDesc> = 4;
template <>
inline constexpr int kFields<GradientsDesc> = 1;
template <>
inline constexpr int kFields<LossScaling> = 3;

struct GradientsImpl {
  std::optional<MultiTensor> kernel;  ///< over dw alone
  Kernel finish;                      ///< of gradients.cl
  std::optional<Pointwise> clear;     ///< found_inf
  size_t scratch_at = 0;
};

}  // namespace detail

namespace {

std::shared_ptr<const PlanInfo> info_of(const char* op, const std::string& text, const Context& context,
                                        const Options& options, double bytes = 0, size_t workspace = 0) {
  PlanInfo info;
  info.text = text;
  info.bytes = bytes;
  info.workspace = workspace;
  return single_engine(op, "multi_tensor", "", context, options, std::move(info));
}

std::string text_of(DType dw) {
  return cat("dw=", name_of(dw));
}

/// The operator's line in the log.
OperatorScope scope_of(const Stream& stream, const PlanInfo& info, const std::vector<Tensor>& dw) {
  double bytes = 0;
  for (const Tensor& x : dw) bytes += 2 * static_cast<double>(x.bytes());
  return OperatorScope(stream, info.text, 0, bytes);
}

std::shared_ptr<GradientsImpl> kernel_over(const Context& context, DType dw, MultiTensorForm form) {
  form.lists = {{"dw", dw, "x0", "x0"}};
  auto impl = std::make_shared<GradientsImpl>();
  impl->kernel.emplace(context, form);
  return impl;
}

MultiTensorForm scale_form() {
  MultiTensorForm form;
  form.body = "x0 *= multiplier;";
  return form;
}

void require_given(const char* name, const Tensor& number, const Context& context) {
  require_defined({{name, number}});
  require_device_number(name, number, context);
}

DType dtype_of(const std::vector<Tensor>& dw) {
  return dw.empty() ? DType::f32 : dw[0].dtype();
}

GradientNormDesc describe(const std::vector<Tensor>& dw, NormOrder order) {
  return {dtype_of(dw), order, static_cast<int64_t>(dw.size()), elements_of(dw)};
}

}  // namespace

GradientNorm::GradientNorm(const Context& context, const GradientNormDesc& desc, const Options& options)
    : Plan(nullptr), desc_(desc) {
  require_norm(desc.order, desc.tensors, desc.elements);
  auto impl = std::make_shared<GradientsImpl>();
  impl->kernel.emplace(context, norm_form("dw", desc.dw, desc.order));
  const DType real = impl->kernel->real();
  impl->finish =
      context.state().programs.kernel("gradients", "finish_norm", norm_defines(context, real, desc.order));
  const auto groups = static_cast<size_t>(impl->kernel->most_groups(desc.tensors, desc.elements));
  info_ = info_of("gradient_norm", cat(text_of(desc.dw), " order=", name_of(desc.order)), context, options,
                  static_cast<double>(desc.elements) * static_cast<double>(size_of(desc.dw)),
                  desc.elements > 0 ? groups * size_of(real) : 0);
  impl_ = std::move(impl);
}

void GradientNorm::run(const Stream& stream, const std::vector<Tensor>& dw, double max_norm,
                       const Tensor& norm, const Tensor& factor, const Tensor& workspace) const {
  const Context& context = stream.context();
  require_stream(*info_, stream);
  require(max_norm >= 0, "max_norm", max_norm, " must not be negative");
  require_given("norm", norm, context);
  require_device_number("factor", factor, context);
  require_apart({{"norm", norm}, {"factor", factor}}, {});
  DeviceNumbers numbers;
  const TensorPlaces places = impl_->kernel->check(
      stream, {&dw}, numbers, {{"norm", norm}, {"factor", factor}, {"workspace", workspace}});
  require(static_cast<int64_t>(dw.size()) <= desc_.tensors && elements_of(dw) <= desc_.elements, "dw",
          dw.size(), " tensors of ", elements_of(dw), " elements, the plan is for ", desc_.tensors, " of ",
          desc_.elements);
  const Tensor space = workspace_for(*info_, stream, workspace);
  numbers.parts = workspace_part(space, 0, {places.groups}, impl_->kernel->real());
  const OperatorScope scope(stream, *info_);
  if (places.groups > 0) impl_->kernel->run(stream, {&dw}, places, {}, numbers);
  Launch launch(stream, impl_->finish);
  launch.arg(numbers.parts).arg(to_int("groups", places.groups)).arg(norm).arg(factor);
  launch.arg(static_cast<int>(factor.defined())).arg(static_cast<float>(max_norm));
  launch.run({norm_group(context)}, {norm_group(context)});
}

namespace {

/// The factor, and behind it the norm's workspace.
WorkspaceParts factor_part() {
  WorkspaceParts parts;
  parts.add(sizeof(float));
  return parts;
}

}  // namespace

ClipGradientsByNorm::ClipGradientsByNorm(const Context& context, const GradientNormDesc& desc,
                                         const Options& options)
    : Plan(nullptr), norm_(context, desc, factor_part().rest(options)) {
  auto impl = kernel_over(context, desc.dw, scale_form());
  WorkspaceParts parts = factor_part();
  impl->scratch_at = parts.add(norm_.workspace_size());
  info_ =
      info_of("clip_gradients_by_norm", text_of(desc.dw), context, options,
              3 * static_cast<double>(desc.elements) * static_cast<double>(size_of(desc.dw)), parts.size());
  impl_ = std::move(impl);
}

void ClipGradientsByNorm::run(const Stream& stream, double max_norm, const std::vector<Tensor>& dw,
                              const Tensor& norm, const Tensor& workspace) const {
  require_stream(*info_, stream);
  require_given("norm", norm, stream.context());
  const TensorPlaces places =
      impl_->kernel->check(stream, {&dw}, {}, {{"norm", norm}, {"workspace", workspace}});
  const Tensor space = workspace_for(*info_, stream, workspace);
  DeviceNumbers numbers;
  numbers.factor = workspace_part(space, 0, {1});
  const OperatorScope scope(stream, *info_);
  norm_.run(stream, dw, max_norm, norm, numbers.factor, workspace_scratch(space, impl_->scratch_at, norm_));
  impl_->kernel->run(stream, {&dw}, places, {}, numbers);
}

ScaleGradients::ScaleGradients(const Context& context, const GradientsDesc& desc, const Options& options)
    : Plan(info_of("scale_gradients", text_of(desc.dw), context, options)),
      impl_(kernel_over(context, desc.dw, scale_form())) {}

void ScaleGradients::run(const Stream& stream, const Tensor& factor, const Tensor& scale,
                         const std::vector<Tensor>& dw, const Tensor& workspace) const {
  require_stream(*info_, stream);
  DeviceNumbers numbers;
  numbers.factor = factor;
  numbers.scale = scale;
  const TensorPlaces places = impl_->kernel->check(stream, {&dw}, numbers, {{"workspace", workspace}});
  workspace_for(*info_, stream, workspace);
  const OperatorScope scope = scope_of(stream, *info_, dw);
  impl_->kernel->run(stream, {&dw}, places, {}, numbers);
}

ClipGradientsByValue::ClipGradientsByValue(const Context& context, const GradientsDesc& desc,
                                           const Options& options)
    : Plan(info_of("clip_gradients_by_value", text_of(desc.dw), context, options)) {
  MultiTensorForm form;
  form.scalars = 1;
  form.body = "x0 = x0 > s0 ? s0 : x0 < -s0 ? -s0 : x0;";
  impl_ = kernel_over(context, desc.dw, form);
}

void ClipGradientsByValue::run(const Stream& stream, double limit, const std::vector<Tensor>& dw,
                               const Tensor& workspace) const {
  require_stream(*info_, stream);
  require(limit >= 0, "limit", limit, " must not be negative");
  const TensorPlaces places = impl_->kernel->check(stream, {&dw}, {}, {{"workspace", workspace}});
  workspace_for(*info_, stream, workspace);
  const OperatorScope scope = scope_of(stream, *info_, dw);
  impl_->kernel->run(stream, {&dw}, places, {{limit}, {}}, {});
}

UnscaleGradients::UnscaleGradients(const Context& context, const GradientsDesc& desc, const Options& options)
    : Plan(info_of("unscale_gradients", text_of(desc.dw), context, options)) {
  MultiTensorForm form;
  form.body = "bad |= x0 - x0 != 0; x0 *= multiplier;";
  form.finish = "if (bad) *flag = 1;";
  auto impl = kernel_over(context, desc.dw, form);
  TensorDesc number({1});
  number.aligned = false;
  impl->clear.emplace(context, std::vector<TensorDesc>{}, std::vector<TensorDesc>{number}, 0, "y0 = 0");
  impl_ = std::move(impl);
}

void UnscaleGradients::run(const Stream& stream, const Tensor& scale, const std::vector<Tensor>& dw,
                           const Tensor& found_inf, const Tensor& workspace) const {
  require_stream(*info_, stream);
  require_given("scale", scale, stream.context());
  require_given("found_inf", found_inf, stream.context());
  require_apart({{"found_inf", found_inf}}, {{"scale", scale}});
  DeviceNumbers numbers;
  numbers.scale = scale;
  numbers.flag = found_inf;
  numbers.skips = false;
  const TensorPlaces places = impl_->kernel->check(stream, {&dw}, numbers, {{"workspace", workspace}});
  workspace_for(*info_, stream, workspace);
  const OperatorScope scope = scope_of(stream, *info_, dw);
  impl_->clear->run(stream, {}, {found_inf.as_strided({1}, {1})}, {});
  impl_->kernel->run(stream, {&dw}, places, {}, numbers);
}

UpdateLossScale::UpdateLossScale(const Context& context, const LossScaling& desc, const Options& options)
    : Plan(nullptr), desc_(desc) {
  for (const auto& [name, value] : {std::pair("growth", desc.growth), std::pair("backoff", desc.backoff)})
    require(std::isfinite(value) && value > 0, name, value, " must be finite and positive");
  require(desc.interval >= 1, "interval", desc.interval, " must be 1 or more");
  PlanInfo info;
  info.text = cat("growth=", desc.growth, " backoff=", desc.backoff, " interval=", desc.interval);
  info_ = single_engine("update_loss_scale", "direct", "", context, options, std::move(info));
  auto impl = std::make_shared<GradientsImpl>();
  impl->finish = context.state().programs.kernel("gradients", "update_scale", Defines());
  impl_ = std::move(impl);
}

void UpdateLossScale::run(const Stream& stream, const Tensor& found_inf, const Tensor& scale,
                          const Tensor& good_steps, const Tensor& workspace) const {
  const Context& context = stream.context();
  require_stream(*info_, stream);
  require_given("scale", scale, context);
  require_given("found_inf", found_inf, context);
  require_context("good_steps", good_steps, context);
  require_dtype("good_steps", good_steps, DType::i32);
  require(good_steps.numel() == 1, "good_steps", "has ", good_steps.numel(), " elements, must have one");
  require_apart({{"scale", scale}, {"good_steps", good_steps}}, {{"found_inf", found_inf}});
  require_unused(*info_, stream, workspace,
                 {{"found_inf", found_inf}, {"scale", scale}, {"good_steps", good_steps}});
  const OperatorScope scope(stream, *info_);
  Launch launch(stream, impl_->finish);
  launch.arg(scale).arg(good_steps).arg(found_inf).arg(static_cast<float>(desc_.growth));
  launch.arg(static_cast<float>(desc_.backoff)).arg(desc_.interval);
  launch.run({1}, {1});
}

void gradient_norm(const Stream& stream, const std::vector<Tensor>& dw, const GradientNormParams& params,
                   const Tensor& norm, const Tensor& factor, const Options& options,
                   const Tensor& workspace) {
  const GradientNormDesc desc = describe(dw, params.order);
  cached_plan<GradientNorm>(stream, "gradient_norm", desc, options, workspace)
      ->run(stream, dw, params.max_norm, norm, factor, workspace);
}

void clip_gradients_by_norm(const Stream& stream, const GradientNormParams& params,
                            const std::vector<Tensor>& dw, const Tensor& norm, const Options& options,
                            const Tensor& workspace) {
  const GradientNormDesc desc = describe(dw, params.order);
  cached_plan<ClipGradientsByNorm>(stream, "clip_gradients_by_norm", desc, options, workspace)
      ->run(stream, params.max_norm, dw, norm, workspace);
}

void scale_gradients(const Stream& stream, const Tensor& factor, const Tensor& scale,
                     const std::vector<Tensor>& dw, const Options& options, const Tensor& workspace) {
  const GradientsDesc desc{dtype_of(dw)};
  cached_plan<ScaleGradients>(stream, "scale_gradients", desc, options, workspace)
      ->run(stream, factor, scale, dw, workspace);
}

void clip_gradients_by_value(const Stream& stream, double limit, const std::vector<Tensor>& dw,
                             const Options& options, const Tensor& workspace) {
  const GradientsDesc desc{dtype_of(dw)};
  cached_plan<ClipGradientsByValue>(stream, "clip_gradients_by_value", desc, options, workspace)
      ->run(stream, limit, dw, workspace);
}

void unscale_gradients(const Stream& stream, const Tensor& scale, const std::vector<Tensor>& dw,
                       const Tensor& found_inf, const Options& options, const Tensor& workspace) {
  const GradientsDesc desc{dtype_of(dw)};
  cached_plan<UnscaleGradients>(stream, "unscale_gradients", desc, options, workspace)
      ->run(stream, scale, dw, found_inf, workspace);
}

void update_loss_scale(const Stream& stream, const Tensor& found_inf, const LossScaling& scaling,
                       const Tensor& scale, const Tensor& good_steps, const Options& options,
                       const Tensor& workspace) {
  cached_plan<UpdateLossScale>(stream, "update_loss_scale", scaling, options, workspace)
      ->run(stream, found_inf, scale, good_steps, workspace);
}

}  // namespace dlprim
