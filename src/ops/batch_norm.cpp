// Batch normalisation by generated kernels: one reduction to [C], then one pointwise step over the
// activations.
#include <dlprim/batch_norm.hpp>
#include <dlprim/pointwise.hpp>

#include <algorithm>

#include "ops/activation_impl.hpp"
#include "ops/norm_parts.hpp"

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

struct BatchNormBackward::Impl {
  std::optional<Reduce> sums;
  std::optional<Pointwise> finish;
  TensorDesc channel;
  size_t dgamma_at = 0, dbeta_at = 0, scratch_at = 0;
  double share = 0;  ///< 1 / values of a channel
};

namespace {

/// A [C] tensor. It may be a view of a larger one, so nothing is known of its alignment.
TensorDesc channel_desc(const TensorDesc& x, const TensorDesc& y, bool aligned) {
  const bool wide = x.dtype == DType::f64 || y.dtype == DType::f64;
  return {{x.shape[1]}, {1}, wide ? DType::f64 : DType::f32, aligned};
}

/// The same as [1, C, 1, ...], which broadcasts to the activations.
TensorDesc across_desc(const TensorDesc& x, const TensorDesc& channel) {
  const int rank = x.shape.size();
  TensorDesc result{Dims::filled(rank, 1), Dims::filled(rank, 1), channel.dtype, channel.aligned};
  result.shape[1] = x.shape[1];
  return result;
}

/// A channel's tensor as [1, C, 1, ...].
Tensor across(const TensorDesc& x, const Tensor& channel) {
  const TensorDesc wide = across_desc(x, TensorDesc(channel));
  return channel.as_strided(wide.shape, wide.strides);
}

void check(const char* x_name, const TensorDesc& x, const char* y_name, const TensorDesc& y, Activation f) {
  require_floating(x_name, x, true);
  require_floating(y_name, y, true);
  require(x.shape.size() >= 2, x_name, "rank ", x.shape.size(), " must be 2 or more, [N, C, ...]");
  require_shape(y_name, y, x.shape);
  require_activation("activation", f);
}

void check_forward(const BatchNormDesc& d) {
  check("x", d.x, "y", d.y, d.params.activation);
  require_writable("y", d.y);
  require_affine("residual", d.residual, d.x.shape);
  require_epsilon(d.params.epsilon);
}

void check_channels(const Stream& stream, const TensorDesc& channel, std::initializer_list<Named> channels) {
  for (const Named& t : channels) require_tensor(t.name, t.tensor, stream.context(), channel);
}

std::optional<TensorDesc> if_wanted(bool wanted, const TensorDesc& desc) {
  return wanted ? std::make_optional(desc) : std::nullopt;
}

/// gamma, beta and residual: as described, and y shares memory with none but as the residual itself.
void check_affine(const Stream& stream, const BatchNormDesc& d, const TensorDesc& channel,
                  const Tensor& gamma, const Tensor& beta, const Tensor& residual, const Tensor& y) {
  require_optional("gamma", gamma, stream.context(), if_wanted(d.gamma, channel));
  require_optional("beta", beta, stream.context(), if_wanted(d.beta, channel));
  require_optional("residual", residual, stream.context(), d.residual);
  require_same_or_apart({"y", y}, {"residual", residual});
}

int64_t values_per_channel(const Shape& shape) {
  int64_t count = 1;
  for (int i = 0; i < shape.size(); i++) count *= i == 1 ? 1 : shape[i];
  return count;
}

/// f((x0 - x1) * factor + beta + residual) for the inputs that the description has.
std::string normalized(const BatchNormDesc& d, const TensorDesc& wide, NamedInputs& in,
                       const std::string& inv_std) {
  std::string text = "(x0 - x1) * ";
  text += d.gamma ? cat("(", inv_std, " * ", in.add(wide), ")") : inv_std;
  if (d.beta) text += " + " + in.add(wide);
  if (d.residual) text += " + " + in.add(*d.residual);
  return d.params.activation == Activation::identity ? text
                                                     : cat(name_of(d.params.activation), "(", text, ")");
}

void add_affine(std::vector<Tensor>& inputs, const TensorDesc& x, const Tensor& gamma, const Tensor& beta,
                const Tensor& residual) {
  if (gamma.defined()) inputs.push_back(across(x, gamma));
  if (beta.defined()) inputs.push_back(across(x, beta));
  if (residual.defined()) inputs.push_back(residual);
}

PlanInfo make_info(const TensorDesc& x, const TensorDesc& y, const std::optional<TensorDesc>& residual,
                   Activation activation, const std::string& params) {
  PlanInfo info;
  info.text = cat("x=", brief(x), " y=", brief(y), " residual=", residual.has_value(),
                  " activation=", name_of(activation), params);
  info.flops = 8 * static_cast<double>(element_count(x.shape));
  info.bytes = traffic({x, y}) + (residual ? traffic({*residual}) : 0);
  return info;
}

bool all_aligned(std::initializer_list<const Tensor*> tensors) {
  return std::all_of(tensors.begin(), tensors.end(),
                     [](const Tensor* t) { return !t->defined() || TensorDesc(*t).aligned; });
}

PlanKey key_of(const char* op, const BatchNormDesc& d) {
  PlanKey key = PlanKey(op).add(d.x).add(d.y).add(d.params.epsilon).add(d.params.momentum);
  key.add(d.params.activation).add(d.running).add(d.gamma).add(d.beta).add(d.aligned);
  add_optional(key, d.residual);
  return key;
}

}  // namespace

