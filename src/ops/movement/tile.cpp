// Tiling: a copy of x along which y goes over and over, and the sum of what was repeated.
#include <dlprim/movement.hpp>
#include <dlprim/pointwise.hpp>

#include "ops/lib/view.hpp"

namespace dlprim::detail {
template <>
inline constexpr int kFields<TileDesc> = 2;
template <>
inline constexpr int kFields<TileBackwardDesc> = 2;
}  // namespace dlprim::detail

namespace dlprim {

using namespace detail;

struct Tile::Impl {
  TileDesc desc;
  ViewCopy copy;
};

struct TileBackward::Impl {
  TileBackwardDesc desc;
  View dy, dx;
  Reduce sum;
};

namespace {

/// y with, in front of each dimension that is repeated, one that counts the repetitions; and x like that.
struct Tiled {
  View x, y;
};
Tiled tiled(const char* x_name, const TensorDesc& x, const char* y_name, const TensorDesc& y) {
  const int rank = y.shape.size(), missing = rank - x.shape.size();
  require(missing >= 0, y_name, "rank ", rank, " must be ", x.shape.size(), " or more");
  int repeated = 0;
  for (int i = 0; i < rank; i++) {
    const int64_t own = i < missing ? 1 : x.shape[i - missing], size = y.shape[i];
    require(own ? size % own == 0 : size == 0, y_name, "shape ", y.shape, " is no multiple of ", x_name,
            "'s ", x.shape);
    repeated += own != size && own > 1;
  }
  require(rank + repeated <= kMaxRank, y_name, "rank ", rank, " with ", repeated,
          " repeated dimensions is more than 8");
  Tiled t;
  for (int i = 0; i < rank; i++) {
    const int64_t own = i < missing ? 1 : x.shape[i - missing], size = y.shape[i];
    const int64_t x_stride = own == 1 ? 0 : x.strides[i - missing], y_stride = y.strides[i];
    const auto add = [&](int64_t y_size, int64_t x_size, int64_t y_step, int64_t x_step) {
      t.y.shape.push_back(y_size);
      t.x.shape.push_back(x_size);
      t.y.strides.push_back(y_step);
      t.x.strides.push_back(x_step);
    };
    if (own != size && own != 1) add(size / own, 1, y_stride * own, 0);
    add(own == 1 ? size : own, own, y_stride, x_stride);
  }
  return t;
}

}  // namespace

Tile::Tile(const Context& context, const TileDesc& desc, const Options& options) : Plan(nullptr) {
  require_strides("x", desc.x);
  require_writable("y", desc.y);
  const Tiled t = tiled("x", desc.x, "y", desc.y);
  impl_ = std::make_shared<const Impl>(Impl{desc, ViewCopy(context, desc.x, t.x, desc.y, t.y)});
  PlanInfo info;
  info.text = cat("x=", brief(desc.x), " y=", brief(desc.y));
  info.bytes = traffic({desc.x, desc.y});
  info_ = single_engine("tile", "copy", "", context, options, std::move(info));
}

void Tile::run(const Stream& stream, const Tensor& x, const Tensor& y, const Tensor& workspace) const {
  require_moved(*info_, stream, impl_->desc.x, x, impl_->desc.y, y, workspace);
  if (y.numel() == 0) return;
  const OperatorScope scope(stream, *info_);
  impl_->copy.run(stream, x, y);
}

TileBackward::TileBackward(const Context& context, const TileBackwardDesc& desc, const Options& options)
    : Plan(nullptr) {
  require_floating("dx", desc.dx, true);
  require_floating("dy", desc.dy, true);
  require_writable("dx", desc.dx);
  const Tiled t = tiled("dx", desc.dx, "dy", desc.dy);
  WorkspaceParts parts;
  Reduce sum(context, {t.y.desc(desc.dy)}, {t.x.desc(desc.dx)}, 0, sum_of("x0"), parts.rest(options));
  parts.add(sum.workspace_size());
  PlanInfo info;
  info.text = cat("dy=", brief(desc.dy), " dx=", brief(desc.dx));
  info.bytes = traffic({desc.dy, desc.dx});
  info.workspace = parts.size();
  info_ = single_engine("tile_backward", "generated", "", context, options, std::move(info));
  impl_ = std::make_shared<const Impl>(Impl{desc, t.y, t.x, std::move(sum)});
}

void TileBackward::run(const Stream& stream, const Tensor& dy, const Tensor& dx,
                       const Tensor& workspace) const {
  require_stream(*info_, stream);
  require_tensor("dy", dy, stream.context(), impl_->desc.dy);
  require_tensor("dx", dx, stream.context(), impl_->desc.dx);
  require_apart({{"dx", dx}, {"workspace", workspace}}, {{"dy", dy}});
  const Tensor space = workspace_for(*info_, stream, workspace);
  if (dx.numel() == 0) return;
  const OperatorScope scope(stream, *info_);
  impl_->sum.run(stream, {impl_->dy.of(dy)}, {impl_->dx.of(dx)}, {}, workspace_scratch(space, 0, impl_->sum));
}

void tile(const Stream& stream, const Tensor& x, const Tensor& y, const Options& options,
          const Tensor& workspace) {
  require_defined({{"x", x}, {"y", y}});
  const TileDesc desc{x, y};
  cached_plan<Tile>(stream, "tile", desc, options, workspace)->run(stream, x, y, workspace);
}

void tile_backward(const Stream& stream, const Tensor& dy, const Tensor& dx, const Options& options,
                   const Tensor& workspace) {
  require_defined({{"dy", dy}, {"dx", dx}});
  const TileBackwardDesc desc{dy, dx};
  cached_plan<TileBackward>(stream, "tile_backward", desc, options, workspace)
      ->run(stream, dy, dx, workspace);
}

}  // namespace dlprim
