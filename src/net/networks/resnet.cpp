// Residual and dense networks: ResNet, ResNeXt, wide ResNet, DenseNet, RegNet. As in torchvision a
// bottleneck's stride is that of its 3 x 3 convolution.
#include <cmath>

#include "net/networks/builder.hpp"

namespace dlprim::networks {
namespace {

struct Bottleneck {
  int64_t groups = 1, base = 64;  ///< width of the 3 x 3 convolution: groups * base / 64 times the stage's
};

int stem(Builder& b) {
  const int x = b.conv_norm({"conv1", "bn1"}, b.images(), 64, {7, 2, 3}, "relu");
  return b.max_pool(x, {3, 2, 1});
}

int shortcut(Builder& b, const std::string& name, int x, int64_t out, int64_t stride) {
  if (stride == 1 && b.channels(x) == out) return x;
  return b.conv_norm({name + ".downsample.0", name + ".downsample.1"}, x, out, {1, stride}, "");
}

int block(Builder& b, const std::string& name, int x, int64_t width, int64_t stride,
          const Bottleneck* bottleneck) {
  const auto layer = [&](const char* number, int v, int64_t filters, const Window& window,
                         const char* function, int64_t groups = 1) {
    return b.conv_norm({name + ".conv" + number, name + ".bn" + number}, v, filters, window, function,
                       groups);
  };
  if (!bottleneck) {
    const int y = layer("2", layer("1", x, width, {3, stride, 1}, "relu"), width, {3, 1, 1}, "");
    return b.relu(b.apply("add", {y, shortcut(b, name, x, width, stride)}));
  }
  const int64_t inner = width * bottleneck->base / 64 * bottleneck->groups;
  int y = layer("1", x, inner, {1}, "relu");
  y = layer("2", y, inner, {3, stride, 1}, "relu", bottleneck->groups);
  y = layer("3", y, 4 * width, {1}, "");
  return b.relu(b.apply("add", {y, shortcut(b, name, x, 4 * width, stride)}));
}

NetGraph resnet(Builder& b, const std::vector<int>& blocks, const Bottleneck* bottleneck) {
  int x = stem(b);
  for (size_t stage = 0; stage < blocks.size(); stage++)
    for (int i = 0; i < blocks[stage]; i++)
      x = block(b, "layer" + std::to_string(stage + 1) + "." + std::to_string(i), x, int64_t{64} << stage,
                i == 0 && stage > 0 ? 2 : 1, bottleneck);
  return b.finish(b.linear("fc", b.flatten(b.global_average(x)), b.classes()));
}

}  // namespace

NetGraph resnet18(Builder& b) {
  return resnet(b, {2, 2, 2, 2}, nullptr);
}
NetGraph resnet50(Builder& b) {
  const Bottleneck plain;
  return resnet(b, {3, 4, 6, 3}, &plain);
}
NetGraph resnext50(Builder& b) {
  const Bottleneck grouped{32, 4};
  return resnet(b, {3, 4, 6, 3}, &grouped);
}
NetGraph wide_resnet50(Builder& b) {
  const Bottleneck wide{1, 128};
  return resnet(b, {3, 4, 6, 3}, &wide);
}

NetGraph densenet121(Builder& b) {
  constexpr int64_t kGrowth = 32;
  const auto norm_relu = [&](const std::string& name, int x) { return b.relu(b.batch_norm(name, x)); };
  int x = b.conv_norm({"features.conv0", "features.norm0"}, b.images(), 64, {7, 2, 3}, "relu");
  x = b.max_pool(x, {3, 2, 1});
  const int layers[] = {6, 12, 24, 16};
  for (int stage = 1; stage <= 4; stage++) {
    for (int i = 1; i <= layers[stage - 1]; i++) {
      const std::string name =
          "features.denseblock" + std::to_string(stage) + ".denselayer" + std::to_string(i);
      int y = b.conv(name + ".conv1", norm_relu(name + ".norm1", x), 4 * kGrowth, {1});
      y = b.conv(name + ".conv2", norm_relu(name + ".norm2", y), kGrowth, {3, 1, 1});
      x = b.concat({x, y});
    }
    if (stage == 4) break;
    const std::string name = "features.transition" + std::to_string(stage);
    x = b.conv(name + ".conv", norm_relu(name + ".norm", x), b.channels(x) / 2, {1});
    x = b.average_pool(x, {2, 2});
  }
  x = b.flatten(b.global_average(norm_relu("features.norm5", x)));
  return b.finish(b.linear("classifier", x, b.classes()));
}

/// RegNetY-400MF: widths and depths of its parameters (16, 48, 27.89, 2.09, groups of 8), as the paper
/// quantises them.
NetGraph regnet(Builder& b) {
  constexpr int64_t kGroup = 8;
  const int64_t widths[] = {48, 104, 208, 440};
  const int depths[] = {1, 3, 6, 6};
  int x = b.conv_norm({"stem.0", "stem.1"}, b.images(), 32, {3, 2, 1}, "relu");
  for (int stage = 0; stage < 4; stage++)
    for (int i = 0; i < depths[stage]; i++) {
      const std::string s = std::to_string(stage + 1);
      const std::string name = "trunk_output.block" + s + ".block" + s + "-" + std::to_string(i);
      const int64_t width = widths[stage], stride = i == 0 ? 2 : 1, before = b.channels(x);
      const auto layer = [&](const char* part, int v, const Window& window, const char* function,
                             int64_t groups) {
        return b.conv_norm({name + part + ".0", name + part + ".1"}, v, width, window, function, groups);
      };
      int y = layer(".f.a", x, {1}, "relu", 1);
      y = layer(".f.b", y, {3, stride, 1}, "relu", width / kGroup);
      y = b.squeeze_excite(name + ".f.se", y, std::lround(0.25 * static_cast<double>(before)), "relu",
                           "sigmoid");
      y = layer(".f.c", y, {1}, "", 1);
      const bool same = stride == 1 && before == width;
      x = b.relu(b.apply("add", {same ? x : layer(".proj", x, {1, stride}, "", 1), y}));
    }
  return b.finish(b.linear("fc", b.flatten(b.global_average(x)), b.classes()));
}

}  // namespace dlprim::networks