BatchNormTraining::BatchNormTraining(const Context& context, const BatchNormDesc& desc,
                                     const Options& options)
    : Plan(nullptr), desc_(desc) {
  check_forward(desc);
  const double momentum = desc.params.momentum;
  require(momentum >= 0 && momentum <= 1, "momentum", momentum, " must lie in [0, 1]");
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
  PlanInfo info =
      make_info(desc.x, desc.y, desc.residual, desc.params.activation,
                cat(" epsilon=", desc.params.epsilon, " momentum=", momentum, " running=", desc.running));
  info.workspace = parts.size();
  info_ = single_engine("batch_norm_training", "generated", "", context, options, std::move(info));
}

void BatchNormTraining::run(const Stream& stream, const Tensor& x, const Tensor& gamma, const Tensor& beta,
                            const Tensor& running_mean, const Tensor& running_var, const Tensor& y,
                            const Tensor& mean, const Tensor& inv_std, const Tensor& residual,
                            const Tensor& workspace) const {
  require_stream(*info_, stream);
  require_tensor("x", x, stream.context(), desc_.x);
  require_tensor("y", y, stream.context(), desc_.y);
  check_affine(stream, desc_, impl_->channel, gamma, beta, residual, y);
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
                {{"gamma", gamma}, {"beta", beta}});
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
  add_affine(inputs, desc_.x, gamma, beta, residual);

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
                        make_info(desc.x, desc.y, desc.residual, desc.params.activation,
                                  cat(" epsilon=", desc.params.epsilon)));
}

void BatchNormInference::run(const Stream& stream, const Tensor& x, const Tensor& gamma, const Tensor& beta,
                             const Tensor& running_mean, const Tensor& running_var, const Tensor& y,
                             const Tensor& residual) const {
  require_stream(*info_, stream);
  require_tensor("x", x, stream.context(), desc_.x);
  require_tensor("y", y, stream.context(), desc_.y);
  check_affine(stream, desc_, impl_->channel, gamma, beta, residual, y);
  check_channels(stream, impl_->channel, {{"running_mean", running_mean}, {"running_var", running_var}});
  require_same_or_apart({"y", y}, {"x", x});
  require_apart({{"y", y}}, {{"gamma", gamma}, {"beta", beta}});
  require_apart({{"y", y}}, {{"running_mean", running_mean}, {"running_var", running_var}});
  if (y.numel() == 0) return;
  std::vector<Tensor> inputs = {x, across(desc_.x, running_mean), across(desc_.x, running_var)};
  add_affine(inputs, desc_.x, gamma, beta, residual);
  const OperatorScope scope(stream, *info_);
  impl_->normalize.run(stream, inputs, {y}, {desc_.params.epsilon});
}

namespace {

void check_backward(const BatchNormBackwardDesc& d) {
  check("x", d.x, "dy", d.dy, d.activation);
  const bool told = d.activation != Activation::identity;
  require(d.y.has_value() == told, "y",
          told ? "is not there, though the activation is " : "is there, though the activation is ",
          name_of(d.activation));
  require_affine("y", d.y, d.x.shape);
  require(d.dx || d.dresidual || d.dgamma || d.dbeta, "dx", "no gradient is wanted");
  require_affine("dx", d.dx, d.x.shape);
  require_affine("dresidual", d.dresidual, d.x.shape);
  if (d.dx) require_writable("dx", *d.dx);
  if (d.dresidual) require_writable("dresidual", *d.dresidual);
}

}  // namespace

