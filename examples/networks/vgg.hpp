// VGG with 16 layers of weights (Simonyan and Zisserman, 2015, configuration D), without BatchNorm.
#pragma once

#include <dlprim/net.hpp>

namespace networks {

/// images: [N, 3, H, W], H and W at least 32. Gives [N, 1000].
inline dlprim::Value vgg16(dlprim::Net& net, dlprim::Value images) {
  using namespace dlprim;
  struct Stage {
    int convolutions;
    int64_t filters;
  };
  Value h = images;
  for (const Stage& stage : {Stage{2, 64}, {2, 128}, {3, 256}, {3, 512}, {3, 512}}) {
    for (int i = 0; i < stage.convolutions; i++)
      h = net.relu(net.conv(h, ConvLayer(stage.filters, 3).pad(1)));
    h = net.max_pool(h, 2);
  }
  h = net.flatten(net.pool(h, adaptive_pool(PoolMode::average, {7, 7})));
  h = net.dropout(net.relu(net.linear(h, 4096)));
  h = net.dropout(net.relu(net.linear(h, 4096)));
  return net.linear(h, LinearLayer(1000).named("classifier"));
}

}  // namespace networks
