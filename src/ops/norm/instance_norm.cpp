// Instance normalisation: the engines of group normalisation, and generated kernels for the running
// statistics: their averages over images, and the step towards these.
#include <dlprim/instance_norm.hpp>
#include <dlprim/pointwise.hpp>

#include <algorithm>
#include <cmath>

#include "ops/norm/group_norm_impl.hpp"

namespace dlprim::detail {
template <>
inline constexpr int kFields<InstanceNormParams> = 2;
template <>
inline constexpr int kFields<InstanceNormDesc> = 7;
}  // namespace dlprim::detail

namespace dlprim {

using namespace detail;

struct InstanceNorm::Impl {
  std::shared_ptr<const NormImpl> engine;
  std::optional<Reduce> averages;
  std::optional<Pointwise> update;
  TensorDesc images, channels;  ///< [N, C] and [C]
  size_t mean_at = 0, inv_std_at = 0, variance_at = 0, means_at = 0, variances_at = 0, scratch_at = 0;
  size_t engine_bytes = 0;
};

namespace {

GroupNormDesc as_groups(const InstanceNormDesc& d) {
  const Shape& x = d.x.shape;
  require(x.size() >= 2, "x", "rank ", x.size(), " must be 2 or more, [N, C, ...]");
  int64_t plane = 1;
  for (int i = 2; i < x.size(); i++) plane *= x[i];
  require(plane >= 2 || element_count(x) == 0, "x", "shape ", x, " has ", plane,
          " values a channel of an image, a variance needs at least 2");
  const double momentum = d.params.momentum;
  require(std::isfinite(momentum), "momentum", momentum, " must be finite");
  return {d.x,
          d.y,
          d.weight,
          d.bias,
          std::max<int64_t>(x[1], 1),
          d.params.epsilon,
          d.statistics || d.running,
          d.running};
}

}  // namespace

InstanceNorm::InstanceNorm(const Context& context, const InstanceNormDesc& desc, const Options& options)
    : Plan(nullptr), desc_(desc) {
  const NormProblem p = group_norm_problem(as_groups(desc));
  auto impl = std::make_shared<Impl>();
  const TensorDesc images = impl->images = statistics_desc({desc.x.shape[0], desc.x.shape[1]}, p.real());
  const TensorDesc channels = impl->channels = statistics_desc({desc.x.shape[1]}, p.real());
  const auto image_bytes = desc.running ? static_cast<size_t>(traffic({images})) : 0,
             channel_bytes = desc.running ? static_cast<size_t>(traffic({channels})) : 0;
  WorkspaceParts parts;
  impl->mean_at = parts.add(desc.statistics ? 0 : image_bytes);
  impl->inv_std_at = parts.add(desc.statistics ? 0 : image_bytes);
  impl->variance_at = parts.add(image_bytes);
  impl->means_at = parts.add(channel_bytes), impl->variances_at = parts.add(channel_bytes);

  Options rest = options;
  rest.workspace_limit = parts.rest(options).workspace_limit;
  impl->engine = norm_plan("instance_norm", kGroupNormEngines, context, p, rest,
                           cat(" statistics=", desc.statistics, " running=", desc.running), info_);
  size_t scratch = impl->engine_bytes = impl->engine->workspace_size();
  if (desc.running) {
    const Reduction averages{2, "a0 = 0; a1 = 0", "a0 += x0; a1 += x1", "a0 += b0; a1 += b1",
                             "y0 = a0 * s0; y1 = a1 * s0"};
    impl->averages.emplace(context, std::vector<TensorDesc>{images, images},
                           std::vector<TensorDesc>{channels, channels}, 1, averages, parts.rest(options));
    impl->update.emplace(context, std::vector<TensorDesc>(4, channels), std::vector<TensorDesc>(2, channels),
                         2, "y0 = s0 * x0 + s1 * x2; y1 = s0 * x1 + s1 * x3");
    scratch = std::max(scratch, impl->averages->workspace_size());
  }
  impl->scratch_at = parts.add(scratch);
  PlanInfo info = *info_;
  info.workspace = parts.size();
  const std::string refusal = workspace_refusal(info.workspace, options);
  require(refusal.empty(), "workspace_limit", "instance_norm: ", refusal);
  info_ = std::make_shared<const PlanInfo>(std::move(info));
  impl_ = std::move(impl);
}

namespace {

/// What is written, the workspace too, shares no memory with what is read, but y is x.
void require_written_apart(const NormTensors& t, const Tensor& running_mean, const Tensor& running_var) {
  require_same_or_apart({"y", t.y}, {"x", t.x});
  require_apart({{"y", t.y},
                 {"mean", t.mean},
                 {"inv_std", t.inv_std},
                 {"running_mean", running_mean},
                 {"running_var", running_var},
                 {"workspace", t.workspace}},
                {{"weight", t.weight}, {"bias", t.bias}});
  require_apart({{"mean", t.mean},
                 {"inv_std", t.inv_std},
                 {"running_mean", running_mean},
                 {"running_var", running_var},
                 {"workspace", t.workspace}},
                {{"x", t.x}});
}

}  // namespace

void InstanceNorm::run(const Stream& stream, const Tensor& x, const Tensor& weight, const Tensor& bias,
                       const Tensor& running_mean, const Tensor& running_var, const Tensor& y,
                       const Tensor& mean, const Tensor& inv_std, const Tensor& workspace) const {
  require_stream(*info_, stream);
  const Impl& impl = *impl_;
  const Context& context = stream.context();
  require_tensor("x", x, context, desc_.x);
  require_tensor("y", y, context, desc_.y);
  require_optional("weight", weight, context, desc_.weight);
  require_optional("bias", bias, context, desc_.bias);
  const auto if_there = [](bool there, const TensorDesc& desc) {
    return there ? std::make_optional(desc) : std::nullopt;
  };
  for (const Named& t : {Named{"mean", mean}, Named{"inv_std", inv_std}})
    require_optional(t.name, t.tensor, context, if_there(desc_.statistics, impl.images));
  for (const Named& t : {Named{"running_mean", running_mean}, Named{"running_var", running_var}})
    require_optional(t.name, t.tensor, context, if_there(desc_.running, impl.channels));
  NormTensors t{x, weight, bias, y, mean, inv_std, {}, workspace};
  require_written_apart(t, running_mean, running_var);
  const Tensor space = workspace_for(*info_, stream, workspace);
  if (element_count(impl.images.shape) == 0) return;
  const auto part = [&](size_t at, const TensorDesc& desc) {
    return workspace_part(space, at, desc.shape, desc.dtype);
  };
  if (desc_.running) {
    t.variance = part(impl.variance_at, impl.images);
    if (!desc_.statistics)
      t.mean = part(impl.mean_at, impl.images), t.inv_std = part(impl.inv_std_at, impl.images);
  }
  t.workspace = workspace_part(space, impl.scratch_at, {static_cast<int64_t>(impl.engine_bytes)}, DType::u8);
  const OperatorScope scope(stream, *info_);
  impl.engine->run(stream, t);
  if (!desc_.running) return;
  // A reduction's output is none of its inputs.
  const Tensor means = part(impl.means_at, impl.channels), variances = part(impl.variances_at, impl.channels);
  const double momentum = desc_.params.momentum;
  impl.averages->run(stream, {t.mean, t.variance}, {means, variances},
                     {1 / static_cast<double>(impl.images.shape[0])},
                     workspace_scratch(space, impl.scratch_at, *impl.averages));
  impl.update->run(stream, {running_mean, running_var, means, variances}, {running_mean, running_var},
                   {1 - momentum, momentum});
}

void instance_norm(const Stream& stream, const Tensor& x, const Tensor& weight, const Tensor& bias,
                   const InstanceNormParams& params, const Tensor& running_mean, const Tensor& running_var,
                   const Tensor& y, const Tensor& mean, const Tensor& inv_std, const Options& options,
                   const Tensor& workspace) {
  require_defined({{"x", x}, {"y", y}});
  require(mean.defined() == inv_std.defined(), mean.defined() ? "inv_std" : "mean",
          "is not defined, though the other statistic is");
  require(running_mean.defined() == running_var.defined(),
          running_mean.defined() ? "running_var" : "running_mean",
          "is not defined, though the other running statistic is");
  const InstanceNormDesc desc{
      x, y, described(weight), described(bias), params, running_mean.defined(), mean.defined()};
  cached_plan<InstanceNorm>(stream, "instance_norm", desc, options, workspace)
      ->run(stream, x, weight, bias, running_mean, running_var, y, mean, inv_std, workspace);
}

void instance_norm_backward(const Stream& stream, const Tensor& dy, const Tensor& x, const Tensor& weight,
                            const Tensor& mean, const Tensor& inv_std, const Tensor& dx,
                            const Tensor& dweight, const Tensor& dbias, const Options& options,
                            const Tensor& workspace) {
  require_defined({{"x", x}});
  require(x.rank() >= 2, "x", "rank ", x.rank(), " must be 2 or more, [N, C, ...]");
  group_norm_backward(stream, dy, x, weight, mean, inv_std, std::max<int64_t>(x.shape()[1], 1), dx, dweight,
                      dbias, options, workspace);
}

}  // namespace dlprim
