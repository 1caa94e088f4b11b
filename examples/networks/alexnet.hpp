// AlexNet in one column of layers (Krizhevsky, 2014, "One weird trick"), with torchvision's sizes.
#pragma once

#include <dlprim/net.hpp>

namespace networks {

/// images: [N, 3, H, W], H and W at least 63. Gives [N, 1000].
inline dlprim::Value alexnet(dlprim::Net& net, dlprim::Value images) {
  using namespace dlprim;
  Value h = net.relu(net.conv(images, ConvLayer(64, 11).stride(4).pad(2)));
  h = net.relu(net.conv(net.max_pool(h, 3, 2), ConvLayer(192, 5).pad(2)));
  h = net.relu(net.conv(net.max_pool(h, 3, 2), ConvLayer(384, 3).pad(1)));
  h = net.relu(net.conv(h, ConvLayer(256, 3).pad(1)));
  h = net.relu(net.conv(h, ConvLayer(256, 3).pad(1)));
  h = net.pool(net.max_pool(h, 3, 2), adaptive_pool(PoolMode::average, {6, 6}));
  h = net.relu(net.linear(net.dropout(net.flatten(h)), 4096));
  h = net.relu(net.linear(net.dropout(h), 4096));
  return net.linear(h, LinearLayer(1000).named("classifier"));
}

}  // namespace networks
