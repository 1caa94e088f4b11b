// Networks of convolutions in a row, and of small blocks: AlexNet, VGG, SqueezeNet.
#include "net/networks/builder.hpp"

namespace dlprim::networks {
namespace {

constexpr double kDropped = 0.5;
constexpr int64_t kFeatures = 4096;  ///< of the classifiers' layers

int fire(Builder& b, const std::string& name, int x, int64_t squeezed, int64_t expanded) {
  x = b.relu(b.conv(name + ".squeeze", x, squeezed, {1}, 1, true));
  return b.concat({b.relu(b.conv(name + ".expand1x1", x, expanded, {1}, 1, true)),
                   b.relu(b.conv(name + ".expand3x3", x, expanded, {3, 1, 1}, 1, true))});
}

}  // namespace

NetGraph alexnet(Builder& b) {
  const Window pooled{3, 2};
  int x = b.images(true);
  x = b.max_pool(b.relu(b.conv("features.0", x, 64, {11, 4, 2}, 1, true)), pooled);
  x = b.max_pool(b.relu(b.conv("features.3", x, 192, {5, 1, 2}, 1, true)), pooled);
  x = b.relu(b.conv("features.6", x, 384, {3, 1, 1}, 1, true));
  x = b.relu(b.conv("features.8", x, 256, {3, 1, 1}, 1, true));
  x = b.max_pool(b.relu(b.conv("features.10", x, 256, {3, 1, 1}, 1, true)), pooled);
  x = b.dropout(b.node("flatten", {x}, {{"axis", 1}}, 256 * 6 * 6), kDropped);
  x = b.dropout(b.relu(b.linear("classifier.1", x, kFeatures)), kDropped);
  x = b.relu(b.linear("classifier.4", x, kFeatures));
  return b.finish(b.linear("classifier.6", x, b.classes()));
}

NetGraph vgg16(Builder& b) {
  int x = b.images(true), layer = 0;
  for (const std::vector<int64_t>& stage :
       {std::vector<int64_t>{64, 64}, {128, 128}, {256, 256, 256}, {512, 512, 512}, {512, 512, 512}}) {
    for (int64_t filters : stage) {
      x = b.relu(b.conv("features." + std::to_string(layer), x, filters, {3, 1, 1}, 1, true));
      layer += 2;
    }
    x = b.max_pool(x, {2, 2});
    layer++;
  }
  x = b.node("flatten", {x}, {{"axis", 1}}, 512 * 7 * 7);
  x = b.dropout(b.relu(b.linear("classifier.0", x, kFeatures)), kDropped);
  x = b.dropout(b.relu(b.linear("classifier.3", x, kFeatures)), kDropped);
  return b.finish(b.linear("classifier.6", x, b.classes()));
}

NetGraph squeezenet(Builder& b) {
  const Window pooled{3, 2};
  int x = b.max_pool(b.relu(b.conv("features.0", b.images(), 96, {7, 2}, 1, true)), pooled, true);
  x = fire(b, "features.3", x, 16, 64);
  x = fire(b, "features.4", x, 16, 64);
  x = b.max_pool(fire(b, "features.5", x, 32, 128), pooled, true);
  x = fire(b, "features.7", x, 32, 128);
  x = fire(b, "features.8", x, 48, 192);
  x = fire(b, "features.9", x, 48, 192);
  x = b.max_pool(fire(b, "features.10", x, 64, 256), pooled, true);
  x = fire(b, "features.12", x, 64, 256);
  x = b.relu(b.conv("classifier.1", b.dropout(x, kDropped), b.classes(), {1}, 1, true));
  return b.finish(b.flatten(b.global_average(x)));
}

}  // namespace dlprim::networks
