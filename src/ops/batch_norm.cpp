// Batch normalisation by generated kernels: one reduction to [C], then one pointwise step over the
// activations.
#include <dlprim/batch_norm.hpp>
#include <dlprim/pointwise.hpp>

#include <cmath>

#include "core/composed.hpp"

namespace dlprim {

using namespace detail;

struct BatchNormTraining::Impl {
  Reduce statistics;
  Pointwise normalize, update;
  size_t variance_at = 0, scratch_at = 0;
};

struct BatchNormInference::Impl {
  Pointwise normalize;
};

struct BatchNormBackward::Impl {
  Reduce sums;
  Pointwise finish;
  double share = 0;  ///< 1 / values of a channel
};

namespace {

/// A [C] tensor. It may be a view of a larger one, so nothing is known of its alignment.
TensorDesc channel_desc(const BatchNormDesc& desc) {
  return {{desc.x.shape[1]}, {1}, DType::f32, false};
}

/// The same as [1, C, 1, ...], which broadcasts to the activations.
TensorDesc across_desc(const BatchNormDesc& desc) {
  const int rank = desc.x.shape.size();
  TensorDesc result{Dims::filled(rank, 1), Dims::filled(rank, 1), DType::f32, false};
  result.shape[1] = desc.x.shape[1];
  return result;
}

/// Their tensors as [1, C, 1, ...].
std::vector<Tensor> across(const BatchNormDesc& desc, std::initializer_list<Tensor> channels) {
  const TensorDesc wide = across_desc(desc);
  std::vector<Tensor> views;
  for (const Tensor& t : channels) views.push_back(t.as_strided(wide.shape, wide.strides));
  return views;
}

void check(const char* x, const char* y, const BatchNormDesc& desc) {
  require_floating(x, desc.x, false);
  require_floating(y, desc.y, false);
  require(desc.x.shape.size() >= 2, x, "rank ", desc.x.shape.size(), " must be 2 or more, [N, C, ...]");
  require_shape(y, desc.y, desc.x.shape);
}

void check_epsilon(double epsilon) {
  require(std::isfinite(epsilon) && epsilon >= 0, "epsilon", epsilon, " must be finite and not negative");
}

void check_channels(const Stream& stream, const BatchNormDesc& desc, std::initializer_list<Named> channels) {
  const TensorDesc channel = channel_desc(desc);
  for (const Named& t : channels) require_tensor(t.name, t.tensor, stream.context(), channel);
}

int64_t values_per_channel(const Shape& shape) {
  int64_t count = 1;
  for (int i = 0; i < shape.size(); i++) count *= i == 1 ? 1 : shape[i];
  return count;
}

PlanInfo make_info(const BatchNormDesc& desc, const std::string& params, double bytes, size_t workspace) {
  PlanInfo info;
  info.text = cat("x=", brief(desc.x), " y=", brief(desc.y), params);
  info.flops = 8 * static_cast<double>(element_count(desc.x.shape));
  info.bytes = bytes;
  info.workspace = workspace;
  return info;
}

}  // namespace

BatchNormTraining::BatchNormTraining(const Context& context, const BatchNormDesc& desc,
                                     const Options& options)
    : Plan(nullptr), desc_(desc) {
  check("x", "y", desc);
  require_writable("y", desc.y);
  check_epsilon(desc.params.epsilon);
  const double momentum = desc.params.momentum;
  require(momentum >= 0 && momentum <= 1, "momentum", momentum, " must lie in [0, 1]");
  const int64_t count = values_per_channel(desc.x.shape);
  require(count >= 2 || desc.x.shape[1] == 0, "x", "shape ", desc.x.shape, " has ", count,
          " values a channel, a variance needs at least 2");

  const TensorDesc c = channel_desc(desc), wide = across_desc(desc);
  WorkspaceParts parts;
  const size_t variance_at = parts.add(static_cast<size_t>(desc.x.shape[1]) * sizeof(float));
  auto impl = std::make_shared<Impl>(
      // a1 is the mean, a2 the sum of squared deviations of a0 values; the running variance is the unbiased
      // one.
      Impl{Reduce(context, {desc.x}, {wide, wide, wide}, 1,
                  welford("x0", "y0 = a1; y1 = 1 / sqrt(a2 / a0 + s0); y2 = a2 / (a0 - 1)"),
                  parts.rest(options)),
           Pointwise(context, {desc.x, wide, wide, wide, wide}, {desc.y}, 0,
                     "y0 = (x0 - x1) * (x2 * x3) + x4"),
           Pointwise(context, {c, c, c, c}, {c, c}, 2, "y0 = s0 * x0 + s1 * x2; y1 = s0 * x1 + s1 * x3")});
  impl->variance_at = variance_at;
  impl->scratch_at = parts.add(impl->statistics.workspace_size());
  impl_ = impl;
  info_ = single_engine(
      "batch_norm_training", "generated", "", context, options,
      make_info(desc,
                cat(" epsilon=", desc.params.epsilon, " momentum=", momentum, " running=", desc.running),
                traffic({desc.x, desc.y}), parts.size()));
}

void BatchNormTraining::run(const Stream& stream, const Tensor& x, const Tensor& gamma, const Tensor& beta,
                            const Tensor& running_mean, const Tensor& running_var, const Tensor& y,
                            const Tensor& mean, const Tensor& inv_std, const Tensor& workspace) const {
  require_stream(*info_, stream);
  require_tensor("x", x, stream.context(), desc_.x);
  require_tensor("y", y, stream.context(), desc_.y);
  check_channels(stream, desc_, {{"gamma", gamma}, {"beta", beta}, {"mean", mean}, {"inv_std", inv_std}});
  if (desc_.running)
    check_channels(stream, desc_, {{"running_mean", running_mean}, {"running_var", running_var}});
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
                {{"gamma", gamma}, {"beta", beta}});
  require_apart({{"mean", mean},
                 {"inv_std", inv_std},
                 {"running_mean", running_mean},
                 {"running_var", running_var},
                 {"workspace", workspace}},
                {{"x", x}});
  if (y.numel() == 0) return;  // no channels: with some, a plan exists only for two values each

