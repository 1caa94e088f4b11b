// The negative log-likelihood loss: nll_loss.cl picks each row's term, a generated reduction takes their
// mean.
#include <dlprim/pointwise.hpp>
#include <dlprim/softmax.hpp>

#include <algorithm>

#include "core/composed.hpp"
#include "core/gen/expression.hpp"

namespace dlprim {

using namespace detail;

struct NllLoss::Impl {
  Kernel pick;
  Reduce mean;
  size_t picked_at = 0, scratch_at = 0;
  int block = 1;  ///< rows of a work-item
};

struct NllLossBackward::Impl {
  Kernel gradient;
  Reduce count;
  size_t count_at = 0, scratch_at = 0;
  int block = 1, columns = 1;
};

namespace {

// With more, classes could not be told apart as floats.
constexpr int64_t kMostClasses = 1 << 24;

void check(const char* log_p, const char* loss, const NllLossDesc& desc) {
  require_floating(log_p, desc.log_p, false);
  require_rank(log_p, desc.log_p, 2);
  require(desc.log_p.shape[1] <= kMostClasses, log_p, desc.log_p.shape[1], " classes are more than ",
          kMostClasses);
  const DType t = desc.target.dtype;
  require(t == DType::i32 || t == DType::i64 || t == DType::u8, "target", "dtype ", name_of(t),
          " must be i32, i64 or u8");
  require_strides("target", desc.target);
  require_shape("target", desc.target, {desc.log_p.shape[0]});
  require_floating(loss, desc.loss, false);
  require_shape(loss, desc.loss, {1});
}

Kernel kernel(const Context& context, const char* name, const NllLossDesc& desc) {
  Defines defines;
  defines.set("DTYPE", name_of(desc.log_p.dtype)).set("T", storage_type(desc.log_p.dtype));
  defines.set("LOSS_DTYPE", name_of(desc.loss.dtype)).set("LOSS_T", storage_type(desc.loss.dtype));
  defines.set("TARGET", storage_type(desc.target.dtype));
  return context.state().programs.kernel("nll_loss", name, defines);
}

std::shared_ptr<const PlanInfo> make_info(const char* op, const Context& context, const NllLossDesc& desc,
                                          double bytes, size_t workspace, const Options& options) {
  PlanInfo info;
  info.text = cat("log_p=", brief(desc.log_p), " target=", brief(desc.target));
  info.flops = static_cast<double>(desc.log_p.shape[0]);
  info.bytes = bytes;
  info.workspace = workspace;
  return single_engine(op, "direct", "", context, options, std::move(info));
}

}  // namespace

NllLoss::NllLoss(const Context& context, const NllLossDesc& desc, const Options& options)
    : Plan(nullptr), desc_(desc) {
  check("log_p", "loss", desc);
  const int64_t rows = desc.log_p.shape[0];
  const TensorDesc part({rows}, {1}, DType::f32, false);
  WorkspaceParts parts;
  const size_t picked_at = parts.add(static_cast<size_t>(rows) * 2 * sizeof(float));
  auto impl = std::make_shared<Impl>(
      Impl{kernel(context, "nll_pick", desc),
           Reduce(context, {part, part}, {desc.loss}, 0,
                  Reduction{2, "a0 = 0; a1 = 0", "a0 += x0; a1 += x1", "a0 += b0; a1 += b1", "y0 = a0 / a1"},
                  parts.rest(options))});
  impl->block = context.device().kind() == DeviceKind::cpu ? 1024 : 1;
  impl->picked_at = picked_at;
  impl->scratch_at = parts.add(impl->mean.workspace_size());
  impl_ = impl;
  info_ =
      make_info("nll_loss", context, desc, traffic({desc.target, part, part, part}), parts.size(), options);
}

void NllLoss::run(const Stream& stream, const Tensor& log_p, const Tensor& target, const Tensor& loss,
                  const Tensor& workspace) const {
  require_stream(*info_, stream);
  require_tensor("log_p", log_p, stream.context(), desc_.log_p);
  require_tensor("target", target, stream.context(), desc_.target);
  require_tensor("loss", loss, stream.context(), desc_.loss);
  require_apart({{"loss", loss}, {"workspace", workspace}}, {{"log_p", log_p}, {"target", target}});
  const Tensor space = workspace_for(*info_, stream, workspace);
  const int64_t rows = log_p.size(0), block = impl_->block;
  const Tensor picked = workspace_part(space, impl_->picked_at, {2 * rows});

  const OperatorScope scope(stream, *info_);
  if (rows > 0)
    Launch(stream, impl_->pick)
        .arg(log_p)
        .arg(log_p.strides()[0])
        .arg(log_p.strides()[1])
        .arg(target)
        .arg(target.strides()[0])
        .arg(picked)
        .arg(rows)
        .arg(log_p.size(1))
        .arg(impl_->block)
        .run({items_in_groups(ceil_div(rows, block), block > 1 ? 1 : 64)}, {block > 1 ? 1u : 64u});
  const Tensor terms = rows > 0 ? picked.slice(0, 0, rows) : Tensor(stream, {0});
  const Tensor valid = rows > 0 ? picked.slice(0, rows, 2 * rows) : terms;
  impl_->mean.run(stream, {terms, valid}, {loss}, {},
                  workspace_scratch(space, impl_->scratch_at, impl_->mean));
}

NllLossBackward::NllLossBackward(const Context& context, const NllLossDesc& desc, const Options& options)
    : Plan(nullptr), desc_(desc) {
  check("d_log_p", "dloss", desc);
  require_writable("d_log_p", desc.log_p);
  WorkspaceParts parts;
  const size_t count_at = parts.add(sizeof(float));
  auto impl =
      std::make_shared<Impl>(Impl{kernel(context, "nll_gradient", desc),
                                  Reduce(context, {desc.target}, {TensorDesc({1})}, 1,
                                         sum_of("(x0 >= 0 && x0 < s0 ? 1.0f : 0.0f)"), parts.rest(options))});
  if (context.device().kind() == DeviceKind::cpu)
    impl->block = static_cast<int>(std::max<int64_t>(1, 4096 / std::max<int64_t>(1, desc.log_p.shape[1])));
  else
    impl->columns = desc.log_p.shape[1] > 32 ? 64 : 16;
  impl->count_at = count_at;
  impl->scratch_at = parts.add(impl->count.workspace_size());
  impl_ = impl;
  info_ = make_info("nll_loss_backward", context, desc, traffic({desc.target, desc.log_p}), parts.size(),
                    options);
}

void NllLossBackward::run(const Stream& stream, const Tensor& dloss, const Tensor& target,
                          const Tensor& d_log_p, const Tensor& workspace) const {
  require_stream(*info_, stream);
  require_tensor("dloss", dloss, stream.context(), desc_.loss);
  require_tensor("target", target, stream.context(), desc_.target);
  require_tensor("d_log_p", d_log_p, stream.context(), desc_.log_p);
  require_apart({{"d_log_p", d_log_p}, {"workspace", workspace}}, {{"dloss", dloss}, {"target", target}});
  require_apart({{"workspace", workspace}}, {{"d_log_p", d_log_p}});
  if (d_log_p.numel() == 0) return;
  const Tensor space = workspace_for(*info_, stream, workspace);
  const Tensor count = workspace_part(space, impl_->count_at, {1});
  const int64_t rows = d_log_p.size(0), classes = d_log_p.size(1);

  const OperatorScope scope(stream, *info_);
  impl_->count.run(stream, {target}, {count}, {static_cast<double>(classes)},
                   workspace_scratch(space, impl_->scratch_at, impl_->count));
  const auto columns = static_cast<size_t>(impl_->columns), lanes = columns > 1 ? 256 / columns : 1;
  Launch(stream, impl_->gradient)
      .arg(dloss)
      .arg(count)
      .arg(target)
      .arg(target.strides()[0])
      .arg(d_log_p)
      .arg(d_log_p.strides()[0])
      .arg(d_log_p.strides()[1])
      .arg(rows)
      .arg(classes)
      .arg(impl_->block)
      .arg(impl_->columns)
      .run({columns, items_in_groups(ceil_div(rows, impl_->block), static_cast<int64_t>(lanes))},
           {columns, lanes});
}

void nll_loss(const Stream& stream, const Tensor& log_p, const Tensor& target, const Tensor& loss) {
  require_defined({{"log_p", log_p}, {"target", target}, {"loss", loss}});
  const NllLossDesc desc{log_p, target, loss};
  cached_plan<NllLoss>(stream, PlanKey("nll_loss").add(desc.log_p).add(desc.target).add(desc.loss), desc)
      ->run(stream, log_p, target, loss);
}

void nll_loss_backward(const Stream& stream, const Tensor& dloss, const Tensor& target,
                       const Tensor& d_log_p) {
  require_defined({{"dloss", dloss}, {"target", target}, {"d_log_p", d_log_p}});
  const NllLossDesc desc{d_log_p, target, dloss};
  const PlanKey key = PlanKey("nll_loss_backward").add(desc.log_p).add(desc.target).add(desc.loss);
  cached_plan<NllLossBackward>(stream, key, desc)->run(stream, dloss, target, d_log_p);
}

}  // namespace dlprim
