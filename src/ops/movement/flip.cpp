// Flips: a gather without indices, whose strides go backwards.
#include <algorithm>
#include <climits>

#include <dlprim/movement.hpp>

#include "core/composed.hpp"
#include "ops/index/indexing.hpp"

namespace dlprim::detail {
template <>
inline constexpr int kFields<FlipDesc> = 3;
}  // namespace dlprim::detail

namespace dlprim {

using namespace detail;

struct Flip::Impl {
  FlipDesc desc;
  int64_t last = 0;  ///< where in x the first element of y is
  IndexRead read;
};

namespace {

/// The loops of a flip, whose nest has no index: x's strides are negative along the axes.
IndexNest flip_nest(const TensorDesc& x, const std::vector<bool>& flipped, const TensorDesc& y) {
  IndexNest nest;
  for (int i = 0; i < y.shape.size(); i++) {
    const int64_t stride = flipped[static_cast<size_t>(i)] ? -x.strides[i] : x.strides[i];
    if (y.shape[i] != 1) nest.dims.push_back({y.shape[i], {stride, y.strides[i]}});
    nest.count *= y.shape[i];
  }
  std::stable_sort(nest.dims.begin(), nest.dims.end(),
                   [](const LoopDim& a, const LoopDim& b) { return a.strides[1] > b.strides[1]; });
  for (size_t i = nest.dims.size(); i-- > 1;) {
    LoopDim &outer = nest.dims[i - 1], &inner = nest.dims[i];
    if (outer.strides[0] != inner.strides[0] * inner.size ||
        outer.strides[1] != inner.strides[1] * inner.size)
      continue;
    inner.size *= outer.size;
    nest.dims.erase(nest.dims.begin() + static_cast<std::ptrdiff_t>(i) - 1);
  }
  if (nest.dims.empty()) nest.dims.push_back({1, {0, 0}});
  nest.wide = nest.count > INT_MAX / 2 || extent_of(x) > INT_MAX / 2 || extent_of(y) > INT_MAX / 2;
  return nest;
}

/// Which of x's axes are reversed.
std::vector<bool> flipped_axes(const FlipDesc& d) {
  std::vector<bool> flipped(static_cast<size_t>(d.x.shape.size()));
  for (int axis : d.axes) {
    const auto along = static_cast<size_t>(normalize_axis("axes", axis, d.x.shape.size()));
    require(!flipped[along], "axes", "axis ", along, " is there twice");
    flipped[along] = true;
  }
  return flipped;
}

}  // namespace

Flip::Flip(const Context& context, const FlipDesc& desc, const Options& options) : Plan(nullptr) {
  require_strides("x", desc.x);
  require_writable("y", desc.y);
  require_shape("y", desc.y, desc.x.shape);
  require_dtype("y", desc.y, desc.x.dtype);
  const std::vector<bool> flipped = flipped_axes(desc);
  int64_t last = 0;
  for (int i = 0; i < desc.x.shape.size(); i++)
    if (flipped[static_cast<size_t>(i)])
      last += std::max<int64_t>(desc.x.shape[i] - 1, 0) * desc.x.strides[i];
  TensorDesc from = desc.x;
  from.aligned = from.aligned && last * static_cast<int64_t>(size_of(from.dtype)) % 16 == 0;
  auto impl = std::make_shared<Impl>(
      Impl{desc, last, IndexRead(context, flip_nest(from, flipped, desc.y), from, desc.y, options)});
  PlanInfo info;
  info.text = cat("x=", brief(desc.x), " y=", brief(desc.y), " axes=");
  for (size_t i = 0; i < desc.axes.size(); i++) info.text += cat(i ? "," : "", desc.axes[i]);
  info.bytes = traffic({desc.x, desc.y});
  info_ = single_engine("flip", impl->read.engine(), "", context, options, std::move(info));
  impl_ = std::move(impl);
}

void Flip::run(const Stream& stream, const Tensor& x, const Tensor& y, const Tensor& workspace) const {
  require_moved(*info_, stream, impl_->desc.x, x, impl_->desc.y, y, workspace);
  if (y.numel() == 0) return;
  const OperatorScope scope(stream, *info_);
  impl_->read.run(stream, x.as_strided({1}, {1}, impl_->last), {}, y);
}

void flip(const Stream& stream, const Tensor& x, const std::vector<int>& axes, const Tensor& y,
          const Options& options, const Tensor& workspace) {
  require_defined({{"x", x}, {"y", y}});
  const FlipDesc desc{x, y, axes};
  cached_plan<Flip>(stream, "flip", desc, options, workspace)->run(stream, x, y, workspace);
}

}  // namespace dlprim