  const Tensor space = workspace_for(*info_, stream, workspace);
  const Tensor variance = workspace_part(space, impl_->variance_at, mean.shape());
  const Tensor scratch = workspace_scratch(space, impl_->scratch_at, impl_->statistics);
  const std::vector<Tensor> wide = across(desc_, {mean, inv_std, variance, gamma, beta});

  const OperatorScope scope(stream, *info_);
  impl_->statistics.run(stream, {x}, {wide[0], wide[1], wide[2]}, {desc_.params.epsilon}, scratch);
  impl_->normalize.run(stream, {x, wide[0], wide[1], wide[3], wide[4]}, {y}, {});
  const double momentum = desc_.params.momentum;
  if (desc_.running)
    impl_->update.run(stream, {running_mean, running_var, mean, variance}, {running_mean, running_var},
                      {1 - momentum, momentum});
}

BatchNormInference::BatchNormInference(const Context& context, const BatchNormDesc& desc,
                                       const Options& options)
    : Plan(nullptr), desc_(desc) {
  check("x", "y", desc);
  require_writable("y", desc.y);
  check_epsilon(desc.params.epsilon);
  const TensorDesc wide = across_desc(desc);
  impl_ = std::make_shared<const Impl>(Impl{Pointwise(context, {desc.x, wide, wide, wide, wide}, {desc.y}, 1,
                                                      "y0 = (x0 - x1) * (x3 / sqrt(x2 + s0)) + x4")});
  info_ = single_engine("batch_norm_inference", "generated", "", context, options,
                        make_info(desc, cat(" epsilon=", desc.params.epsilon), traffic({desc.x, desc.y}), 0));
}

void BatchNormInference::run(const Stream& stream, const Tensor& x, const Tensor& gamma, const Tensor& beta,
                             const Tensor& running_mean, const Tensor& running_var, const Tensor& y) const {
  require_stream(*info_, stream);
  require_tensor("x", x, stream.context(), desc_.x);
  require_tensor("y", y, stream.context(), desc_.y);
  check_channels(stream, desc_, {{"gamma", gamma}, {"beta", beta}});
  check_channels(stream, desc_, {{"running_mean", running_mean}, {"running_var", running_var}});
  require_same_or_apart({"y", y}, {"x", x});
  require_apart({{"y", y}}, {{"gamma", gamma}, {"beta", beta}});
  require_apart({{"y", y}}, {{"running_mean", running_mean}, {"running_var", running_var}});
  if (y.numel() == 0) return;
  const std::vector<Tensor> wide = across(desc_, {running_mean, running_var, gamma, beta});
  const OperatorScope scope(stream, *info_);
  impl_->normalize.run(stream, {x, wide[0], wide[1], wide[2], wide[3]}, {y}, {desc_.params.epsilon});
}

