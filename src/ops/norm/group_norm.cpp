// Group normalisation, forward: the row kernels, and for other strides an engine of generated kernels:
// moments of each channel of each image, which are merged to those of groups, and a pointwise step.
#include <dlprim/group_norm.hpp>
#include <dlprim/pointwise.hpp>

#include "ops/norm/group_norm_impl.hpp"
#include "ops/norm/norm_checks.hpp"

namespace dlprim::detail {
template <>
inline constexpr int kFields<GroupNormDesc> = 8;
}  // namespace dlprim::detail

namespace dlprim {

using namespace detail;

namespace detail {

void require_groups(const TensorDesc& x, int64_t groups) {
  require(x.shape.size() >= 2, "x", "rank ", x.shape.size(), " must be 2 or more, [N, C, ...]");
  require(groups >= 1 && x.shape[1] % groups == 0, "groups", groups, " must divide ", x.shape[1],
          " channels");
}

TensorDesc image_channels(const TensorDesc& x, DType dtype) {
  Shape shape = Dims::filled(x.shape.size(), 1);
  shape[0] = x.shape[0], shape[1] = x.shape[1];
  return {shape, dtype};
}

TensorDesc across_images(const TensorDesc& x, const TensorDesc& channels) {
  const int rank = x.shape.size();
  TensorDesc result(Dims::filled(rank, 1), Dims::filled(rank, 1), channels.dtype, channels.aligned);
  result.shape[1] = channels.shape[0], result.strides[1] = channels.strides[0];
  return result;
}

TensorDesc group_desc(const TensorDesc& x, int64_t groups, DType dtype) {
  return statistics_desc({x.shape[0], groups, 1}, dtype);
}

TensorDesc channels_by_group(const TensorDesc& x, int64_t groups, DType dtype) {
  return {Shape{x.shape[0], groups, x.shape[1] / groups}, dtype};
}

TensorDesc split_channels(const TensorDesc& channels, int64_t groups) {
  const int64_t together = channels.shape[0] / groups, step = channels.strides[0];
  return {Shape{groups, together}, Strides{together * step, step}, channels.dtype, channels.aligned};
}

}  // namespace detail

struct GroupNorm::Impl {
  NormPlan plan;
};

namespace {

struct Generated : NormImpl {
  Reduce moments, merge;
  Pointwise spread, normalize;
  NormProblem p;
  TensorDesc channels, by_group, group;
  size_t mean_at = 0, squares_at = 0, group_mean_at = 0, group_inv_at = 0, scratch_at = 0, size = 0;

  Generated(Reduce a, Reduce b, Pointwise c, Pointwise d)
      : moments(std::move(a)), merge(std::move(b)), spread(std::move(c)), normalize(std::move(d)) {}
  size_t workspace_size() const override { return size; }

