// CTC loss: the kernels of ctc_loss.cl, a work-group for each sequence, and a generated reduction of the
// sequences' losses.
#include <dlprim/ctc_loss.hpp>

#include <algorithm>
#include <optional>

#include <dlprim/pointwise.hpp>

#include "core/composed.hpp"
#include "core/gen/expression.hpp"
#include "ops/lib/int64.hpp"
#include "ops/loss/loss_reduction.hpp"

namespace dlprim::detail {

#include "kernels/loss/ctc_loss.h"

template <>
inline constexpr int kFields<CtcLossParams> = 3;
template <>
inline constexpr int kFields<CtcLossDesc> = 7;
template <>
inline constexpr int kFields<CtcLossBackwardDesc> = 8;
}  // namespace dlprim::detail

namespace dlprim {

using namespace detail;

namespace {

/// A checked description, and what both directions take from it; backward dloss stands for the loss.
struct Problem {
  CtcLossDesc desc;
  TensorDesc dx;  ///< backward only
  DType real = DType::f32;
  int t = 0, n = 0, c = 0, s = 0;

  explicit Problem(const CtcLossDesc& given, const char* loss)
      : desc(given), real(ctc_loss_alpha(given.x, given.labels, given.loss.dtype).dtype) {
    const CtcLossParams& p = desc.params;
    require_loss_reduction(p.reduction, false);
    require_floating("x", desc.x, true);
    require_rank("x", desc.x, 3);
    const int64_t batch = desc.x.shape[1];
    for (const auto& [name, d, shape] :
         {std::tuple("labels", &desc.labels, Shape{batch, desc.labels.shape[1]}),
          std::tuple("x_lengths", &desc.x_lengths, Shape{batch}),
          std::tuple("label_lengths", &desc.label_lengths, Shape{batch})}) {
      require(d->dtype == DType::i32 || d->dtype == DType::i64, name, "dtype ", dlprim::name_of(d->dtype),
              " must be i32 or i64");
      require_strides(name, *d);
      require_shape(name, *d, shape);
    }
    require_floating(loss, desc.loss, true);
    require_shape(loss, desc.loss, p.reduction == LossReduction::none ? Shape{batch} : Shape{1});
    t = to_int("x", desc.x.shape[0]);
    n = to_int("x", batch);
    c = to_int("x", desc.x.shape[2]);
    s = to_int("labels", desc.labels.shape[1]);
    to_int("labels", 2 * desc.labels.shape[1] + 1);
    require(p.blank >= 0 && p.blank < c, "blank", p.blank, " is no class of ", c);
    const TensorDesc alpha = ctc_loss_alpha(desc.x, desc.labels, desc.loss.dtype);
    require_dtype("alpha", desc.alpha, alpha.dtype);
    require_shape("alpha", desc.alpha, alpha.shape);
    require(is_row_major(desc.alpha), "alpha", "strides ", to_string(desc.alpha.strides),
            " are not row-major");
  }

