// MobileNetV2 of width 1 (Sandler et al., 2018).
#pragma once

#include <dlprim/net.hpp>

namespace networks {

/// Convolution, padded to keep the image's size at stride 1, BatchNorm and relu6.
inline dlprim::Value conv_norm_relu6(dlprim::Net& net, dlprim::Value x, int64_t filters, int64_t kernel,
                                     int64_t stride, int64_t groups = 1) {
  using namespace dlprim;
  const ConvLayer layer =
      ConvLayer(filters, kernel).stride(stride).pad(kernel / 2).groups(groups).without_bias();
  return net.relu6(net.batch_norm(net.conv(x, layer)));
}

/// An inverted residual: `expansion` times wider by 1 x 1, depthwise 3 x 3, and without activation down to
/// `out`.
inline dlprim::Value inverted_residual(dlprim::Net& net, dlprim::Value x, int64_t expansion, int64_t out,
                                       int64_t stride) {
  using namespace dlprim;
  const int64_t in = net.shape(x)[1], wide = in * expansion;
  Value h = expansion == 1 ? x : conv_norm_relu6(net, x, wide, 1, 1);
  h = conv_norm_relu6(net, h, wide, 3, stride, wide);
  h = net.batch_norm(net.conv(h, ConvLayer(out, 1).without_bias()));
  return stride == 1 && in == out ? net.add(x, h) : h;
}

/// images: [N, 3, H, W]. Gives [N, 1000].
inline dlprim::Value mobilenet_v2(dlprim::Net& net, dlprim::Value images) {
  using namespace dlprim;
  struct Stage {
    int64_t expansion, out;
    int blocks;
    int64_t stride;  ///< of the first block
  };
  Value h = conv_norm_relu6(net, images, 32, 3, 2);
  for (const Stage& s : {Stage{1, 16, 1, 1},
                         {6, 24, 2, 2},
                         {6, 32, 3, 2},
                         {6, 64, 4, 2},
                         {6, 96, 3, 1},
                         {6, 160, 3, 2},
                         {6, 320, 1, 1}})
    for (int i = 0; i < s.blocks; i++)
      h = inverted_residual(net, h, s.expansion, s.out, i == 0 ? s.stride : 1);
  h = net.flatten(net.global_avg_pool(conv_norm_relu6(net, h, 1280, 1, 1)));
  return net.linear(net.dropout(h, 0.2), LinearLayer(1000).named("classifier"));
}

}  // namespace networks
