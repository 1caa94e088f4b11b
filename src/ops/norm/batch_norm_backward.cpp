// Batch normalisation backwards by generated kernels: one reduction to [C], then one pointwise step.
#include <dlprim/batch_norm.hpp>
#include <dlprim/pointwise.hpp>

#include "ops/norm/batch_norm_parts.hpp"
#include "ops/norm/norm_parts.hpp"
#include "ops/pointwise/activation_impl.hpp"

namespace dlprim::detail {
template <>
inline constexpr int kFields<BatchNormBackwardDesc> = 11;
}  // namespace dlprim::detail

namespace dlprim {

using namespace detail;

struct BatchNormBackward::Impl {
  std::optional<Reduce> sums;
  std::optional<Pointwise> finish;
  TensorDesc channel;
  size_t dweight_at = 0, dbias_at = 0, scratch_at = 0;
  double share = 0;  ///< 1 / values of a channel
};

namespace {

/// Whether the activation's slope is told from x.
bool is_told_again(const BatchNormBackwardDesc& d) {
  return d.activation != Activation::identity && !d.y;
}

void check_backward(const BatchNormBackwardDesc& d) {
  check_activations("x", d.x, "dy", d.dy, d.activation);
  require_told_from_result("activation", d.activation);
  require(!d.y || d.activation != Activation::identity, "y", "is there, though the activation is identity");
  require(!d.bias || is_told_again(d), "bias", "is there, though the slope is not told from x again");
  require(!d.dresidual || !is_told_again(d), "y",
          "is not there, though there was a residual and the activation is ", name_of(d.activation));
  require_affine("y", d.y, d.x.shape);
  require(d.dx || d.dresidual || d.dweight || d.dbias, "dx", "no gradient is wanted");
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
  impl->dweight_at = parts.add(desc.dweight ? 0 : bytes), impl->dbias_at = parts.add(desc.dbias ? 0 : bytes);

  NamedInputs in;  // of both kernels
  const std::string dy = in.add(desc.dy), y = desc.y ? in.add(*desc.y) : "y_";
  const std::string x = in.add(desc.x), mean = in.add(wide), inv_std = in.add(wide);
  const std::string normal = cat("((", x, " - ", mean, ") * ", inv_std, ")");
  std::string factor = inv_std, body;
  const auto scale = [&] {
    if (desc.weight) factor = cat("(", inv_std, " * ", in.add(wide), ")");
  };
  if (is_told_again(desc)) {
    scale();
    const std::string bias = desc.bias ? " + " + in.add(wide) : "";
    body =
        cat("const real y_ = ", name_of(desc.activation), "((", x, " - ", mean, ") * ", factor, bias, "); ");
  }
  // The gradient of what the activation is applied to.
  body += cat("const real d_ = ", activation_gradient(desc.activation, dy, y), "; ");
  if (desc.dx || desc.dweight || desc.dbias) {
    Reduction sums;
    sums.accumulators = 2;
    sums.init = "a0 = 0; a1 = 0";
    sums.accumulate = cat(body, "a0 += d_; a1 += d_ * ", normal);
    sums.combine = "a0 += b0; a1 += b1";
    sums.finish = "y0 = a0; y1 = a1";
    impl->sums.emplace(context, in.descs, std::vector<TensorDesc>{wide, wide}, 0, sums, parts.rest(options));
    impl->scratch_at = parts.add(impl->sums->workspace_size());
  }
  if (desc.dx || desc.dresidual) {
    std::vector<TensorDesc> outputs;
    if (!is_told_again(desc)) scale();
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
  PlanInfo info;
  info.text = cat("x=", brief(desc.x), " dy=", brief(desc.dy), " y=", desc.y.has_value(),
                  " activation=", name_of(desc.activation), " dx=", desc.dx.has_value(),
                  " dresidual=", desc.dresidual.has_value());
  info.flops = 8 * static_cast<double>(element_count(desc.x.shape));
  info.bytes = traffic({desc.x, desc.dy});
  for (const std::optional<TensorDesc>* t : {&desc.y, &desc.dx, &desc.dresidual})
    if (*t) info.bytes += traffic({**t});
  info.workspace = parts.size();
  info_ = single_engine("batch_norm_backward", "generated", "", context, options, std::move(info));
  impl_ = std::move(impl);
}

void BatchNormBackward::run(const Stream& stream, const Tensor& dy, const Tensor& x, const Tensor& weight,
                            const Tensor& bias, const Tensor& mean, const Tensor& inv_std, const Tensor& y,
                            const Tensor& dx, const Tensor& dweight, const Tensor& dbias,
                            const Tensor& dresidual, const Tensor& workspace) const {
  require_stream(*info_, stream);
  const Context& context = stream.context();
  const TensorDesc& channel = impl_->channel;
  require_tensor("dy", dy, context, desc_.dy);
  require_tensor("x", x, context, desc_.x);
  require_optional("y", y, context, desc_.y);
  require_optional("dx", dx, context, desc_.dx);
  require_optional("dresidual", dresidual, context, desc_.dresidual);
  require_optional("weight", weight, context, if_wanted(desc_.weight, channel));
  require_optional("bias", bias, context, if_wanted(desc_.bias, channel));
  check_channels(stream, channel, {{"mean", mean}, {"inv_std", inv_std}});
  require_optional("dweight", dweight, context, if_wanted(desc_.dweight, channel));
  require_optional("dbias", dbias, context, if_wanted(desc_.dbias, channel));
  require_same_or_apart({"dx", dx}, {"dy", dy});
  require_same_or_apart({"dresidual", dresidual}, {"dy", dy});
  require_apart(
      {{"dx", dx},
       {"dweight", dweight},
       {"dbias", dbias},
       {"dresidual", dresidual},
       {"workspace", workspace}},
      {{"x", x}, {"y", y}, {"weight", weight}, {"bias", bias}, {"mean", mean}, {"inv_std", inv_std}});
  require_apart({{"dweight", dweight}, {"dbias", dbias}, {"workspace", workspace}}, {{"dy", dy}});
  if (x.shape()[1] == 0) return;
  const Tensor space = workspace_for(*info_, stream, workspace);
  std::vector<Tensor> inputs = {dy};
  if (y.defined()) inputs.push_back(y);
  const bool again = is_told_again(desc_);
  const auto add_channel = [&](const Tensor& t) {
    if (t.defined()) inputs.push_back(across(desc_.x, t));
  };
  const OperatorScope scope(stream, *info_);
  if (impl_->sums) {
    const auto given_or = [&](const Tensor& given, size_t at) {
      return across(desc_.x,
                    given.defined() ? given : workspace_part(space, at, channel.shape, channel.dtype));
    };
    const Tensor slope = given_or(dweight, impl_->dweight_at), level = given_or(dbias, impl_->dbias_at);
    inputs.insert(inputs.end(), {x, across(desc_.x, mean), across(desc_.x, inv_std)});
    if (again) add_channel(weight), add_channel(bias);
    impl_->sums->run(stream, inputs, {level, slope}, {},
                     workspace_scratch(space, impl_->scratch_at, *impl_->sums));
    if (dx.defined()) {
      if (!again) add_channel(weight);
      inputs.insert(inputs.end(), {level, slope});
    } else {
      inputs.resize(y.defined() ? 2 : 1);
    }
  }
  if (!impl_->finish || dy.numel() == 0) return;
  std::vector<Tensor> outputs;
  if (dx.defined()) outputs.push_back(dx);
  if (dresidual.defined()) outputs.push_back(dresidual);
  const std::vector<Scalar> shares(dx.defined() ? 1 : 0, impl_->share);
  impl_->finish->run(stream, inputs, outputs, shares);
}

void batch_norm_backward(const Stream& stream, const Tensor& dy, const Tensor& x, const Tensor& weight,
                         const Tensor& bias, const Tensor& mean, const Tensor& inv_std, const Tensor& y,
                         Activation activation, const Tensor& dx, const Tensor& dweight, const Tensor& dbias,
                         const Tensor& dresidual, const Options& options, const Tensor& workspace) {
  require_defined({{"dy", dy}, {"x", x}});
  BatchNormBackwardDesc desc{dy,
                             x,
                             described(y),
                             described(dx),
                             described(dresidual),
                             weight.defined(),
                             dweight.defined(),
                             dbias.defined(),
                             activation};
  const Tensor needed = is_told_again(desc) ? bias : Tensor();
  desc.bias = needed.defined();
  desc.aligned = all_aligned({&weight, &needed, &mean, &inv_std, &dweight, &dbias});
  cached_plan<BatchNormBackward>(stream, "batch_norm_backward", desc, options, workspace)
      ->run(stream, dy, x, weight, needed, mean, inv_std, y, dx, dweight, dbias, dresidual, workspace);
}

}  // namespace dlprim
