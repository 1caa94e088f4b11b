// ResNet with 18 and with 50 layers (He et al., 2016). As in torchvision, a bottleneck's stride is that of
// its 3 x 3 convolution.
#pragma once

#include <vector>

#include <dlprim/net.hpp>

namespace networks {

/// Convolution of odd size, padded to keep the image's size at stride 1, then BatchNorm.
inline dlprim::Value conv_norm(dlprim::Net& net, dlprim::Value x, int64_t filters, int64_t kernel,
                               int64_t stride) {
  return net.batch_norm(
      net.conv(x, dlprim::ConvLayer(filters, kernel).stride(stride).pad(kernel / 2).without_bias()));
}

/// A residual block: two 3 x 3 convolutions, or, as a bottleneck, 1 x 1, 3 x 3 and 1 x 1 to four times the
/// width.
inline dlprim::Value residual_block(dlprim::Net& net, dlprim::Value x, int64_t width, int64_t stride,
                                    bool bottleneck) {
  using namespace dlprim;
  const int64_t out = bottleneck ? 4 * width : width;
  Value h;
  if (bottleneck) {
    h = net.relu(conv_norm(net, x, width, 1, 1));
    h = net.relu(conv_norm(net, h, width, 3, stride));
    h = conv_norm(net, h, out, 1, 1);
  } else {
    h = net.relu(conv_norm(net, x, width, 3, stride));
    h = conv_norm(net, h, out, 3, 1);
  }
  const bool same_shape = stride == 1 && net.shape(x)[1] == out;
  return net.relu(net.add(h, same_shape ? x : conv_norm(net, x, out, 1, stride)));
}

/// `blocks`: how many there are in each of the four stages.
inline dlprim::Value resnet(dlprim::Net& net, dlprim::Value images, const std::vector<int>& blocks,
                            bool bottleneck) {
  using namespace dlprim;
  Value h = net.max_pool(net.relu(conv_norm(net, images, 64, 7, 2)), 3, 2, 1);
  for (size_t stage = 0; stage < blocks.size(); stage++)
    for (int i = 0; i < blocks[stage]; i++)
      h = residual_block(net, h, int64_t{64} << stage, stage > 0 && i == 0 ? 2 : 1, bottleneck);
  return net.linear(net.flatten(net.global_avg_pool(h)), LinearLayer(1000).named("classifier"));
}

/// images: [N, 3, H, W]. Gives [N, 1000].
inline dlprim::Value resnet18(dlprim::Net& net, dlprim::Value images) {
  return resnet(net, images, {2, 2, 2, 2}, false);
}
inline dlprim::Value resnet50(dlprim::Net& net, dlprim::Value images) {
  return resnet(net, images, {3, 4, 6, 3}, true);
}

}  // namespace networks
