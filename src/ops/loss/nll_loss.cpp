// The negative log-likelihood loss: nll_loss.cl picks each row's term, a generated reduction sums them up.
// Backward a fill with zeros, then each row's one gradient.
#include "core/gen/expression.hpp"
#include "ops/loss/class_loss.hpp"

namespace dlprim::detail {
template <>
inline constexpr int kFields<NllLossBackwardDesc> = 5;
}  // namespace dlprim::detail

namespace dlprim {

using namespace detail;

struct NllLoss::Impl {
  ClassLoss problem;
  RowNest nest;
  Kernel pick;
  ClassLossSum sum;
};

NllLoss::NllLoss(const Context& context, const ClassLossDesc& desc, const Options& options) : Plan(nullptr) {
  const ClassLoss p("x", "loss", desc, false);
  require_writable("loss", desc.loss);
  WorkspaceParts parts;
  auto impl = std::make_shared<Impl>(Impl{p, {}, {}, ClassLossSum(context, p, parts, options)});
  const TensorDesc terms = p.reduced() ? p.per_row() : p.loss();
  impl->nest = RowNest(desc.x.shape, kClassAxis, {desc.x, p.target(), p.weight(), terms, p.per_row()});
  Defines defines = p.defines();
  define_type(defines, "L", terms.dtype);
  impl->nest.define(defines);
  impl->pick = context.state().programs.kernel("nll_loss", "nll_pick", defines);
  info_ = single_engine("nll_loss", "direct", "", context, options,
                        p.info(parts.size(), traffic({desc.target, terms, terms})));
  impl_ = std::move(impl);
}

void NllLoss::run(const Stream& stream, const Tensor& x, const Tensor& target, const Tensor& weight,
                  const Tensor& loss, const Tensor& workspace) const {
  const ClassLoss& p = impl_->problem;
  require_stream(*info_, stream);
  p.require_forward(stream, x, target, weight, loss, workspace);
  const Tensor space = workspace_for(*info_, stream, workspace);
  const OperatorScope scope(stream, *info_);
  p.search_labels(stream, "nll_loss", target);
  const Tensor terms = p.reduced() ? impl_->sum.terms(space) : loss;
  p.pick(stream, impl_->nest, impl_->pick, {x, target, weight, terms, impl_->sum.weights(space)});
  impl_->sum.run(stream, loss, space);
}

struct NllLossBackward::Impl {
  ClassLoss problem;
  RowNest nest;
  Pointwise fill;
  Kernel scatter;
  ClassWeightSum total;
};

NllLossBackward::NllLossBackward(const Context& context, const NllLossBackwardDesc& desc,
                                 const Options& options)
    : Plan(nullptr) {
  const ClassLoss p("dx", "dloss", {desc.dx, desc.target, desc.dloss, desc.weight, desc.params}, false);
  require_writable("dx", desc.dx);
  WorkspaceParts parts;
  auto impl = std::make_shared<Impl>(Impl{
      p, {}, Pointwise(context, {}, {desc.dx}, 0, "y0 = 0"), {}, ClassWeightSum(context, p, parts, options)});
  impl->nest = RowNest(desc.dx.shape, kClassAxis, {desc.dx, p.target(), p.weight(), p.loss(), p.total()});
  Defines defines = p.defines();
  define_type(defines, "L", desc.dloss.dtype);
  impl->nest.define(defines);
  impl->scatter = context.state().programs.kernel("nll_loss", "nll_scatter", defines);
  info_ = single_engine("nll_loss_backward", "direct", "", context, options,
                        p.info(parts.size(), traffic({desc.target, desc.dx})));
  impl_ = std::move(impl);
}

void NllLossBackward::run(const Stream& stream, const Tensor& dloss, const Tensor& target,
                          const Tensor& weight, const Tensor& dx, const Tensor& workspace) const {
  const ClassLoss& p = impl_->problem;
  require_stream(*info_, stream);
  require_tensor("dloss", dloss, stream.context(), p.desc.loss);
  require_tensor("target", target, stream.context(), p.desc.target);
  require_optional("weight", weight, stream.context(), p.desc.weight);
  require_tensor("dx", dx, stream.context(), p.desc.x);
  require_apart({{"dx", dx}, {"workspace", workspace}},
                {{"dloss", dloss}, {"target", target}, {"weight", weight}});
  if (dx.numel() == 0) return;
  const Tensor space = workspace_for(*info_, stream, workspace);
  const OperatorScope scope(stream, *info_);
  p.search_labels(stream, "nll_loss_backward", target);
  const Tensor total = impl_->total.run(stream, target, weight, space);
  impl_->fill.run(stream, {}, {dx}, {});
  p.pick(stream, impl_->nest, impl_->scatter, {dx, target, weight, dloss, total});
}

void nll_loss(const Stream& stream, const Tensor& x, const Tensor& target, const Tensor& weight,
              const ClassLossParams& params, const Tensor& loss, const Options& options,
              const Tensor& workspace) {
  require_defined({{"x", x}, {"target", target}, {"loss", loss}});
  const ClassLossDesc desc{x, target, loss, described(weight), params};
  cached_plan<NllLoss>(stream, "nll_loss", desc, options, workspace)
      ->run(stream, x, target, weight, loss, workspace);
}

void nll_loss_backward(const Stream& stream, const Tensor& dloss, const Tensor& target, const Tensor& weight,
                       const ClassLossParams& params, const Tensor& dx, const Options& options,
                       const Tensor& workspace) {
  require_defined({{"dloss", dloss}, {"target", target}, {"dx", dx}});
  const NllLossBackwardDesc desc{dloss, target, dx, described(weight), params};
  cached_plan<NllLossBackward>(stream, "nll_loss_backward", desc, options, workspace)
      ->run(stream, dloss, target, weight, dx, workspace);
}

}  // namespace dlprim