BatchNormBackward::BatchNormBackward(const Context& context, const BatchNormDesc& desc,
                                     const Options& options)
    : Plan(nullptr), desc_(desc) {
  check("x", "dy", desc);
  require_floating("dx", desc.dx, false);
  require_shape("dx", desc.dx, desc.x.shape);
  require_writable("dx", desc.dx);
  const TensorDesc wide = across_desc(desc);
  Reduction sums;  // of dy, and of dy times the normalised x
  sums.accumulators = 2;
  sums.init = "a0 = 0; a1 = 0";
  sums.accumulate = "a0 += x0; a1 += x0 * ((x1 - x2) * x3)";
  sums.combine = "a0 += b0; a1 += b1";
  sums.finish = "y0 = a0; y1 = a1";
  auto impl = std::make_shared<Impl>(Impl{
      Reduce(context, {desc.y, desc.x, wide, wide}, {wide, wide}, 0, sums, WorkspaceParts().rest(options)),
      Pointwise(context, {desc.y, desc.x, wide, wide, wide, wide, wide}, {desc.dx}, 1,
                "y0 = (x0 - s0 * (x5 + (x1 - x2) * x3 * x6)) * (x4 * x3)")});
  const int64_t count = values_per_channel(desc.x.shape);
  impl->share = count > 0 ? 1.0 / static_cast<double>(count) : 0.0;
  const size_t workspace = impl->sums.workspace_size();
  impl_ = impl;
  info_ = single_engine("batch_norm_backward", "generated", "", context, options,
                        make_info(desc, "", traffic({desc.x, desc.y, desc.dx}), workspace));
}

void BatchNormBackward::run(const Stream& stream, const Tensor& dy, const Tensor& x, const Tensor& gamma,
                            const Tensor& mean, const Tensor& inv_std, const Tensor& dx, const Tensor& dgamma,
                            const Tensor& dbeta, const Tensor& workspace) const {
  require_stream(*info_, stream);
  require_tensor("dy", dy, stream.context(), desc_.y);
  require_tensor("x", x, stream.context(), desc_.x);
  require_tensor("dx", dx, stream.context(), desc_.dx);
  check_channels(stream, desc_, {{"gamma", gamma}, {"mean", mean}, {"inv_std", inv_std}});
  check_channels(stream, desc_, {{"dgamma", dgamma}, {"dbeta", dbeta}});
  require_same_or_apart({"dx", dx}, {"dy", dy});
  require_apart({{"dx", dx}, {"dgamma", dgamma}, {"dbeta", dbeta}, {"workspace", workspace}},
                {{"x", x}, {"gamma", gamma}, {"mean", mean}, {"inv_std", inv_std}});
  require_apart({{"dgamma", dgamma}, {"dbeta", dbeta}, {"workspace", workspace}}, {{"dy", dy}});

  const Tensor space = workspace_for(*info_, stream, workspace);
  const std::vector<Tensor> wide = across(desc_, {mean, inv_std, gamma, dbeta, dgamma});
  const OperatorScope scope(stream, *info_);
  impl_->sums.run(stream, {dy, x, wide[0], wide[1]}, {wide[3], wide[4]}, {}, space);
  impl_->finish.run(stream, {dy, x, wide[0], wide[1], wide[2], wide[3], wide[4]}, {dx}, {impl_->share});
}

void batch_norm_training(const Stream& stream, const Tensor& x, const Tensor& gamma, const Tensor& beta,
                         const BatchNormParams& params, const Tensor& running_mean, const Tensor& running_var,
                         const Tensor& y, const Tensor& mean, const Tensor& inv_std) {
  require_defined({{"x", x}, {"y", y}});
  require(running_mean.defined() == running_var.defined(),
          running_mean.defined() ? "running_var" : "running_mean",
          "is not defined, though the other running statistic is");
  const BatchNormDesc desc{x, y, {}, params, running_mean.defined()};
  const PlanKey key = PlanKey("batch_norm_training")
                          .add(desc.x)
                          .add(desc.y)
                          .add(params.epsilon)
                          .add(params.momentum)
                          .add(desc.running);
  cached_plan<BatchNormTraining>(stream, key, desc)
      ->run(stream, x, gamma, beta, running_mean, running_var, y, mean, inv_std);
}

void batch_norm_inference(const Stream& stream, const Tensor& x, const Tensor& gamma, const Tensor& beta,
                          const Tensor& running_mean, const Tensor& running_var, double epsilon,
                          const Tensor& y) {
  require_defined({{"x", x}, {"y", y}});
  BatchNormDesc desc{x, y, {}, {}, true};
  desc.params.epsilon = epsilon;
  cached_plan<BatchNormInference>(stream,
                                  PlanKey("batch_norm_inference").add(desc.x).add(desc.y).add(epsilon), desc)
      ->run(stream, x, gamma, beta, running_mean, running_var, y);
}

void batch_norm_backward(const Stream& stream, const Tensor& dy, const Tensor& x, const Tensor& gamma,
                         const Tensor& mean, const Tensor& inv_std, const Tensor& dx, const Tensor& dgamma,
                         const Tensor& dbeta) {
  require_defined({{"dy", dy}, {"x", x}, {"dx", dx}});
  const BatchNormDesc desc{x, dy, dx, {}, false};
  cached_plan<BatchNormBackward>(stream, PlanKey("batch_norm_backward").add(desc.x).add(desc.y).add(desc.dx),
                                 desc)
      ->run(stream, dy, x, gamma, mean, inv_std, dx, dgamma, dbeta);
}

}  // namespace dlprim
