// Pixel and channel shuffles: copies between views of one shape.
#include <dlprim/pixel_shuffle.hpp>

#include <dlprim/copy.hpp>

#include "core/composed.hpp"

namespace dlprim {

using namespace detail;

namespace {

/// t: [..., C r r, H, W] as [..., C, H, r, W, r], in which the wide view's rows and columns are split.
Tensor split_channels(const Tensor& t, int64_t r) {
  const int c = t.rank() - 3;
  Shape shape;
  Strides strides;
  for (int i = 0; i < c; i++) {
    shape.push_back(t.shape()[i]);
    strides.push_back(t.strides()[i]);
  }
  for (int64_t size : {t.shape()[c] / (r * r), t.shape()[c + 1], r, t.shape()[c + 2], r})
    shape.push_back(size);
  const int64_t step = t.strides()[c];
  for (int64_t stride : {step * r * r, t.strides()[c + 1], step * r, t.strides()[c + 2], step})
    strides.push_back(stride);
  return t.as_strided(shape, strides);
}

/// t: [..., C, H r, W r] as [..., C, H, r, W, r].
Tensor split_plane(const Tensor& t, int64_t r) {
  Shape shape;
  Strides strides;
  for (int i = 0; i < t.rank(); i++) {
    const bool plane = i >= t.rank() - 2;
    shape.push_back(plane ? t.shape()[i] / r : t.shape()[i]);
    strides.push_back(plane ? t.strides()[i] * r : t.strides()[i]);
    if (!plane) continue;
    shape.push_back(r);
    strides.push_back(t.strides()[i]);
  }
  return t.as_strided(shape, strides);
}

/// Checks that `wide` is `deep` shuffled.
void check(const char* deep_name, const Tensor& deep, int64_t r, const char* wide_name, const Tensor& wide) {
  require(r >= 1 && r < (int64_t{1} << 16), "factor", r, " must lie in [1, 65535]");
  require(deep.rank() >= 3 && deep.rank() <= 6, deep_name, "rank ", deep.rank(), " must be 3 to 6");
  Shape shape = deep.shape();
  const int c = deep.rank() - 3;
  require(shape[c] % (r * r) == 0, deep_name, shape[c], " channels are no multiple of ", r * r);
  shape[c] /= r * r;
  shape[c + 1] *= r;
  shape[c + 2] *= r;
  require_shape(wide_name, TensorDesc(wide), shape);
}

void check_written(const Stream& stream, const Tensor& x, const Tensor& y) {
  require_context("x", x, stream.context());
  require_context("y", y, stream.context());
  require_writable("y", TensorDesc(y));
  require_apart({{"y", y}}, {{"x", x}});
}

/// t: [N, C, ...] as [N, outer, C / outer, ...], with the two exchanged if asked.
Tensor split_groups(const Tensor& t, int64_t outer, bool exchanged) {
  const int64_t inner = t.shape()[1] / outer, step = t.strides()[1];
  Shape shape{t.shape()[0], outer, inner};
  Strides strides{t.strides()[0], step * inner, step};
  for (int i = 2; i < t.rank(); i++) {
    shape.push_back(t.shape()[i]);
    strides.push_back(t.strides()[i]);
  }
  const Tensor split = t.as_strided(shape, strides);
  return exchanged ? split.transpose(1, 2) : split;
}

}  // namespace

void pixel_shuffle(const Stream& stream, const Tensor& x, int64_t factor, const Tensor& y) {
  require_defined({{"x", x}, {"y", y}});
  check("x", x, factor, "y", y);
  check_written(stream, x, y);
  copy(stream, split_channels(x, factor), split_plane(y, factor));
}

void pixel_unshuffle(const Stream& stream, const Tensor& x, int64_t factor, const Tensor& y) {
  require_defined({{"x", x}, {"y", y}});
  check("y", y, factor, "x", x);
  check_written(stream, x, y);
  copy(stream, split_plane(x, factor), split_channels(y, factor));
}

void channel_shuffle(const Stream& stream, const Tensor& x, int64_t groups, const Tensor& y) {
  require_defined({{"x", x}, {"y", y}});
  require(x.rank() >= 3 && x.rank() <= 7, "x", "rank ", x.rank(), " must be 3 to 7, [N, C, ...]");
  const int64_t channels = x.shape()[1];
  require(groups >= 1 && channels % groups == 0, "groups", groups, " does not divide ", channels,
          " channels");
  require_shape("y", TensorDesc(y), x.shape());
  check_written(stream, x, y);
  if (x.numel() == 0) return;
  copy(stream, split_groups(x, groups, true), split_groups(y, channels / groups, false));
}

}  // namespace dlprim