BatchNormBackward::BatchNormBackward(const Context& context, const BatchNormBackwardDesc& desc,
                                     const Options& options)
    : Plan(nullptr), desc_(desc) {
  check_backward(desc);
  const TensorDesc c = channel_desc(desc.x, desc.dy, desc.aligned), wide = across_desc(desc.x, c);
  auto impl = std::make_shared<Impl>();
  impl->channel = c;
  WorkspaceParts parts;
  const auto bytes = static_cast<size_t>(traffic({c}));
  impl->dgamma_at = parts.add(desc.dgamma ? 0 : bytes), impl->dbeta_at = parts.add(desc.dbeta ? 0 : bytes);

  NamedInputs in;  // of both kernels; d is the gradient of what the activation is applied to
  std::string d = in.add(desc.dy);
  if (desc.y) {
    in.add(*desc.y);
    d = cat("(", activation_gradient(desc.activation), ")");
  }
  const std::string x = in.add(desc.x), mean = in.add(wide), inv_std = in.add(wide);
  const std::string normal = cat("((", x, " - ", mean, ") * ", inv_std, ")");
  if (desc.dx || desc.dgamma || desc.dbeta) {
    Reduction sums;
    sums.accumulators = 2;
    sums.init = "a0 = 0; a1 = 0";
    sums.accumulate = cat("const real d_ = ", d, "; a0 += d_; a1 += d_ * ", normal);
    sums.combine = "a0 += b0; a1 += b1";
    sums.finish = "y0 = a0; y1 = a1";
    impl->sums.emplace(context, in.descs, std::vector<TensorDesc>{wide, wide}, 0, sums, parts.rest(options));
    impl->scratch_at = parts.add(impl->sums->workspace_size());
  }
  if (desc.dx || desc.dresidual) {
    std::vector<TensorDesc> outputs;
    std::string body = cat("const real d_ = ", d, "; ");
    const std::string factor = desc.gamma ? cat("(", inv_std, " * ", in.add(wide), ")") : inv_std;
    const std::string level = in.add(wide), slope = in.add(wide);
    if (desc.dx) {
      body += cat("y0 = (d_ - s0 * (", level, " + ", normal, " * ", slope, ")) * ", factor, "; ");
      outputs.push_back(*desc.dx);
    }
    if (desc.dresidual) {
      body += cat("y", outputs.size(), " = d_");
      outputs.push_back(*desc.dresidual);
    }
    // Without dx only the gradient itself is needed.
    if (!desc.dx) in.descs.resize(desc.y ? 2 : 1);
    impl->finish.emplace(context, in.descs, outputs, desc.dx ? 1 : 0, body);
  }
  const int64_t count = values_per_channel(desc.x.shape);
  impl->share = count > 0 ? 1.0 / static_cast<double>(count) : 0.0;
  PlanInfo info = make_info(desc.x, desc.dy, desc.y, desc.activation,
                            cat(" dx=", desc.dx.has_value(), " dresidual=", desc.dresidual.has_value()));
  info.bytes += (desc.dx ? traffic({*desc.dx}) : 0) + (desc.dresidual ? traffic({*desc.dresidual}) : 0);
  info.workspace = parts.size();
  info_ = single_engine("batch_norm_backward", "generated", "", context, options, std::move(info));
  impl_ = std::move(impl);
}

