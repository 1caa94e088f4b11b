// Pooling of regions: tables of weights, then a kernel over y or dx; and the largest element of each bin.
#include <dlprim/roi.hpp>

#include <cmath>

#include "ops/roi/roi_tables.hpp"

namespace dlprim::detail {
template <>
inline constexpr int kFields<RoiParams> = 5;
template <>
inline constexpr int kFields<RoiPoolDesc> = 4;
template <>
inline constexpr int kFields<RoiPoolBackwardDesc> = 4;
template <>
inline constexpr int kFields<RoiMaxPoolDesc> = 5;
}  // namespace dlprim::detail

namespace dlprim {

using namespace detail;

namespace {

void require_packed(const char* name, const TensorDesc& t) {
  require(is_row_major(t), name, "strides ", t.strides, " must be row-major");
}

void check(const RoiParams& params) {
  require(std::isfinite(params.scale), "scale", params.scale, " must be finite");
}

std::string text_of(const RoiParams& p) {
  return cat(" bins=", p.bins == RoiBins::samples ? "samples" : "elements", " scale=", p.scale,
             " samples=", p.samples, " aligned=", p.aligned ? 1 : 0, " by_position=", p.by_position ? 1 : 0);
}

}  // namespace

struct RoiPool::Impl {
  Impl(const Context& context, const RoiPoolDesc& d)
      : sizes(roi_sizes(d.x, "x", d.rois, d.y, "y", d.params.by_position)),
        real(roi_real(context, {d.x, d.rois, d.y})),
        defines(roi_defines(d.x, d.rois, d.y, real, d.params)),
        x(context, d.x, layout),
        rois(context, d.rois, layout),
        down(context, defines, true, false, sizes, real, layout),
        across(context, defines, false, false, sizes, real, layout) {
    defines.set("ROWS", 1);
    kernel = context.state().programs.kernel("roi_pool", "roi_pool", defines);
  }
  RoiSizes sizes;
  DType real;
  Defines defines;
  WorkspaceParts layout;
  RowMajor x, rois;
  RoiTable down, across;
  Kernel kernel;
};

RoiPool::RoiPool(const Context& context, const RoiPoolDesc& desc, const Options& options)
    : Plan(nullptr), desc_(desc) {
  check(desc.params);
  auto impl = std::make_shared<Impl>(context, desc);
  require_packed("y", desc.y);
  PlanInfo info;
  info.text =
      cat("x=", brief(desc.x), " rois=", brief(desc.rois), " y=", brief(desc.y), text_of(desc.params));
  info.bytes = traffic({desc.x, desc.rois, desc.y});
  info.workspace = impl->layout.size();
  info_ = single_engine("roi_pool", "direct", workspace_refusal(info.workspace, options), context, options,
                        std::move(info));
  impl_ = std::move(impl);
}

void RoiPool::run(const Stream& stream, const Tensor& x, const Tensor& rois, const Tensor& y,
                  const Tensor& workspace) const {
  const Impl& p = *impl_;
  require_stream(*info_, stream);
  require_tensor("x", x, stream.context(), desc_.x);
  require_tensor("rois", rois, stream.context(), desc_.rois);
  require_tensor("y", y, stream.context(), desc_.y);
  require_apart({{"y", y}, {"workspace", workspace}}, {{"x", x}, {"rois", rois}});
  if (y.numel() == 0) return;
  const Tensor space = workspace_for(*info_, stream, workspace);
  const OperatorScope scope(stream, *info_);
  const Tensor image = p.x.of(stream, x, space), regions = p.rois.of(stream, rois, space);
  p.down.run(stream, regions, desc_.params, space);
  p.across.run(stream, regions, desc_.params, space);
  Launch launch(stream, p.kernel);
  launch.arg(image).arg(regions);
  launch.arg(p.down.weights(space)).arg(p.down.ends(space));
  launch.arg(p.across.weights(space)).arg(p.across.ends(space)).arg(y);
  p.sizes.bind(launch);
  launch.arg(y.numel()).run({items_in_groups(y.numel(), 64)}, {64});
}

void roi_pool(const Stream& stream, const Tensor& x, const Tensor& rois, const RoiParams& params,
              const Tensor& y, const Options& options, const Tensor& workspace) {
  require_defined({{"x", x}, {"rois", rois}, {"y", y}});
  const RoiPoolDesc desc{x, rois, y, params};
  cached_plan<RoiPool>(stream, "roi_pool", desc, options, workspace)->run(stream, x, rois, y, workspace);
}

struct RoiPoolBackward::Impl {
  Impl(const Context& context, const RoiPoolBackwardDesc& d)
      : sizes(roi_sizes(d.dx, "dx", d.rois, d.dy, "dy", d.params.by_position)),
        real(roi_real(context, {d.dx, d.rois, d.dy})),
        defines(roi_defines(d.dx, d.rois, d.dy, real, d.params)),
        dy(context, d.dy, layout),
        rois(context, d.rois, layout),
        down(context, defines, true, true, sizes, real, layout),
        across(context, defines, false, true, sizes, real, layout),
        channels(d.params.by_position ? 1 : 8) {
    defines.set("ROWS", 1);
    kernel = context.state().programs.kernel("roi_pool", "roi_pool_backward", defines);
  }
  RoiSizes sizes;
  DType real;
  Defines defines;
  WorkspaceParts layout;
  RowMajor dy, rois;
  RoiTable down, across;
  Kernel kernel;
  int channels;
};

RoiPoolBackward::RoiPoolBackward(const Context& context, const RoiPoolBackwardDesc& desc,
                                 const Options& options)
    : Plan(nullptr), desc_(desc) {
  check(desc.params);
  auto impl = std::make_shared<Impl>(context, desc);
  require_packed("dx", desc.dx);
  PlanInfo info;
  info.text =
      cat("dy=", brief(desc.dy), " rois=", brief(desc.rois), " dx=", brief(desc.dx), text_of(desc.params));
  info.bytes = traffic({desc.dx, desc.rois, desc.dy});
  info.workspace = impl->layout.size();
  info_ = single_engine("roi_pool_backward", "direct", workspace_refusal(info.workspace, options), context,
                        options, std::move(info));
  impl_ = std::move(impl);
}

void RoiPoolBackward::run(const Stream& stream, const Tensor& dy, const Tensor& rois, const Tensor& dx,
                          const Tensor& workspace) const {
  const Impl& p = *impl_;
  require_stream(*info_, stream);
  require_tensor("dy", dy, stream.context(), desc_.dy);
  require_tensor("rois", rois, stream.context(), desc_.rois);
  require_tensor("dx", dx, stream.context(), desc_.dx);
  require_apart({{"dx", dx}, {"workspace", workspace}}, {{"dy", dy}, {"rois", rois}});
  if (dx.numel() == 0) return;
  const Tensor space = workspace_for(*info_, stream, workspace);
  const OperatorScope scope(stream, *info_);
  if (dy.numel() == 0) return fill(stream, 0, dx);
  const Tensor gradient = p.dy.of(stream, dy, space), regions = p.rois.of(stream, rois, space);
  p.down.run(stream, regions, desc_.params, space);
  p.across.run(stream, regions, desc_.params, space);
  Launch launch(stream, p.kernel);
  launch.arg(gradient).arg(regions);
  launch.arg(p.down.weights(space)).arg(p.down.ends(space));
  launch.arg(p.across.weights(space)).arg(p.across.ends(space)).arg(dx);
  p.sizes.bind(launch);
  const int64_t count =
      int64_t{p.sizes.images} * ceil_div(p.sizes.channels, p.channels) * p.sizes.height * p.sizes.width;
  launch.arg(count).run({items_in_groups(count, 64)}, {64});
}

void roi_pool_backward(const Stream& stream, const Tensor& dy, const Tensor& rois, const RoiParams& params,
                       const Tensor& dx, const Options& options, const Tensor& workspace) {
  require_defined({{"dy", dy}, {"rois", rois}, {"dx", dx}});
  const RoiPoolBackwardDesc desc{dy, rois, dx, params};
  cached_plan<RoiPoolBackward>(stream, "roi_pool_backward", desc, options, workspace)
      ->run(stream, dy, rois, dx, workspace);
}

struct RoiMaxPool::Impl {
  Impl(const Context& context, const RoiMaxPoolDesc& d)
      : sizes(roi_sizes(d.x, "x", d.rois, d.y, "y", false)),
        real(roi_real(context, {d.x, d.rois, d.y})),
        x(context, d.x, layout),
        rois(context, d.rois, layout),
        kernel(context.state().programs.kernel("roi_pool", "roi_max_pool",
                                               roi_defines(d.x, d.rois, d.y, real, {}).set("ROWS", 1))) {}
  RoiSizes sizes;
  DType real;
  WorkspaceParts layout;
  RowMajor x, rois;
  Kernel kernel;
};

RoiMaxPool::RoiMaxPool(const Context& context, const RoiMaxPoolDesc& desc, const Options& options)
    : Plan(nullptr), desc_(desc) {
  require(std::isfinite(desc.scale), "scale", desc.scale, " must be finite");
  auto impl = std::make_shared<Impl>(context, desc);
  require_packed("y", desc.y);
  require_dtype("y", desc.y, desc.x.dtype);
  require_dtype("indices", desc.indices, DType::i32);
  require_shape("indices", desc.indices, desc.y.shape);
  require_packed("indices", desc.indices);
  PlanInfo info;
  info.text =
      cat("x=", brief(desc.x), " rois=", brief(desc.rois), " y=", brief(desc.y), " scale=", desc.scale);
  info.bytes = traffic({desc.x, desc.rois, desc.y, desc.indices});
  info.workspace = impl->layout.size();
  info_ = single_engine("roi_max_pool", "direct", workspace_refusal(info.workspace, options), context,
                        options, std::move(info));
  impl_ = std::move(impl);
}

void RoiMaxPool::run(const Stream& stream, const Tensor& x, const Tensor& rois, const Tensor& y,
                     const Tensor& indices, const Tensor& workspace) const {
  const Impl& p = *impl_;
  require_stream(*info_, stream);
  require_tensor("x", x, stream.context(), desc_.x);
  require_tensor("rois", rois, stream.context(), desc_.rois);
  require_tensor("y", y, stream.context(), desc_.y);
  require_tensor("indices", indices, stream.context(), desc_.indices);
  require_apart({{"y", y}, {"indices", indices}, {"workspace", workspace}}, {{"x", x}, {"rois", rois}});
  if (y.numel() == 0) return;
  const Tensor space = workspace_for(*info_, stream, workspace);
  const OperatorScope scope(stream, *info_);
  Launch launch(stream, p.kernel);
  launch.arg(p.x.of(stream, x, space)).arg(p.rois.of(stream, rois, space)).arg(y).arg(indices);
  p.sizes.bind(launch);
  launch.real(p.real, desc_.scale).arg(y.numel()).run({items_in_groups(y.numel(), 64)}, {64});
}

void roi_max_pool(const Stream& stream, const Tensor& x, const Tensor& rois, double scale, const Tensor& y,
                  const Tensor& indices, const Options& options, const Tensor& workspace) {
  require_defined({{"x", x}, {"rois", rois}, {"y", y}, {"indices", indices}});
  const RoiMaxPoolDesc desc{x, rois, y, indices, scale};
  cached_plan<RoiMaxPool>(stream, "roi_max_pool", desc, options, workspace)
      ->run(stream, x, rois, y, indices, workspace);
}

}  // namespace dlprim
