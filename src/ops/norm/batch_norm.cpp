// Batch normalisation forwards by generated kernels: one reduction to [C], then one pointwise step over the
// activations.
#include <dlprim/batch_norm.hpp>
#include <dlprim/pointwise.hpp>

#include <cmath>

#include "ops/norm/batch_norm_parts.hpp"
#include "ops/norm/norm_parts.hpp"

namespace dlprim::detail {
template <>
inline constexpr int kFields<BatchNormParams> = 3;
template <>
inline constexpr int kFields<BatchNormDesc> = 8;
}  // namespace dlprim::detail

namespace dlprim {

using namespace detail;

struct BatchNormTraining::Impl {
  Reduce statistics;
  Pointwise normalize, update;
  TensorDesc channel;
  size_t variance_at = 0, scratch_at = 0;
};

struct BatchNormInference::Impl {
  Pointwise normalize;
  TensorDesc channel;
};

namespace {

void check_forward(const BatchNormDesc& d) {
  check_activations("x", d.x, "y", d.y, d.params.activation);
  require_writable("y", d.y);
  require_affine("residual", d.residual, d.x.shape);
  require_epsilon(d.params.epsilon);
}

/// weight, bias and residual: as described, and y shares memory with none but as the residual itself.
void check_affine(const Stream& stream, const BatchNormDesc& d, const TensorDesc& channel,
                  const Tensor& weight, const Tensor& bias, const Tensor& residual, const Tensor& y) {
  require_optional("weight", weight, stream.context(), if_wanted(d.weight, channel));
  require_optional("bias", bias, stream.context(), if_wanted(d.bias, channel));
  require_optional("residual", residual, stream.context(), d.residual);
  require_same_or_apart({"y", y}, {"residual", residual});
}

/// f((x0 - x1) * factor + bias + residual) for the inputs that the description has.
std::string normalized(const BatchNormDesc& d, const TensorDesc& wide, NamedInputs& in,
                       const std::string& inv_std) {
  std::string text = "(x0 - x1) * ";
  text += d.weight ? cat("(", inv_std, " * ", in.add(wide), ")") : inv_std;
  if (d.bias) text += " + " + in.add(wide);
  if (d.residual) text += " + " + in.add(*d.residual);
  return d.params.activation == Activation::identity ? text
                                                     : cat(name_of(d.params.activation), "(", text, ")");
}

void add_affine(std::vector<Tensor>& inputs, const TensorDesc& x, const Tensor& weight, const Tensor& bias,
                const Tensor& residual) {
  if (weight.defined()) inputs.push_back(across(x, weight));
  if (bias.defined()) inputs.push_back(across(x, bias));
  if (residual.defined()) inputs.push_back(residual);
}

}  // namespace

BatchNormTraining::BatchNormTraining(const Context& context, const BatchNormDesc& desc,
                                     const Options& options)
    : Plan(nullptr), desc_(desc) {
  check_forward(desc);
  const double momentum = desc.params.momentum;
  require(std::isfinite(momentum), "momentum", momentum, " must be finite");
  const int64_t count = values_per_channel(desc.x.shape);
  require(count >= 2 || desc.x.shape[1] == 0, "x", "shape ", desc.x.shape, " has ", count,
          " values a channel, a variance needs at least 2");

  const TensorDesc c = channel_desc(desc.x, desc.y, desc.aligned), wide = across_desc(desc.x, c);
  WorkspaceParts parts;
  const size_t variance_at = parts.add(static_cast<size_t>(traffic({c})));
  NamedInputs in;
  in.add(desc.x), in.add(wide);
  const std::string inv_std = in.add(wide), body = "y0 = " + normalized(desc, wide, in, inv_std);
  // The running variance is the unbiased one.
  auto impl = std::make_shared<Impl>(Impl{
      Reduce(context, {desc.x}, {wide, wide, wide}, 1,
             moments_of("x0", "y0 = mean; y1 = 1 / sqrt(squares / count + s0); y2 = squares / (count - 1)"),
             parts.rest(options)),
      Pointwise(context, in.descs, {desc.y}, 0, body),
      Pointwise(context, {c, c, c, c}, {c, c}, 2, "y0 = s0 * x0 + s1 * x2; y1 = s0 * x1 + s1 * x3"), c});
  impl->variance_at = variance_at;
  impl->scratch_at = parts.add(impl->statistics.workspace_size());
  impl_ = impl;
  PlanInfo info = batch_norm_info(
      desc.x, desc.y, desc.residual, desc.params.activation,
      cat(" epsilon=", desc.params.epsilon, " momentum=", momentum, " running=", desc.running));
  info.workspace = parts.size();
  info_ = single_engine("batch_norm_training", "generated", "", context, options, std::move(info));
}

void BatchNormTraining::run(const Stream& stream, const Tensor& x, const Tensor& weight, const Tensor& bias,
                            const Tensor& residual, const Tensor& running_mean, const Tensor& running_var,
                            const Tensor& y, const Tensor& mean, const Tensor& inv_std,
                            const Tensor& workspace) const {
  require_stream(*info_, stream);
  require_tensor("x", x, stream.context(), desc_.x);
  require_tensor("y", y, stream.context(), desc_.y);
  check_affine(stream, desc_, impl_->channel, weight, bias, residual, y);
  check_channels(stream, impl_->channel, {{"mean", mean}, {"inv_std", inv_std}});
  if (desc_.running)
    check_channels(stream, impl_->channel, {{"running_mean", running_mean}, {"running_var", running_var}});
  else
    require(!running_mean.defined() && !running_var.defined(), "running_mean",
            "is given to a plan without it");
  require_same_or_apart({"y", y}, {"x", x});
  require_apart({{"y", y},
                 {"mean", mean},
                 {"inv_std", inv_std},
                 {"running_mean", running_mean},
                 {"running_var", running_var},
                 {"workspace", workspace}},
                {{"weight", weight}, {"bias", bias}});
  require_apart({{"mean", mean},
                 {"inv_std", inv_std},
                 {"running_mean", running_mean},
                 {"running_var", running_var},
                 {"workspace", workspace}},
                {{"x", x}, {"residual", residual}});
  if (y.numel() == 0) return;  // no channels: with some, a plan exists only for two values each

  const Tensor space = workspace_for(*info_, stream, workspace);
  const Tensor variance = workspace_part(space, impl_->variance_at, mean.shape(), impl_->channel.dtype);
  const Tensor scratch = workspace_scratch(space, impl_->scratch_at, impl_->statistics);
  const Tensor wide_mean = across(desc_.x, mean), wide_inv = across(desc_.x, inv_std);
  std::vector<Tensor> inputs = {x, wide_mean, wide_inv};
  add_affine(inputs, desc_.x, weight, bias, residual);

  const OperatorScope scope(stream, *info_);
  impl_->statistics.run(stream, {x}, {wide_mean, wide_inv, across(desc_.x, variance)}, {desc_.params.epsilon},
                        scratch);
  impl_->normalize.run(stream, inputs, {y}, {});
  const double momentum = desc_.params.momentum;
  if (desc_.running)
    impl_->update.run(stream, {running_mean, running_var, mean, variance}, {running_mean, running_var},
                      {1 - momentum, momentum});
}

BatchNormInference::BatchNormInference(const Context& context, const BatchNormDesc& desc,
                                       const Options& options)
    : Plan(nullptr), desc_(desc) {
  check_forward(desc);
  const TensorDesc c = channel_desc(desc.x, desc.y, desc.aligned), wide = across_desc(desc.x, c);
  NamedInputs in;
  in.add(desc.x), in.add(wide);
  const std::string inv_std = cat("(1 / sqrt(", in.add(wide), " + s0))");
  const std::string body = "y0 = " + normalized(desc, wide, in, inv_std);
  impl_ = std::make_shared<const Impl>(Impl{Pointwise(context, in.descs, {desc.y}, 1, body), c});
  info_ = single_engine("batch_norm_inference", "generated", "", context, options,
                        batch_norm_info(desc.x, desc.y, desc.residual, desc.params.activation,
                                        cat(" epsilon=", desc.params.epsilon)));
}

void BatchNormInference::run(const Stream& stream, const Tensor& x, const Tensor& weight, const Tensor& bias,
                             const Tensor& residual, const Tensor& running_mean, const Tensor& running_var,
                             const Tensor& y, const Tensor& workspace) const {
  require_stream(*info_, stream);
  require_tensor("x", x, stream.context(), desc_.x);
  require_tensor("y", y, stream.context(), desc_.y);
  check_affine(stream, desc_, impl_->channel, weight, bias, residual, y);
  check_channels(stream, impl_->channel, {{"running_mean", running_mean}, {"running_var", running_var}});
  require_same_or_apart({"y", y}, {"x", x});
  require_apart({{"y", y}}, {{"weight", weight}, {"bias", bias}});
  require_apart({{"y", y}}, {{"running_mean", running_mean}, {"running_var", running_var}});
  require_unused(*info_, stream, workspace,
                 {{"x", x},
                  {"weight", weight},
                  {"bias", bias},
                  {"residual", residual},
                  {"running_mean", running_mean},
                  {"running_var", running_var},
                  {"y", y}});
  if (y.numel() == 0) return;
  std::vector<Tensor> inputs = {x, across(desc_.x, running_mean), across(desc_.x, running_var)};
  add_affine(inputs, desc_.x, weight, bias, residual);
  const OperatorScope scope(stream, *info_);
  impl_->normalize.run(stream, inputs, {y}, {desc_.params.epsilon});
}

void batch_norm_training(const Stream& stream, const Tensor& x, const Tensor& weight, const Tensor& bias,
                         const Tensor& residual, const BatchNormParams& params, const Tensor& running_mean,
                         const Tensor& running_var, const Tensor& y, const Tensor& mean,
                         const Tensor& inv_std, const Options& options, const Tensor& workspace) {
  require_defined({{"x", x}, {"y", y}});
  require(running_mean.defined() == running_var.defined(),
          running_mean.defined() ? "running_var" : "running_mean",
          "is not defined, though the other running statistic is");
  BatchNormDesc desc{
      x, y, params, running_mean.defined(), weight.defined(), bias.defined(), described(residual)};
  desc.aligned = all_aligned({&weight, &bias, &running_mean, &running_var, &mean, &inv_std});
  cached_plan<BatchNormTraining>(stream, "batch_norm_training", desc, options, workspace)
      ->run(stream, x, weight, bias, residual, running_mean, running_var, y, mean, inv_std, workspace);
}

void batch_norm_inference(const Stream& stream, const Tensor& x, const Tensor& weight, const Tensor& bias,
                          const Tensor& residual, const Tensor& running_mean, const Tensor& running_var,
                          const BatchNormParams& params, const Tensor& y, const Options& options,
                          const Tensor& workspace) {
  require_defined({{"x", x}, {"y", y}});
  BatchNormDesc desc{x, y, params, true, weight.defined(), bias.defined(), described(residual)};
  desc.aligned = all_aligned({&weight, &bias, &running_mean, &running_var});
  cached_plan<BatchNormInference>(stream, "batch_norm_inference", desc, options, workspace)
      ->run(stream, x, weight, bias, residual, running_mean, running_var, y, workspace);
}

}  // namespace dlprim
