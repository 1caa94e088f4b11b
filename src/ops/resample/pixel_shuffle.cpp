// Pixel and channel shuffles: copies between views of one shape.
#include <dlprim/pixel_shuffle.hpp>

#include "ops/lib/view.hpp"

namespace dlprim::detail {
template <>
inline constexpr int kFields<PixelShuffleDesc> = 3;
template <>
inline constexpr int kFields<PixelUnshuffleDesc> = 3;
template <>
inline constexpr int kFields<ChannelShuffleDesc> = 3;
}  // namespace dlprim::detail

namespace dlprim {

using namespace detail;

struct PixelShuffle::Impl {
  TensorDesc x, y;
  ViewCopy copy;
};

namespace {

using Impl = PixelShuffle::Impl;

/// t: [..., C r r, H, W] as [..., C, H, r, W, r], in which the wide view's rows and columns are split.
View split_channels(const TensorDesc& t, int64_t r) {
  const int c = t.shape.size() - 3;
  View view;
  for (int i = 0; i < c; i++) {
    view.shape.push_back(t.shape[i]);
    view.strides.push_back(t.strides[i]);
  }
  for (int64_t size : {t.shape[c] / (r * r), t.shape[c + 1], r, t.shape[c + 2], r})
    view.shape.push_back(size);
  const int64_t step = t.strides[c];
  for (int64_t stride : {step * r * r, t.strides[c + 1], step * r, t.strides[c + 2], step})
    view.strides.push_back(stride);
  return view;
}

/// t: [..., C, H r, W r] as [..., C, H, r, W, r].
View split_plane(const TensorDesc& t, int64_t r) {
  View view;
  const int rank = t.shape.size();
  for (int i = 0; i < rank; i++) {
    const bool plane = i >= rank - 2;
    view.shape.push_back(plane ? t.shape[i] / r : t.shape[i]);
    view.strides.push_back(plane ? t.strides[i] * r : t.strides[i]);
    if (!plane) continue;
    view.shape.push_back(r);
    view.strides.push_back(t.strides[i]);
  }
  return view;
}

/// Checks that `wide` is `deep` shuffled.
void check(const char* deep_name, const TensorDesc& deep, int64_t r, const char* wide_name,
           const TensorDesc& wide) {
  require(r >= 1 && r < (int64_t{1} << 16), "factor", r, " must lie in [1, 65535]");
  const int rank = deep.shape.size(), c = rank - 3;
  require(rank >= 3 && rank <= 6, deep_name, "rank ", rank, " must be 3 to 6");
  Shape shape = deep.shape;
  require(shape[c] % (r * r) == 0, deep_name, shape[c], " channels are no multiple of ", r * r);
  shape[c] /= r * r;
  shape[c + 1] *= r;
  shape[c + 2] *= r;
  require_shape(wide_name, wide, shape);
}

/// t: [N, C, ...] as [N, outer, C / outer, ...], with the two exchanged if asked.
View split_groups(const TensorDesc& t, int64_t outer, bool exchanged) {
  const int64_t inner = t.shape[1] / outer, step = t.strides[1];
  View view{{t.shape[0], outer, inner}, {t.strides[0], step * inner, step}, 0};
  if (exchanged) view = {{t.shape[0], inner, outer}, {t.strides[0], step, step * inner}, 0};
  for (int i = 2; i < t.shape.size(); i++) {
    view.shape.push_back(t.shape[i]);
    view.strides.push_back(t.strides[i]);
  }
  return view;
}

std::shared_ptr<const Impl> planned(const Context& context, const TensorDesc& x, const View& from,
                                    const TensorDesc& y, const View& to) {
  require_strides("x", x);
  require_writable("y", y);
  return std::make_shared<const Impl>(Impl{x, y, ViewCopy(context, x, from, y, to)});
}

std::shared_ptr<const PlanInfo> info_of(const char* op, const Context& context, const Impl& impl,
                                        const char* name, int64_t number, const Options& options) {
  PlanInfo info;
  info.text = cat("x=", brief(impl.x), " y=", brief(impl.y), " ", name, "=", number);
  info.bytes = traffic({impl.x, impl.y});
  return single_engine(op, "copy", "", context, options, std::move(info));
}

void run(const PlanInfo& info, const Impl& impl, const Stream& stream, const Tensor& x, const Tensor& y,
         const Tensor& workspace) {
  require_moved(info, stream, impl.x, x, impl.y, y, workspace);
  if (y.numel() == 0) return;
  const OperatorScope scope(stream, info);
  impl.copy.run(stream, x, y);
}

}  // namespace

PixelShuffle::PixelShuffle(const Context& context, const PixelShuffleDesc& desc, const Options& options)
    : Plan(nullptr) {
  check("x", desc.x, desc.factor, "y", desc.y);
  impl_ =
      planned(context, desc.x, split_channels(desc.x, desc.factor), desc.y, split_plane(desc.y, desc.factor));
  info_ = info_of("pixel_shuffle", context, *impl_, "factor", desc.factor, options);
}

void PixelShuffle::run(const Stream& stream, const Tensor& x, const Tensor& y,
                       const Tensor& workspace) const {
  dlprim::run(*info_, *impl_, stream, x, y, workspace);
}

PixelUnshuffle::PixelUnshuffle(const Context& context, const PixelUnshuffleDesc& desc, const Options& options)
    : Plan(nullptr) {
  check("y", desc.y, desc.factor, "x", desc.x);
  impl_ =
      planned(context, desc.x, split_plane(desc.x, desc.factor), desc.y, split_channels(desc.y, desc.factor));
  info_ = info_of("pixel_unshuffle", context, *impl_, "factor", desc.factor, options);
}

void PixelUnshuffle::run(const Stream& stream, const Tensor& x, const Tensor& y,
                         const Tensor& workspace) const {
  dlprim::run(*info_, *impl_, stream, x, y, workspace);
}

ChannelShuffle::ChannelShuffle(const Context& context, const ChannelShuffleDesc& desc, const Options& options)
    : Plan(nullptr) {
  const int rank = desc.x.shape.size();
  require(rank >= 3 && rank <= 7, "x", "rank ", rank, " must be 3 to 7, [N, C, ...]");
  const int64_t channels = desc.x.shape[1], groups = desc.groups;
  require(groups >= 1 && channels % groups == 0, "groups", groups, " does not divide ", channels,
          " channels");
  require_shape("y", desc.y, desc.x.shape);
  const bool none = channels == 0;
  impl_ = planned(context, desc.x, none ? whole(desc.x) : split_groups(desc.x, groups, true), desc.y,
                  none ? whole(desc.y) : split_groups(desc.y, channels / groups, false));
  info_ = info_of("channel_shuffle", context, *impl_, "groups", groups, options);
}

void ChannelShuffle::run(const Stream& stream, const Tensor& x, const Tensor& y,
                         const Tensor& workspace) const {
  dlprim::run(*info_, *impl_, stream, x, y, workspace);
}

void pixel_shuffle(const Stream& stream, const Tensor& x, int64_t factor, const Tensor& y,
                   const Options& options, const Tensor& workspace) {
  require_defined({{"x", x}, {"y", y}});
  const PixelShuffleDesc desc{x, y, factor};
  cached_plan<PixelShuffle>(stream, "pixel_shuffle", desc, options, workspace)->run(stream, x, y, workspace);
}

void pixel_unshuffle(const Stream& stream, const Tensor& x, int64_t factor, const Tensor& y,
                     const Options& options, const Tensor& workspace) {
  require_defined({{"x", x}, {"y", y}});
  const PixelUnshuffleDesc desc{x, y, factor};
  cached_plan<PixelUnshuffle>(stream, "pixel_unshuffle", desc, options, workspace)
      ->run(stream, x, y, workspace);
}

void channel_shuffle(const Stream& stream, const Tensor& x, int64_t groups, const Tensor& y,
                     const Options& options, const Tensor& workspace) {
  require_defined({{"x", x}, {"y", y}});
  const ChannelShuffleDesc desc{x, y, groups};
  cached_plan<ChannelShuffle>(stream, "channel_shuffle", desc, options, workspace)
      ->run(stream, x, y, workspace);
}

}  // namespace dlprim