  bool reduced() const { return desc.params.reduction != LossReduction::none; }
  bool mean() const { return desc.params.reduction == LossReduction::mean; }
  int64_t states() const { return 2 * int64_t{s} + 1; }
};

/// How many lanes share `work`, and the kernel's macros.
int64_t lanes_for(const Context& context, int64_t work) {
  if (context.device().kind() == DeviceKind::cpu) return 1;
  int64_t lanes = 32;
  while (lanes < std::min<int64_t>(256, context.device().facts().max_work_group) && lanes < work) lanes *= 2;
  return std::min<int64_t>(lanes, std::max(1, context.device().facts().max_work_group));
}

Kernel kernel(const Context& context, const Problem& p, const char* name, int64_t lanes, DType loss) {
  // In two buffers of 8 KB, or 16 of doubles; a CPU has more of them.
  const int64_t most = lanes == 1 ? 1024 : 2048;
  Defines defines;
  define_type(defines, "A", p.desc.x.dtype);
  define_type(defines, "T", p.desc.labels.dtype);
  define_type(defines, "N", p.desc.x_lengths.dtype);
  define_type(defines, "U", p.desc.label_lengths.dtype);
  define_type(defines, "L", loss);
  define_type(defines, "D", p.dx.dtype);
  int64_t states = 64;
  while (states < p.states()) states *= 2;
  if (states > most) states = 0;
  defines.set("REAL", compute_type(p.real)).set("LANES", lanes).set("STATES", states);
  return context.state().programs.kernel("ctc_loss", name, defines);
}

CtcSteps steps_of(const Tensor& x) {
  return {x.strides()[0], x.strides()[1], x.strides()[2]};
}

/// Binds SEQUENCES of ctc_loss.cl.
void bind(Launch& launch, const Problem& p, const CtcLossInputs& in) {
  CtcShape shape{};
  shape.x = steps_of(in.x);
  shape.labels_n = in.labels.strides()[0], shape.labels_s = in.labels.strides()[1];
  shape.times_n = in.x_lengths.strides()[0], shape.sizes_n = in.label_lengths.strides()[0];
  shape.blank = p.desc.params.blank;
  shape.t = p.t, shape.n = p.n, shape.c = p.c, shape.s = p.s;
  shape.divides = p.mean(), shape.zeroes = p.desc.params.zero_infinity;
  launch.arg(in.x).arg(in.labels).arg(in.x_lengths).arg(in.label_lengths).arg(shape);
}

/// Labels behind a sequence's length may be anything, so that only the lengths are searched.
void search_lengths(const Stream& stream, const char* op, const Problem& p, const CtcLossInputs& in) {
  check_index(stream, op, "x_lengths", in.x_lengths, {0, int64_t{p.t} + 1, {}});
  check_index(stream, op, "label_lengths", in.label_lengths, {0, int64_t{p.s} + 1, {}});
}

void check_inputs(const Stream& stream, const CtcLossDesc& desc, const CtcLossInputs& in,
                  const Tensor& alpha) {
  require_tensor("x", in.x, stream.context(), desc.x);
  require_tensor("labels", in.labels, stream.context(), desc.labels);
  require_tensor("x_lengths", in.x_lengths, stream.context(), desc.x_lengths);
  require_tensor("label_lengths", in.label_lengths, stream.context(), desc.label_lengths);
  require_tensor("alpha", alpha, stream.context(), desc.alpha);
}

std::shared_ptr<const PlanInfo> info_of(const char* op, const Context& context, const Problem& p,
                                        size_t workspace, const Options& options) {
  PlanInfo info;
  const CtcLossDesc& d = p.desc;
  info.text = cat("x=", brief(d.x), " labels=", brief(d.labels), " reduction=", name_of(d.params.reduction),
                  " blank=", d.params.blank, " zero_infinity=", d.params.zero_infinity);
  info.flops = 10 * static_cast<double>(element_count(d.alpha.shape));
  info.bytes = traffic({d.x, d.alpha}) + (p.dx.shape.empty() ? 0 : traffic({p.dx}));
  info.workspace = workspace;
  return single_engine(op, "direct", "", context, options, std::move(info));
}

}  // namespace

TensorDesc ctc_loss_alpha(const TensorDesc& x, const TensorDesc& labels, DType loss) {
  require_rank("x", x, 3);
  require_rank("labels", labels, 2);
  const bool wide = x.dtype == DType::f64 || loss == DType::f64;
  return {{x.shape[1], x.shape[0], 2 * labels.shape[1] + 1}, wide ? DType::f64 : DType::f32};
}

struct CtcLoss::Impl {
  Problem p;
  int64_t lanes = 1;
  Kernel alpha;
  std::optional<Reduce> sum;
  size_t terms_at = 0, scratch_at = 0;
};

CtcLoss::CtcLoss(const Context& context, const CtcLossDesc& desc, const Options& options) : Plan(nullptr) {
  auto impl = std::make_shared<Impl>(Impl{Problem(desc, "loss"), 1, {}, {}});
  const Problem& p = impl->p;
  require_writable("loss", desc.loss);
  impl->lanes = lanes_for(context, p.states());
  impl->alpha = kernel(context, p, "ctc_alpha", impl->lanes, p.reduced() ? p.real : desc.loss.dtype);
  WorkspaceParts parts;
  if (p.reduced()) {
    impl->terms_at = parts.add(static_cast<size_t>(p.n) * size_of(p.real));
    impl->sum.emplace(context, std::vector<TensorDesc>{TensorDesc({p.n}, p.real)},
                      std::vector<TensorDesc>{desc.loss}, 0,
                      sum_of("x0", p.mean() ? cat("y0 = a0 / ", p.n) : "y0 = a0"), parts.rest(options));
    impl->scratch_at = parts.add(impl->sum->workspace_size());
  }
  info_ = info_of("ctc_loss", context, p, parts.size(), options);
  impl_ = std::move(impl);
}

void CtcLoss::run(const Stream& stream, const CtcLossInputs& in, const Tensor& loss, const Tensor& alpha,
                  const Tensor& workspace) const {
  const Problem& p = impl_->p;
  require_stream(*info_, stream);
  check_inputs(stream, p.desc, in, alpha);
  require_tensor("loss", loss, stream.context(), p.desc.loss);
  require_apart(
      {{"loss", loss}, {"alpha", alpha}, {"workspace", workspace}},
      {{"x", in.x}, {"labels", in.labels}, {"x_lengths", in.x_lengths}, {"label_lengths", in.label_lengths}});
  const Tensor space = workspace_for(*info_, stream, workspace);
  const Tensor terms = p.reduced() ? workspace_part(space, impl_->terms_at, {p.n}, p.real) : loss;
  const OperatorScope scope(stream, *info_);
  search_lengths(stream, "ctc_loss", p, in);
  if (p.n > 0) {
    Launch launch(stream, impl_->alpha);
    bind(launch, p, in);
    const auto lanes = static_cast<size_t>(impl_->lanes);
    launch.arg(alpha).arg(terms).arg(terms.strides()[0]).run({static_cast<size_t>(p.n) * lanes}, {lanes});
  }
  if (!impl_->sum) return;
  impl_->sum->run(stream, {p.n > 0 ? terms : Tensor(stream, {0}, p.real)}, {loss}, {},
                  workspace_scratch(space, impl_->scratch_at, *impl_->sum));
}

struct CtcLossBackward::Impl {
  Problem p;
  int64_t beta_lanes = 1, lanes = 1;
  Kernel beta, gradient;
  size_t beta_at = 0, links_at = 0;
};

CtcLossBackward::CtcLossBackward(const Context& context, const CtcLossBackwardDesc& desc,
                                 const Options& options)
    : Plan(nullptr) {
  const CtcLossDesc forward{desc.x,     desc.labels, desc.x_lengths, desc.label_lengths,
                            desc.dloss, desc.alpha,  desc.params};
  auto impl = std::make_shared<Impl>(Impl{Problem(forward, "dloss"), 1, 1, {}, {}});
  impl->p.dx = desc.dx;
  const Problem& p = impl->p;
  require_floating("dx", desc.dx, p.real == DType::f64);
  require_shape("dx", desc.dx, desc.x.shape);
  require_writable("dx", desc.dx);
  impl->beta_lanes = lanes_for(context, p.states());
  impl->lanes = std::min<int64_t>(128, lanes_for(context, std::max<int64_t>(p.c, p.s)));
  impl->beta = kernel(context, p, "ctc_beta", impl->beta_lanes, desc.dloss.dtype);
  impl->gradient = kernel(context, p, "ctc_gradient", impl->lanes, desc.dloss.dtype);
  WorkspaceParts parts;
  impl->beta_at = parts.add(static_cast<size_t>(element_count(desc.alpha.shape)) * size_of(p.real));
  impl->links_at = parts.add(static_cast<size_t>(p.n) * static_cast<size_t>(p.s) * sizeof(int32_t));
  info_ = info_of("ctc_loss_backward", context, p, parts.size(), options);
  impl_ = std::move(impl);
}

void CtcLossBackward::run(const Stream& stream, const Tensor& dloss, const CtcLossInputs& in,
                          const Tensor& alpha, const Tensor& dx, const Tensor& workspace) const {
  const Problem& p = impl_->p;
  require_stream(*info_, stream);
  check_inputs(stream, p.desc, in, alpha);
  require_tensor("dloss", dloss, stream.context(), p.desc.loss);
  require_tensor("dx", dx, stream.context(), p.dx);
  require_apart({{"dx", dx}, {"workspace", workspace}}, {{"dloss", dloss},
                                                         {"x", in.x},
                                                         {"labels", in.labels},
                                                         {"x_lengths", in.x_lengths},
                                                         {"label_lengths", in.label_lengths},
                                                         {"alpha", alpha}});
  if (dx.numel() == 0) return;
  const Tensor space = workspace_for(*info_, stream, workspace);
  const Tensor beta = workspace_part(space, impl_->beta_at, p.desc.alpha.shape, p.real);
  const Tensor links = workspace_part(space, impl_->links_at, {p.n, p.s}, DType::i32);
  const OperatorScope scope(stream, *info_);
  search_lengths(stream, "ctc_loss_backward", p, in);
  {
    Launch launch(stream, impl_->beta);
    bind(launch, p, in);
    const auto lanes = static_cast<size_t>(impl_->beta_lanes);
    launch.arg(beta).arg(links).run({static_cast<size_t>(p.n) * lanes}, {lanes});
  }
  Launch launch(stream, impl_->gradient);
  bind(launch, p, in);
  const auto lanes = static_cast<size_t>(impl_->lanes);
  launch.arg(alpha).arg(beta).arg(links).arg(dloss).arg(p.reduced() ? int64_t{0} : dloss.strides()[0]);
  launch.arg(dx).arg(steps_of(dx));
  launch.run({static_cast<size_t>(p.n) * static_cast<size_t>(p.t) * lanes}, {lanes});
}

namespace {

void require_inputs(const CtcLossInputs& in) {
  require_defined(
      {{"x", in.x}, {"labels", in.labels}, {"x_lengths", in.x_lengths}, {"label_lengths", in.label_lengths}});
}

}  // namespace

void ctc_loss(const Stream& stream, const CtcLossInputs& inputs, const CtcLossParams& params,
              const Tensor& loss, const Tensor& alpha, const Options& options, const Tensor& workspace) {
  require_inputs(inputs);
  require_defined({{"loss", loss}, {"alpha", alpha}});
  const CtcLossDesc desc{inputs.x, inputs.labels, inputs.x_lengths, inputs.label_lengths, loss,
                         alpha,    params};
  cached_plan<CtcLoss>(stream, "ctc_loss", desc, options, workspace)
      ->run(stream, inputs, loss, alpha, workspace);
}

void ctc_loss_backward(const Stream& stream, const Tensor& dloss, const CtcLossInputs& inputs,
                       const Tensor& alpha, const CtcLossParams& params, const Tensor& dx,
                       const Options& options, const Tensor& workspace) {
  require_inputs(inputs);
  require_defined({{"dloss", dloss}, {"alpha", alpha}, {"dx", dx}});
  const CtcLossBackwardDesc desc{dloss, inputs.x, inputs.labels, inputs.x_lengths, inputs.label_lengths,
                                 alpha, dx,       params};
  cached_plan<CtcLossBackward>(stream, "ctc_loss_backward", desc, options, workspace)
      ->run(stream, dloss, inputs, alpha, dx, workspace);
}

}  // namespace dlprim
