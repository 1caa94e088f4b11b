// Losses of classes: checks, and the sums over rows.
#include "ops/loss/class_loss.hpp"

#include "core/gen/expression.hpp"
#include "core/state.hpp"
#include "ops/loss/loss_reduction.hpp"

namespace dlprim::detail {
namespace {

void check_target(const ClassLossDesc& desc, bool probabilities) {
  const DType t = desc.target.dtype;
  require_strides("target", desc.target);
  if (probabilities) {
    require_shape("target", desc.target, desc.x.shape);
    return;
  }
  require(t == DType::i32 || t == DType::i64 || t == DType::u8, "target", "dtype ", name_of(t),
          " must be i32, i64 or u8");
  Shape rows;
  for (int i = 0; i < desc.x.shape.size(); i++)
    if (i != kClassAxis) rows.push_back(desc.x.shape[i]);
  require_shape("target", desc.target, rows);
  to_int("x", desc.x.shape[kClassAxis]);
}

}  // namespace

ClassLoss::ClassLoss(const char* x, const char* loss, const ClassLossDesc& given, bool takes_probabilities)
    : desc(given), probabilities(takes_probabilities && is_floating(given.target.dtype)) {
  require_loss_reduction(desc.params.reduction, false);
  require_floating(x, desc.x, true);
  const int rank = desc.x.shape.size();
  require(rank >= 2, x, "rank ", rank, " must be 2 or more, shape is ", to_string(desc.x.shape));
  check_target(desc, probabilities);
  Shape rows;
  for (int i = 0; i < rank; i++)
    if (i != kClassAxis) rows.push_back(desc.x.shape[i]);
  require_floating(loss, desc.loss, true);
  require_shape(loss, desc.loss, reduced() ? Shape{1} : rows);
  if (desc.weight) {
    require_floating("weight", *desc.weight, true);
    require_shape("weight", *desc.weight, {classes()});
  }
  const double smoothing = desc.params.label_smoothing;
  require(smoothing >= 0 && smoothing <= 1, "label_smoothing", smoothing, " must lie in [0, 1]");
  require(takes_probabilities || smoothing == 0, "label_smoothing", smoothing, " is for cross-entropy");
  for (const TensorDesc& t : {desc.x, desc.loss, desc.weight.value_or(TensorDesc()), desc.target})
    if (t.dtype == DType::f64) real = DType::f64;
}

TensorDesc ClassLoss::with_class_axis(const TensorDesc& desc) {
  TensorDesc result({}, {}, desc.dtype, desc.aligned);
  for (int i = 0; i < desc.shape.size(); i++) {
    if (i == kClassAxis) result.shape.push_back(1), result.strides.push_back(0);
    result.shape.push_back(desc.shape[i]);
    result.strides.push_back(desc.strides[i]);
  }
  if (desc.shape.size() == kClassAxis) result.shape.push_back(1), result.strides.push_back(0);
  return result;
}

TensorDesc ClassLoss::broadcast(const TensorDesc& one) const {
  const Dims ones = Dims::filled(desc.x.shape.size(), 1);
  return {ones, ones, one.dtype, one.aligned};
}

TensorDesc ClassLoss::weight() const {
  if (!desc.weight) return {};
  TensorDesc result = broadcast(*desc.weight);
  result.shape[kClassAxis] = classes();
  result.strides[kClassAxis] = desc.weight->strides[0];
  return result;
}

Defines ClassLoss::defines() const {
  Defines defines;
  define_type(defines, "A", desc.x.dtype);
  define_type(defines, "T", desc.target.dtype);
  define_type(defines, "W", desc.weight ? desc.weight->dtype : DType::f32);
  defines.set("REAL", compute_type(real)).set("WEIGHTED", desc.weight.has_value()).set("MEAN", weighed());
  return defines;
}

void ClassLoss::pick(const Stream& stream, const RowNest& nest, const Kernel& kernel,
                     const std::vector<Tensor>& tensors) const {
  const bool cpu = stream.context().device().kind() == DeviceKind::cpu;
  const int64_t block = cpu ? 1024 : 1, local = cpu ? 1 : 64;  // rows of a work-item, work-items of a group
  const size_t global = items_in_groups(ceil_div(nest.rows_a_launch(), block), local);
  nest.launch(stream, kernel, tensors, [&](Launch& launch) {
    launch.arg(desc.params.ignore_index).arg(block).run({global}, {static_cast<size_t>(local)});
  });
}

void ClassLoss::search_labels(const Stream& stream, const char* op, const Tensor& target) const {
  if (probabilities) return;
  check_index(stream, op, "target", target, {0, classes(), desc.params.ignore_index});
}

void ClassLoss::require_forward(const Stream& stream, const Tensor& x, const Tensor& target,
                                const Tensor& weight, const Tensor& loss, const Tensor& workspace) const {
  require_tensor("x", x, stream.context(), desc.x);
  require_tensor("target", target, stream.context(), desc.target);
  require_optional("weight", weight, stream.context(), desc.weight);
  require_tensor("loss", loss, stream.context(), desc.loss);
  require_apart({{"loss", loss}, {"workspace", workspace}},
                {{"x", x}, {"target", target}, {"weight", weight}});
}

PlanInfo ClassLoss::info(size_t workspace, double bytes) const {
  PlanInfo info;
  info.text =
      cat("x=", brief(desc.x), " target=", brief(desc.target), " reduction=", name_of(desc.params.reduction));
  if (desc.weight) info.text += " weight=1";
  if (desc.params.label_smoothing != 0) info.text += cat(" label_smoothing=", desc.params.label_smoothing);
  info.flops = static_cast<double>(rows());
  info.bytes = bytes;
  info.workspace = workspace;
  return info;
}

ClassLossSum::ClassLossSum(const Context& context, const ClassLoss& p, WorkspaceParts& parts,
                           const Options& options)
    : shape_(p.per_row().shape), real_(p.real), weighed_(p.weighed()) {
  if (!p.reduced()) return;
  const size_t bytes = static_cast<size_t>(p.rows()) * size_of(p.real);
  terms_at_ = parts.add(bytes);
  if (weighed_) weights_at_ = parts.add(bytes);
  const std::vector<TensorDesc> loss = {p.desc.loss};
  const TensorDesc row = p.per_row();
  if (weighed_)
    sum_.emplace(context, std::vector<TensorDesc>{row, row}, loss, 0,
                 Reduction{2, "a0 = 0; a1 = 0", "a0 += x0; a1 += x1", "a0 += b0; a1 += b1", "y0 = a0 / a1"},
                 parts.rest(options));
  else
    sum_.emplace(context, std::vector<TensorDesc>{row}, loss, 0,
                 sum_of("x0", p.mean() ? cat("y0 = a0 / ", p.rows()) : "y0 = a0"), parts.rest(options));
  scratch_at_ = parts.add(sum_->workspace_size());
}

void ClassLossSum::run(const Stream& stream, const Tensor& loss, const Tensor& space) const {
  if (!sum_) return;
  const auto given = [&](const Tensor& t) { return t.defined() ? t : Tensor(stream, shape_, real_); };
  std::vector<Tensor> inputs = {given(terms(space))};
  if (weighed_) inputs.push_back(given(weights(space)));
  sum_->run(stream, inputs, {loss}, {}, workspace_scratch(space, scratch_at_, *sum_));
}

ClassWeightSum::ClassWeightSum(const Context& context, const ClassLoss& p, WorkspaceParts& parts,
                               const Options& options)
    : problem_(p) {
  if (!p.weighed()) return;
  const TensorDesc row = p.per_row();
  nest_ = RowNest(p.desc.x.shape, kClassAxis, {TensorDesc(), p.target(), p.weight(), TensorDesc(), row});
  Defines defines = p.defines();
  nest_.define(defines);
  pick_ = context.state().programs.kernel("nll_loss", "nll_pick", defines.set("TERMS", 0));
  weights_at_ = parts.add(static_cast<size_t>(p.rows()) * size_of(p.real));
  total_at_ = parts.add(size_of(p.real));
  sum_.emplace(context, std::vector<TensorDesc>{row}, std::vector<TensorDesc>{TensorDesc({1}, p.real)}, 0,
               sum_of("x0"), parts.rest(options));
  scratch_at_ = parts.add(sum_->workspace_size());
}

Tensor ClassWeightSum::run(const Stream& stream, const Tensor& target, const Tensor& weight,
                           const Tensor& space) const {
  if (!sum_) return {};
  const Tensor weights = workspace_part(space, weights_at_, problem_.per_row().shape, problem_.real);
  const Tensor total = workspace_part(space, total_at_, {1}, problem_.real);
  problem_.pick(stream, nest_, pick_, {{}, target, weight, {}, weights});
  sum_->run(stream, {weights}, {total}, {}, workspace_scratch(space, scratch_at_, *sum_));
  return total;
}

}  // namespace dlprim::detail
