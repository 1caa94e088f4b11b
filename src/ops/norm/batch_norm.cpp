// Batch normalisation forwards by generated kernels: one reduction to [C], then one pointwise step over the
// activations.
#include <dlprim/batch_norm.hpp>
#include <dlprim/pointwise.hpp>

#include <cmath>

#include "ops/norm/batch_norm_parts.hpp"
#include "ops/norm/norm_parts.hpp"

namespace dlprim::detail {
template <>
inline constexpr int kFields<BatchNormParams> = 4;
template <>
inline constexpr int kFields<BatchNormDesc> = 8;
}  // namespace dlprim::detail

namespace dlprim {

using namespace detail;

struct BatchNormTraining::Impl {
  Reduce statistics;
  Pointwise normalize;
  TensorDesc channel;
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
  NamedInputs in;
  in.add(desc.x), in.add(wide);
  const std::string inv_std = in.add(wide), body = "y0 = " + normalized(desc, wide, in, inv_std);
  Reduction moments = moments_of("x0", "y0 = mean; y1 = 1 / sqrt(squares / count + s0)");
  std::vector<TensorDesc> read = {desc.x}, written = {wide, wide};
  if (desc.running) {
    moments.finish += "; y2 = s1 * x1 + s2 * mean; y3 = s1 * x2 + s2 * (squares / (count - s3))";
    moments.finishing = 2;
    read.insert(read.end(), 2, wide), written.insert(written.end(), 2, wide);
  }
  impl_ = std::make_shared<const Impl>(
      Impl{Reduce(context, read, written, desc.running ? 4 : 1, moments, WorkspaceParts().rest(options)),
           Pointwise(context, in.descs, {desc.y}, 0, body), c});
  PlanInfo info = batch_norm_info(
      desc.x, desc.y, desc.residual, desc.params.activation,
      cat(" epsilon=", desc.params.epsilon, " momentum=", momentum, " running=", desc.running));
  info.workspace = impl_->statistics.workspace_size();
  info_ = single_engine("batch_norm_training", "generated", "", context, options, std::move(info));
}

void BatchNormTraining::run(const Stream& stream, const Tensor& x, const Tensor& weight, const Tensor& bias,
                            const Tensor& residual, const Tensor& running_mean, const Tensor& running_var,
                            const Tensor& y, const Tensor& mean, const Tensor& inv_std,
                            const Tensor& workspace, const Tensor& new_mean, const Tensor& new_var) const {
  require_stream(*info_, stream);
  require_tensor("x", x, stream.context(), desc_.x);
  require_tensor("y", y, stream.context(), desc_.y);
  check_affine(stream, desc_, impl_->channel, weight, bias, residual, y);
  check_channels(stream, impl_->channel, {{"mean", mean}, {"inv_std", inv_std}});
  for (const Named& t : {Named{"new_mean", new_mean}, Named{"new_var", new_var}}) {
    if (!t.tensor.defined()) continue;
    require(desc_.running, t.name, "is given to a plan without running statistics");
    require_tensor(t.name, t.tensor, stream.context(), impl_->channel);
  }
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
                 {"new_mean", new_mean},
                 {"new_var", new_var},
                 {"workspace", workspace}},
                {{"weight", weight}, {"bias", bias}});
  require_apart({{"mean", mean},
                 {"inv_std", inv_std},
                 {"running_mean", running_mean},
                 {"running_var", running_var},
                 {"new_mean", new_mean},
                 {"new_var", new_var},
                 {"workspace", workspace}},
                {{"x", x}, {"residual", residual}});
  if (y.numel() == 0) return;  // no channels: with some, a plan exists only for two values each

  const Tensor wide_mean = across(desc_.x, mean), wide_inv = across(desc_.x, inv_std);
  std::vector<Tensor> inputs = {x, wide_mean, wide_inv};
  add_affine(inputs, desc_.x, weight, bias, residual);

  const BatchNormParams& params = desc_.params;
  std::vector<Tensor> read = {x}, written = {wide_mean, wide_inv};
  std::vector<Scalar> numbers = {params.epsilon};
  if (desc_.running) {
    for (const Tensor& old : {running_mean, running_var}) read.push_back(across(desc_.x, old));
    written.push_back(across(desc_.x, new_mean.defined() ? new_mean : running_mean));
    written.push_back(across(desc_.x, new_var.defined() ? new_var : running_var));
    numbers.insert(numbers.end(), {1 - params.momentum, params.momentum, params.unbiased ? 1.0 : 0.0});
  }
  const OperatorScope scope(stream, *info_);
  impl_->statistics.run(stream, read, written, numbers, workspace_for(*info_, stream, workspace));
  impl_->normalize.run(stream, inputs, {y}, {});
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
                         const Tensor& inv_std, const Options& options, const Tensor& workspace,
                         const Tensor& new_mean, const Tensor& new_var) {
  require_defined({{"x", x}, {"y", y}});
  require(running_mean.defined() == running_var.defined(),
          running_mean.defined() ? "running_var" : "running_mean",
          "is not defined, though the other running statistic is");
  BatchNormDesc desc{
      x, y, params, running_mean.defined(), weight.defined(), bias.defined(), described(residual)};
  desc.aligned =
      all_aligned({&weight, &bias, &running_mean, &running_var, &mean, &inv_std, &new_mean, &new_var});
  cached_plan<BatchNormTraining>(stream, "batch_norm_training", desc, options, workspace)
      ->run(stream, x, weight, bias, residual, running_mean, running_var, y, mean, inv_std, workspace,
            new_mean, new_var);
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