  void run(const Stream& stream, const NormTensors& t) const override {
    if (element_count(group.shape) == 0) return;
    const auto part = [&](size_t at, const TensorDesc& d) {
      return workspace_part(t.workspace, at, d.shape, d.dtype);
    };
    const auto wanted_or = [&](const Tensor& given, size_t at) {
      return p.statistics ? viewed(given, group) : part(at, group);
    };
    const Tensor mean = wanted_or(t.mean, group_mean_at), inv_std = wanted_or(t.inv_std, group_inv_at);
    std::vector<Tensor> merged = {mean, inv_std};
    if (p.variance) merged.push_back(viewed(t.variance, group));
    // First those of channels; then their places hold what a channel takes off and is multiplied by.
    const Tensor first = part(mean_at, channels), second = part(squares_at, channels);
    const auto scratch_of = [&](const Reduce& r) { return workspace_scratch(t.workspace, scratch_at, r); };
    moments.run(stream, {t.x}, {first, second}, {}, scratch_of(moments));
    const double plane = static_cast<double>(p.plane);
    merge.run(stream, {viewed(first, by_group), viewed(second, by_group)}, merged, {plane, p.epsilon},
              scratch_of(merge));
    std::vector<Tensor> small = {mean, inv_std};
    if (p.weight) small.push_back(viewed(t.weight, split_channels(*p.weight, p.groups)));
    spread.run(stream, small, {viewed(first, by_group), viewed(second, by_group)}, {});
    std::vector<Tensor> inputs = {t.x, first, second};
    if (p.bias) inputs.push_back(viewed(t.bias, across_images(p.x, *p.bias)));
    normalize.run(stream, inputs, {t.y}, {});
  }
};

/// Merges means and squares of channels of s0 elements each, by Chan, Golub and LeVeque.
Reduction merged_moments(bool variance) {
  const std::string merge =
      "const real w_ = n_ > 0 ? m_ / n_ : 0, d_ = u_ - a1; a2 += q_ + a0 * w_ * d_ * d_; a1 += d_ * w_; a0 = "
      "n_";
  return {3, "a0 = 0; a1 = 0; a2 = 0", "const real m_ = s0, n_ = a0 + m_, u_ = x0, q_ = x1; " + merge,
          "const real m_ = b0, n_ = a0 + m_, u_ = b1, q_ = b2; " + merge,
          std::string("y0 = a0 > 0 ? a1 : NAN; y1 = 1 / sqrt(a2 / a0 + s1)") +
              (variance ? "; y2 = a2 / (a0 - 1)" : "")};
}

std::unique_ptr<const NormImpl> make_generated(const Context& context, const NormProblem& p,
                                               const EngineOptions& options) {
  const DType real = p.real();
  const TensorDesc channels = image_channels(p.x, real), by_group = channels_by_group(p.x, p.groups, real);
  const TensorDesc group = group_desc(p.x, p.groups, real);
  WorkspaceParts parts;
  const auto bytes = static_cast<size_t>(traffic({channels}));
  const auto group_bytes = p.statistics ? 0 : static_cast<size_t>(traffic({group}));
  const size_t mean_at = parts.add(bytes), squares_at = parts.add(bytes),
               group_mean_at = parts.add(group_bytes), group_inv_at = parts.add(group_bytes);
  const Options rest = parts.rest(options);

  std::vector<TensorDesc> merged = {group, group}, small = {group, group}, inputs = {p.x, channels, channels};
  if (p.variance) merged.push_back(group);
  if (p.weight) small.push_back(split_channels(*p.weight, p.groups));
  if (p.bias) inputs.push_back(across_images(p.x, *p.bias));
  auto impl = std::make_unique<Generated>(
      Reduce(context, {p.x}, {channels, channels}, 0,
             moments_of("x0", "y0 = count > 0 ? mean : 0; y1 = squares"), rest),
      Reduce(context, {by_group, by_group}, merged, 2, merged_moments(p.variance), rest),
      Pointwise(context, small, {by_group, by_group}, 0, cat("y0 = x0; y1 = x1", p.weight ? " * x2" : "")),
      Pointwise(context, inputs, {p.y}, 0, cat("y0 = (x0 - x1) * x2", p.bias ? " + x3" : "")));
  impl->p = p;
  impl->channels = channels, impl->by_group = by_group, impl->group = group;
  impl->mean_at = mean_at, impl->squares_at = squares_at;
  impl->group_mean_at = group_mean_at, impl->group_inv_at = group_inv_at;
  impl->scratch_at = parts.add(std::max(impl->moments.workspace_size(), impl->merge.workspace_size()));
  impl->size = parts.size();
  return impl;
}

}  // namespace

const NormEngine detail::kNormGroups = {"generated", nullptr, make_generated};

NormProblem detail::group_norm_problem(const GroupNormDesc& d) {
  NormProblem p;
  p.x = d.x, p.y = d.y, p.weight = d.weight, p.bias = d.bias;
  p.epsilon = d.epsilon;
  const Shape& x = d.x.shape;
  require_groups(d.x, d.groups);
  check_norm(p, {x[1]});
  p.statistics = d.statistics, p.variance = d.variance;
  p.turns = d.groups, p.groups = static_cast<int>(d.groups);
  p.rows = x[0] * d.groups;
  p.plane = 1;
  for (int i = 2; i < x.size(); i++) p.plane *= x[i];
  p.length = p.x_row = p.y_row = x[1] / d.groups * p.plane;
  if (!is_row_major(d.x) || !is_row_major(d.y)) p.no_rows = "x or y is not row-major";
  if (p.plane == 0) p.no_rows = "there are no elements";
  return p;
}

GroupNorm::GroupNorm(const Context& context, const GroupNormDesc& desc, const Options& options)
    : Plan(nullptr) {
  const NormProblem p = group_norm_problem(desc);
  auto engine = norm_plan("group_norm", kGroupNormEngines, context, p, options,
                          cat(" groups=", desc.groups, " statistics=", desc.statistics), info_);
  const Shape statistics{desc.x.shape[0], desc.groups};
  impl_ = std::make_shared<const Impl>(Impl{{std::move(engine), p, statistics_desc(statistics, p.real())}});
}

void GroupNorm::run(const Stream& stream, const Tensor& x, const Tensor& weight, const Tensor& bias,
                    const Tensor& y, const Tensor& mean, const Tensor& inv_std, const Tensor& variance,
                    const Tensor& workspace) const {
  impl_->plan.run(*info_, stream, {x, weight, bias, y, mean, inv_std, variance, workspace});
}

void group_norm(const Stream& stream, const Tensor& x, const Tensor& weight, const Tensor& bias,
                int64_t groups, double epsilon, const Tensor& y, const Tensor& mean, const Tensor& inv_std,
                const Options& options, const Tensor& workspace) {
  require_defined({{"x", x}, {"y", y}});
  require(mean.defined() == inv_std.defined(), mean.defined() ? "inv_std" : "mean",
          "is not defined, though the other statistic is");
  const GroupNormDesc desc{x, y, described(weight), described(bias), groups, epsilon, mean.defined(), false};
  cached_plan<GroupNorm>(stream, "group_norm", desc, options, workspace)
      ->run(stream, x, weight, bias, y, mean, inv_std, {}, workspace);
}

}  // namespace dlprim
