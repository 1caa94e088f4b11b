// Group normalisation, backward, by generated kernels. With n = (x - mean) * inv_std: one reduction gives the
// sums of dy and of dy n of each channel of each image; dweight and dbias are those over images, and what a
// group takes off dx those over its channels times weight; then one pointwise step. x and dy are read twice.
#include <dlprim/group_norm.hpp>
#include <dlprim/pointwise.hpp>

#include <algorithm>

#include "ops/norm/group_norm_impl.hpp"
#include "ops/norm/norm_checks.hpp"

namespace dlprim::detail {
template <>
inline constexpr int kFields<GroupNormBackwardDesc> = 7;
}  // namespace dlprim::detail

namespace dlprim {

using namespace detail;

struct GroupNormBackward::Impl {
  Pointwise spread;  ///< mean and inv_std from groups to channels
  Reduce sums;
  std::optional<Reduce> dweight, dbias, group;
  std::optional<Pointwise> factors, finish;
  NormGradients gradients;
  TensorDesc channels, by_group, per_group, image;
  size_t mean_at = 0, inv_std_at = 0, level_at = 0, slope_at = 0, group_level_at = 0, group_slope_at = 0,
         scratch_at = 0;
  double share = 0;

  Impl(Pointwise a, Reduce b) : spread(std::move(a)), sums(std::move(b)) {}
};

namespace {

Reduction two_sums(const std::string& first, const std::string& second, const std::string& times) {
  return {2, "a0 = 0; a1 = 0", cat("a0 += ", first, "; a1 += ", second), "a0 += b0; a1 += b1",
          cat("y0 = a0", times, "; y1 = a1", times)};
}

NormGradients check(const GroupNormBackwardDesc& d) {
  NormGradients g{d.dy, d.x, d.weight, d.dx, d.dweight, d.dbias};
  require_groups(d.x, d.groups);
  check_gradients(g, {d.x.shape[1]});
  g.statistics = statistics_desc({d.x.shape[0], d.groups}, g.real());
  return g;
}

}  // namespace

GroupNormBackward::GroupNormBackward(const Context& context, const GroupNormBackwardDesc& desc,
                                     const Options& options)
    : Plan(nullptr), desc_(desc) {
  const NormGradients gradients = check(desc);
  const DType real = gradients.real();
  const TensorDesc channels = image_channels(desc.x, real), group = group_desc(desc.x, desc.groups, real);
  const TensorDesc by_group = channels_by_group(desc.x, desc.groups, real);
  TensorDesc image(Shape{desc.x.shape[0], desc.x.shape[1]}, real);
  WorkspaceParts parts;
  const auto bytes = static_cast<size_t>(traffic({channels})),
             group_bytes = static_cast<size_t>(traffic({group}));
  const size_t mean_at = parts.add(bytes), inv_std_at = parts.add(bytes), level_at = parts.add(bytes),
               slope_at = parts.add(bytes), group_level_at = parts.add(group_bytes),
               group_slope_at = parts.add(group_bytes);
  const Options rest = parts.rest(options);
  auto impl =
      std::make_shared<Impl>(Pointwise(context, {group, group}, {by_group, by_group}, 0, "y0 = x0; y1 = x1"),
                             Reduce(context, {desc.dy, desc.x, channels, channels}, {channels, channels}, 0,
                                    two_sums("x0", "x0 * ((x1 - x2) * x3)", ""), rest));
  size_t scratch = impl->sums.workspace_size();
  const auto over_images = [&](std::optional<Reduce>& step, const std::optional<TensorDesc>& target) {
    if (!target) return;
    step.emplace(context, std::vector<TensorDesc>{image}, std::vector<TensorDesc>{*target}, 0, sum_of("x0"),
                 rest);
    scratch = std::max(scratch, step->workspace_size());
  };
  over_images(impl->dweight, desc.dweight);
  over_images(impl->dbias, desc.dbias);
  if (desc.dx) {
    std::vector<TensorDesc> small = {by_group, by_group};
    if (desc.weight) small.push_back(split_channels(*desc.weight, desc.groups));
    const std::string weight = desc.weight ? " * x2" : "";
    impl->group.emplace(context, small, std::vector<TensorDesc>{group, group}, 1,
                        two_sums("x0" + weight, "x1" + weight, " * s0"), rest);
    scratch = std::max(scratch, impl->group->workspace_size());
    // dx = dy * (inv_std weight) - inv_std level - (x - mean) * (inv_std^2 slope)
    small = {group, group, group};
    if (desc.weight) small.push_back(split_channels(*desc.weight, desc.groups));
    impl->factors.emplace(context, small, std::vector<TensorDesc>{by_group, by_group, by_group}, 0,
                          cat("y0 = x0", desc.weight ? " * x3" : "", "; y1 = x0 * x1; y2 = x0 * x0 * x2"));
    impl->finish.emplace(context,
                         std::vector<TensorDesc>{desc.dy, desc.x, channels, channels, channels, channels},
                         std::vector<TensorDesc>{*desc.dx}, 0, "y0 = x0 * x3 - x4 - (x1 - x2) * x5");
  }
  impl->channels = channels, impl->by_group = by_group, impl->per_group = group, impl->image = image;
  impl->gradients = gradients;
  impl->mean_at = mean_at, impl->inv_std_at = inv_std_at, impl->level_at = level_at,
  impl->slope_at = slope_at;
  impl->group_level_at = group_level_at, impl->group_slope_at = group_slope_at;
  impl->scratch_at = parts.add(scratch);
  const auto rows = static_cast<double>(element_count(group.shape));
  impl->share = rows / std::max(static_cast<double>(element_count(desc.x.shape)), 1.0);
  PlanInfo info;
  info.text = cat("dy=", brief(desc.dy), " x=", brief(desc.x), " groups=", desc.groups, " ",
                  optional_text(gradients));
  info.flops = 12 * static_cast<double>(element_count(desc.x.shape));
  info.bytes = traffic({desc.dy, desc.x}) + (desc.dx ? traffic({*desc.dx}) : 0);
  info.workspace = parts.size();
  info_ = single_engine("group_norm_backward", "generated", "", context, options, std::move(info));
  impl_ = std::move(impl);
}

void GroupNormBackward::run(const Stream& stream, const Tensor& dy, const Tensor& x, const Tensor& weight,
                            const Tensor& mean, const Tensor& inv_std, const Tensor& dx,
                            const Tensor& dweight, const Tensor& dbias, const Tensor& workspace) const {
  require_stream(*info_, stream);
  const Impl& impl = *impl_;
  require_gradients(stream, impl.gradients, {dy, x, weight, mean, inv_std, dx, dweight, dbias, workspace});
  if (x.shape()[1] == 0) return;
  const Tensor space = workspace_for(*info_, stream, workspace);
  const OperatorScope scope(stream, *info_);
  const auto part = [&](size_t at, const TensorDesc& d) {
    return workspace_part(space, at, d.shape, d.dtype);
  };
  const auto scratch = [&](const Reduce& r) { return workspace_scratch(space, impl.scratch_at, r); };
  if (x.shape()[0] == 0) {  // no images: their sums are 0
    const Tensor none(stream, impl.image.shape, impl.image.dtype);
    if (impl.dweight) impl.dweight->run(stream, {none}, {dweight}, {}, scratch(*impl.dweight));
    if (impl.dbias) impl.dbias->run(stream, {none}, {dbias}, {}, scratch(*impl.dbias));
    return;
  }
  const Tensor center = part(impl.mean_at, impl.channels), inverse = part(impl.inv_std_at, impl.channels);
  const Tensor level = part(impl.level_at, impl.channels), slope = part(impl.slope_at, impl.channels);
  const auto grouped = [&](const Tensor& t) { return viewed(t, impl.by_group); };
  const Tensor group_mean = viewed(mean, impl.per_group), group_inv = viewed(inv_std, impl.per_group);
  impl.spread.run(stream, {group_mean, group_inv}, {grouped(center), grouped(inverse)}, {});
  impl.sums.run(stream, {dy, x, center, inverse}, {level, slope}, {}, scratch(impl.sums));
  if (impl.dweight)
    impl.dweight->run(stream, {viewed(slope, impl.image)}, {dweight}, {}, scratch(*impl.dweight));
  if (impl.dbias) impl.dbias->run(stream, {viewed(level, impl.image)}, {dbias}, {}, scratch(*impl.dbias));
  if (!impl.finish || dx.numel() == 0) return;
  const Tensor group_level = part(impl.group_level_at, impl.per_group),
               group_slope = part(impl.group_slope_at, impl.per_group);
  std::vector<Tensor> small = {grouped(level), grouped(slope)},
                      factors = {group_inv, group_level, group_slope};
  if (weight.defined()) {
    small.push_back(viewed(weight, split_channels(*desc_.weight, desc_.groups)));
    factors.push_back(small.back());
  }
  impl.group->run(stream, small, {group_level, group_slope}, {impl.share}, scratch(*impl.group));
  // The channels' inv_std and sums give their places to the factors of dy, 1 and x - mean.
  impl.factors->run(stream, factors, {grouped(inverse), grouped(level), grouped(slope)}, {});
  impl.finish->run(stream, {dy, x, center, inverse, level, slope}, {dx}, {});
}

void group_norm_backward(const Stream& stream, const Tensor& dy, const Tensor& x, const Tensor& weight,
                         const Tensor& mean, const Tensor& inv_std, int64_t groups, const Tensor& dx,
                         const Tensor& dweight, const Tensor& dbias, const Options& options,
                         const Tensor& workspace) {
  require_defined({{"dy", dy}, {"x", x}});
  const GroupNormBackwardDesc desc{
      dy, x, described(weight), described(dx), described(dweight), described(dbias), groups};
  cached_plan<GroupNormBackward>(stream, "group_norm_backward", desc, options, workspace)
      ->run(stream, dy, x, weight, mean, inv_std, dx, dweight, dbias, workspace);
}

}  // namespace dlprim
