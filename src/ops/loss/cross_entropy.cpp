// Cross-entropy from logits: one kernel that has log-softmax and the loss of a row, on GPUs (`row`) and CPUs
// (`cpu`); a generated reduction sums rows up.
#include "core/engine.hpp"
#include "core/gen/expression.hpp"
#include "ops/loss/class_loss.hpp"

namespace dlprim {

using namespace detail;

namespace detail {

template <>
inline constexpr int kFields<CrossEntropyBackwardDesc> = 6;

struct CrossEntropyProblem {
  ClassLoss loss;
  bool backward = false;
  /// As the kernels have them: x, target, weight, the loss or dloss, rows' weights or their sum, dx.
  std::vector<TensorDesc> tensors;
};

/// The kernel and its grid.
struct CrossEntropyImpl : EngineImpl {
  RowNest nest;
  Kernel kernel;
  bool cpu = false;
  int64_t block = 1;  ///< CPU: rows of a group
  size_t groups = 0, local = 1;
};

}  // namespace detail

namespace {

using Problem = CrossEntropyProblem;

/// `dx` is null forward.
Problem problem_of(const ClassLoss& loss, const TensorDesc* dx) {
  const bool backward = dx != nullptr;
  Problem p{loss, backward, {loss.desc.x, loss.target(), loss.weight()}};
  p.tensors.push_back(backward || !loss.reduced() ? loss.loss() : loss.per_row());
  p.tensors.push_back(backward ? loss.total() : loss.per_row());
  if (backward) p.tensors.push_back(*dx);
  return p;
}

std::unique_ptr<CrossEntropyImpl> start(const Problem& p, Defines& defines) {
  auto impl = std::make_unique<CrossEntropyImpl>();
  impl->nest = RowNest(p.loss.desc.x.shape, kClassAxis, p.tensors);
  defines = p.loss.defines();
  const DType loss = p.tensors[3].dtype;
  define_type(defines, "L", loss);
  if (p.backward) define_type(defines, "D", p.tensors[5].dtype);
  defines.set("PROB", p.loss.probabilities)
      .set("SMOOTH", !p.loss.probabilities && p.loss.desc.params.label_smoothing > 0);
  impl->nest.define(defines);
  return impl;
}

const char* kernel_name(const Problem& p) {
  return p.backward ? "cross_entropy_backward" : "cross_entropy";
}

std::unique_ptr<const CrossEntropyImpl> make_row(const Context& context, const Problem& p,
                                                 const EngineOptions&) {
  Defines defines;
  auto impl = start(p, defines);
  const auto vectors = [&](size_t tensor, int v) {
    return size_of(p.tensors[tensor].dtype) * static_cast<size_t>(v) <= 16 &&
           impl->nest.vectors(tensor, p.tensors[tensor], v);
  };
  const auto all_vectors = [&](int v) { return vectors(0, v) && (!p.backward || vectors(5, v)); };
  RowForm form;
  form.vector = all_vectors(8) ? 8 : all_vectors(4) ? 4 : 1;
  if (!p.loss.probabilities && p.loss.desc.params.label_smoothing == 0)
    form.try_ragged(impl->nest, p.backward ? std::vector<size_t>{0, 5} : std::vector<size_t>{0}, p.tensors);
  form.choose(context.device(), impl->nest, 32);
  defines.set("ACROSS", impl->nest.across());
  defines.set("T_VECTOR", p.loss.probabilities && vectors(1, form.vector));
  impl->kernel = form.kernel(context, "cross_entropy", kernel_name(p), defines);
  impl->local = static_cast<size_t>(form.group());
  impl->groups = static_cast<size_t>(ceil_div(impl->nest.rows_a_launch(), form.rows));
  return impl;
}

std::unique_ptr<const CrossEntropyImpl> make_cpu(const Context& context, const Problem& p,
                                                 const EngineOptions&) {
  Defines defines;
  auto impl = start(p, defines);
  const RowNest& nest = impl->nest;
  const CpuRows rows(nest);
  rows.define(defines, nest, 0, "A", p.tensors[0].dtype);
  rows.define(defines, nest, 1, "T", p.tensors[1].dtype);
  if (p.backward) rows.define(defines, nest, 5, "D", p.tensors[5].dtype);
  defines.set("ACROSS", rows.across).set("LANES", rows.lanes);
  impl->kernel = context.state().programs.kernel("cross_entropy_cpu", kernel_name(p), defines);
  impl->cpu = true;
  impl->block = rows.block;
  impl->groups = static_cast<size_t>(rows.groups);
  return impl;
}

constexpr Engine<Problem, CrossEntropyImpl> kRow{"row", nullptr, make_row, avoid_on_cpus},
    kCpu{"cpu", nullptr, make_cpu};
constexpr EngineList<Problem, CrossEntropyImpl> kEngines = {&kRow, &kCpu};

std::shared_ptr<const CrossEntropyImpl> choose(const Context& context, const Problem& p,
                                               const Options& options, PlanInfo& info) {
  return choose_engine(kernel_name(p), kEngines, context, p, options, info);
}

/// What a run's log shows, and the workspace that the sums want, within the limit.
std::shared_ptr<const PlanInfo> finish(PlanInfo info, const Problem& p, size_t workspace,
                                       const Options& options) {
  const ClassLossDesc& d = p.loss.desc;
  const PlanInfo said =
      p.loss.info(workspace, traffic({d.x, d.target}) + traffic({p.tensors[p.backward ? 5 : 3]}));
  info.text = cat("op=", kernel_name(p), " engine=", info.engine, " ", said.text);
  info.flops = 5 * static_cast<double>(element_count(d.x.shape));
  info.bytes = said.bytes;
  info.workspace = workspace;
  const std::string refusal = workspace_refusal(workspace, options);
  require(refusal.empty(), "workspace_limit", kernel_name(p), ": ", refusal);
  return std::make_shared<const PlanInfo>(std::move(info));
}

/// `rest` binds what only one direction has.
template <class F>
void launch(const Stream& stream, const CrossEntropyImpl& impl, const ClassLoss& p,
            const std::vector<Tensor>& tensors, const F& rest) {
  impl.nest.launch(stream, impl.kernel, tensors, [&](Launch& launch) {
    launch.arg(p.desc.params.ignore_index);
    launch.real(p.real, p.desc.params.label_smoothing);
    rest(launch);
    if (impl.cpu) launch.arg(impl.block);
    launch.run({impl.groups * impl.local}, {impl.local});
  });
}

}  // namespace

struct CrossEntropy::Impl {
  ClassLoss problem;
  ClassLossSum sum;
  std::shared_ptr<const CrossEntropyImpl> kernel;
};

CrossEntropy::CrossEntropy(const Context& context, const ClassLossDesc& desc, const Options& options)
    : Plan(nullptr) {
  const Problem p = problem_of(ClassLoss("x", "loss", desc, true), nullptr);
  require_writable("loss", desc.loss);
  PlanInfo info;
  auto kernel = choose(context, p, options, info);
  WorkspaceParts parts;
  impl_ = std::make_shared<const Impl>(
      Impl{p.loss, ClassLossSum(context, p.loss, parts, options), std::move(kernel)});
  info_ = finish(std::move(info), p, parts.size(), options);
}

void CrossEntropy::run(const Stream& stream, const Tensor& x, const Tensor& target, const Tensor& weight,
                       const Tensor& loss, const Tensor& workspace) const {
  const ClassLoss& p = impl_->problem;
  require_stream(*info_, stream);
  p.require_forward(stream, x, target, weight, loss, workspace);
  const Tensor space = workspace_for(*info_, stream, workspace);
  const OperatorScope scope(stream, *info_);
  p.search_labels(stream, "cross_entropy", target);
  const Tensor terms = p.reduced() ? impl_->sum.terms(space) : loss;
  launch(stream, *impl_->kernel, p, {x, target, weight, terms, impl_->sum.weights(space)}, [](Launch&) {});
  impl_->sum.run(stream, loss, space);
}

struct CrossEntropyBackward::Impl {
  ClassLoss problem;
  TensorDesc dx;
  ClassWeightSum total;
  std::shared_ptr<const CrossEntropyImpl> kernel;
};

CrossEntropyBackward::CrossEntropyBackward(const Context& context, const CrossEntropyBackwardDesc& desc,
                                           const Options& options)
    : Plan(nullptr) {
  const ClassLossDesc forward{desc.x, desc.target, desc.dloss, desc.weight, desc.params};
  const Problem p = problem_of(ClassLoss("x", "dloss", forward, true), &desc.dx);
  require_floating("dx", desc.dx, p.loss.real == DType::f64);
  require_shape("dx", desc.dx, desc.x.shape);
  require_writable("dx", desc.dx);
  PlanInfo info;
  auto kernel = choose(context, p, options, info);
  WorkspaceParts parts;
  impl_ = std::make_shared<const Impl>(
      Impl{p.loss, desc.dx, ClassWeightSum(context, p.loss, parts, options), std::move(kernel)});
  info_ = finish(std::move(info), p, parts.size(), options);
}

void CrossEntropyBackward::run(const Stream& stream, const Tensor& dloss, const Tensor& x,
                               const Tensor& target, const Tensor& weight, const Tensor& dx,
                               const Tensor& workspace) const {
  const ClassLoss& p = impl_->problem;
  require_stream(*info_, stream);
  require_tensor("dloss", dloss, stream.context(), p.desc.loss);
  require_tensor("x", x, stream.context(), p.desc.x);
  require_tensor("target", target, stream.context(), p.desc.target);
  require_optional("weight", weight, stream.context(), p.desc.weight);
  require_tensor("dx", dx, stream.context(), impl_->dx);
  require_same_or_apart({"dx", dx}, {"x", x});
  require_apart({{"dx", dx}}, {{"dloss", dloss}, {"target", target}, {"weight", weight}});
  require_apart({{"workspace", workspace}},
                {{"dloss", dloss}, {"x", x}, {"target", target}, {"weight", weight}, {"dx", dx}});
  if (dx.numel() == 0) return;
  const Tensor space = workspace_for(*info_, stream, workspace);
  const OperatorScope scope(stream, *info_);
  p.search_labels(stream, "cross_entropy_backward", target);
  const Tensor total = impl_->total.run(stream, target, weight, space);
  const bool divided = p.mean() && p.probabilities;
  launch(stream, *impl_->kernel, p, {x, target, weight, dloss, total, dx},
         [&](Launch& launch) { launch.real(p.real, divided ? 1 / static_cast<double>(p.rows()) : 1); });
}

void cross_entropy(const Stream& stream, const Tensor& x, const Tensor& target, const Tensor& weight,
                   const ClassLossParams& params, const Tensor& loss, const Options& options,
                   const Tensor& workspace) {
  require_defined({{"x", x}, {"target", target}, {"loss", loss}});
  const ClassLossDesc desc{x, target, loss, described(weight), params};
  cached_plan<CrossEntropy>(stream, "cross_entropy", desc, options, workspace)
      ->run(stream, x, target, weight, loss, workspace);
}

void cross_entropy_backward(const Stream& stream, const Tensor& dloss, const Tensor& x, const Tensor& target,
                            const Tensor& weight, const ClassLossParams& params, const Tensor& dx,
                            const Options& options, const Tensor& workspace) {
  require_defined({{"dloss", dloss}, {"x", x}, {"target", target}, {"dx", dx}});
  const CrossEntropyBackwardDesc desc{dloss, x, target, dx, described(weight), params};
  cached_plan<CrossEntropyBackward>(stream, "cross_entropy_backward", desc, options, workspace)
      ->run(stream, dloss, x, target, weight, dx, workspace);
}

}  // namespace dlprim