void BatchNormBackward::run(const Stream& stream, const Tensor& dy, const Tensor& x, const Tensor& gamma,
                            const Tensor& mean, const Tensor& inv_std, const Tensor& dx, const Tensor& dgamma,
                            const Tensor& dbeta, const Tensor& y, const Tensor& dresidual,
                            const Tensor& workspace) const {
  require_stream(*info_, stream);
  const Context& context = stream.context();
  const TensorDesc& channel = impl_->channel;
  require_tensor("dy", dy, context, desc_.dy);
  require_tensor("x", x, context, desc_.x);
  require_optional("y", y, context, desc_.y);
  require_optional("dx", dx, context, desc_.dx);
  require_optional("dresidual", dresidual, context, desc_.dresidual);
  require_optional("gamma", gamma, context, if_wanted(desc_.gamma, channel));
  check_channels(stream, channel, {{"mean", mean}, {"inv_std", inv_std}});
  require_optional("dgamma", dgamma, context, if_wanted(desc_.dgamma, channel));
  require_optional("dbeta", dbeta, context, if_wanted(desc_.dbeta, channel));
  require_same_or_apart({"dx", dx}, {"dy", dy});
  require_same_or_apart({"dresidual", dresidual}, {"dy", dy});
  require_apart(
      {{"dx", dx}, {"dgamma", dgamma}, {"dbeta", dbeta}, {"dresidual", dresidual}, {"workspace", workspace}},
      {{"x", x}, {"y", y}, {"gamma", gamma}, {"mean", mean}, {"inv_std", inv_std}});
  require_apart({{"dgamma", dgamma}, {"dbeta", dbeta}, {"workspace", workspace}}, {{"dy", dy}});
  if (x.shape()[1] == 0) return;
  const Tensor space = workspace_for(*info_, stream, workspace);
  std::vector<Tensor> inputs = {dy};
  if (y.defined()) inputs.push_back(y);
  const OperatorScope scope(stream, *info_);
  if (impl_->sums) {
    const auto given_or = [&](const Tensor& given, size_t at) {
      return across(desc_.x,
                    given.defined() ? given : workspace_part(space, at, channel.shape, channel.dtype));
    };
    const Tensor slope = given_or(dgamma, impl_->dgamma_at), level = given_or(dbeta, impl_->dbeta_at);
    inputs.insert(inputs.end(), {x, across(desc_.x, mean), across(desc_.x, inv_std)});
    impl_->sums->run(stream, inputs, {level, slope}, {},
                     workspace_scratch(space, impl_->scratch_at, *impl_->sums));
    if (dx.defined()) {
      if (gamma.defined()) inputs.push_back(across(desc_.x, gamma));
      inputs.insert(inputs.end(), {level, slope});
    } else {
      inputs.resize(y.defined() ? 2 : 1);
    }
  }
  if (!impl_->finish || dy.numel() == 0) return;
  std::vector<Tensor> outputs;
  if (dx.defined()) outputs.push_back(dx);
  if (dresidual.defined()) outputs.push_back(dresidual);
  const std::vector<double> shares(dx.defined() ? 1 : 0, impl_->share);
  impl_->finish->run(stream, inputs, outputs, shares);
}

void batch_norm_training(const Stream& stream, const Tensor& x, const Tensor& gamma, const Tensor& beta,
                         const BatchNormParams& params, const Tensor& running_mean, const Tensor& running_var,
                         const Tensor& y, const Tensor& mean, const Tensor& inv_std, const Tensor& residual) {
  require_defined({{"x", x}, {"y", y}});
  require(running_mean.defined() == running_var.defined(),
          running_mean.defined() ? "running_var" : "running_mean",
          "is not defined, though the other running statistic is");
  BatchNormDesc desc{
      x, y, params, running_mean.defined(), gamma.defined(), beta.defined(), described(residual)};
  desc.aligned = all_aligned({&gamma, &beta, &running_mean, &running_var, &mean, &inv_std});
  cached_plan<BatchNormTraining>(stream, key_of("batch_norm_training", desc), desc)
      ->run(stream, x, gamma, beta, running_mean, running_var, y, mean, inv_std, residual);
}

void batch_norm_inference(const Stream& stream, const Tensor& x, const Tensor& gamma, const Tensor& beta,
                          const Tensor& running_mean, const Tensor& running_var,
                          const BatchNormParams& params, const Tensor& y, const Tensor& residual) {
  require_defined({{"x", x}, {"y", y}});
  BatchNormDesc desc{x, y, params, true, gamma.defined(), beta.defined(), described(residual)};
  desc.aligned = all_aligned({&gamma, &beta, &running_mean, &running_var});
  cached_plan<BatchNormInference>(stream, key_of("batch_norm_inference", desc), desc)
      ->run(stream, x, gamma, beta, running_mean, running_var, y, residual);
}

void batch_norm_backward(const Stream& stream, const Tensor& dy, const Tensor& x, const Tensor& gamma,
                         const Tensor& mean, const Tensor& inv_std, const Tensor& dx, const Tensor& dgamma,
                         const Tensor& dbeta, Activation activation, const Tensor& y,
                         const Tensor& dresidual) {
  require_defined({{"dy", dy}, {"x", x}});
  BatchNormBackwardDesc desc{dy,
                             x,
                             described(y),
                             described(dx),
                             described(dresidual),
                             gamma.defined(),
                             dgamma.defined(),
                             dbeta.defined(),
                             activation};
  desc.aligned = all_aligned({&gamma, &mean, &inv_std, &dgamma, &dbeta});
  PlanKey key = PlanKey("batch_norm_backward").add(desc.dy).add(desc.x);
  for (const auto* optional : {&desc.y, &desc.dx, &desc.dresidual}) add_optional(key, *optional);
  key.add(desc.gamma).add(desc.dgamma).add(desc.dbeta).add(activation).add(desc.aligned);
  cached_plan<BatchNormBackward>(stream, key, desc)
      ->run(stream, dy, x, gamma, mean, inv_std, dx, dgamma, dbeta, y, dresidual);
}

}  // namespace dlprim
