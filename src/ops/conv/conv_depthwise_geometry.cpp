#include "ops/conv/conv_depthwise.hpp"

#include <utility>

namespace dlprim::detail {
DepthwiseGeometry depthwise_geometry(const ConvProblem& p) {
  const bool forward = p.direction == ConvDirection::forward,
             data = p.direction == ConvDirection::backward_data;
  DepthwiseGeometry g{};
  g.channels = forward ? p.k : data ? p.c : p.k * p.group_c();
  g.group_t = forward ? p.group_k() : p.group_c();
  g.group_s = forward ? p.group_c() : p.group_k();
  g.source = sizes_of(p.x_space), g.target = sizes_of(p.y_space);
  g.s = strides_of(p.x), g.t = strides_of(p.y);
  if (data) std::swap(g.source, g.target), std::swap(g.s, g.t);
  g.window = sizes_of(p.w_space), g.stride = sizes_of(p.stride);
  g.pad = sizes_of(p.pad), g.dilation = sizes_of(p.dilation);
  const std::array<int, 5> w = narrow(p.w);
  g.w = {p.group_k() * w[0], data ? w[1] : w[0], data ? w[0] : w[1], w[2], w[3], w[4]};
  return g;
}

}  // namespace dlprim::detail
