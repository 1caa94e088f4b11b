#include "ops/conv/conv_gather.hpp"

namespace dlprim::detail {
namespace {

/// All strides but that of `but` are multiples.
bool multiples(const ConvGatherTensor& x, int vector, size_t but) {
  bool all = x.group % vector == 0;
  for (size_t i = 0; i < 5; i++) all &= i == but || x.strides[i] % vector == 0;
  return all;
}

}  // namespace

ConvGather::ConvGather(const ConvProblem& p) : direction(p.direction), images(p.n) {
  const bool data = direction == ConvDirection::backward_data;
  channels = data ? p.group_k() : p.group_c();
  target_channels = data ? p.group_c() : p.group_k();
  for (size_t i = 0; i < 3; i++) axes[i] = ConvAxis(p, i);
  source.strides = data ? p.y : p.x;
  target.strides = data ? p.x : p.y;
  w.strides = p.w;
  if (data) std::swap(w.strides[0], w.strides[1]);
  source.group = channels * source.strides[1];
  target.group = target_channels * target.strides[1];
  w.group = p.group_k() * p.w[0];
  depth = p.has_depth();
  window = taps() > 1 || sees_padding(p);
  channels_last = source.strides[1] == 1;
  by_planes = !window && p.stride == Spatial{1, 1, 1} && p.x_space == p.y_space;
}

bool ConvGather::strided() const {
  bool any = false;
  for (const ConvAxis& axis : axes) any |= axis.stride > 1;
  return any && direction == ConvDirection::backward_data;
}

int64_t ConvGather::source_rows() const {
  if (filter()) return taps() * channels;
  int64_t count = images;
  for (const ConvAxis& axis : axes) count *= axis.phase(0).count;
  return count;
}

int64_t ConvGather::steps() const {
  if (!filter()) return taps() * channels;
  return int64_t{images} * axes[0].target * axes[1].target * axes[2].target;
}

GemmOperand ConvGather::source_loads(int vector, bool aligned) const {
  GemmOperand x;
  x.unit_k = channels_last != filter();
  const Spatial space{axes[0].source, axes[1].source, axes[2].source};
  const int64_t plane = int64_t{space[0]} * space[1] * space[2];
  if (channels_last)
    x.vectors = aligned && channels % vector == 0 && multiples(source, vector, 1);
  else
    x.vectors = aligned && by_planes && plane % vector == 0 && even_stride(source.strides, space) == 1 &&
                source.strides[0] % vector == 0 && source.strides[1] % vector == 0 &&
                source.group % vector == 0;
  return x;
}

GemmOperand ConvGather::other_loads(int vector, bool aligned) const {
  GemmOperand x;
  const ConvGatherTensor& other = filter() ? target : w;
  // Of rows, and of what follows along k.
  const int64_t row = other.strides[filter() ? 1 : 0], inner = other.strides[1];
  x.unit_k = row != 1;
  if (!aligned) return x;
  if (!x.unit_k) {
    x.vectors = target_channels % vector == 0 && multiples(other, vector, filter() ? 1 : 0);
  } else if (filter()) {
    const Spatial space{axes[0].target, axes[1].target, axes[2].target};
    const int64_t plane = int64_t{space[0]} * space[1] * space[2];
    x.vectors = plane % vector == 0 && even_stride(other.strides, space) == 1 &&
                other.strides[0] % vector == 0 && row % vector == 0 && other.group % vector == 0;
  } else if (channels_last) {
    x.vectors = inner == 1 && channels % vector == 0 && multiples(other, vector, 1);
  } else if (direction == ConvDirection::forward) {
    const Spatial space{axes[0].taps, axes[1].taps, axes[2].taps};
    const bool runs = taps() == 1 || even_stride(other.strides, space) == 1;
    x.vectors = runs && (channels == 1 || inner == taps()) && taps() * channels % vector == 0 &&
                row % vector == 0 && other.group % vector == 0;
  }
  return x;
}

void ConvGather::define(Defines& defines) const {
  defines.set("DIRECTION", static_cast<int>(direction)).set("DEPTH", depth).set("WINDOW", window);
  defines.set("CHANNELS_LAST", channels_last).set("STRIDED", strided());
}

GatherShape ConvGather::shape() const {
  const auto strides = [](const ConvGatherTensor& x) {
    const std::array<int, 5> s = narrow(x.strides);
    return GatherStrides{static_cast<int>(x.group), s[0], s[1], s[2], s[3], s[4]};
  };
  const auto& [d, h, w_axis] = axes;
  GatherShape g{};
  g.images = images, g.channels = divisor_of(channels);
  g.axes = {d.numbers(), h.numbers(), w_axis.numbers()};
  g.count = {divisor_of(d.target), divisor_of(h.target), divisor_of(w_axis.target)};
  g.window = {divisor_of(d.taps), divisor_of(h.taps), divisor_of(w_axis.taps)};
  g.s = strides(source), g.t = strides(target), g.w = strides(w);
  return g;
}

}  // namespace dlprim::detail
