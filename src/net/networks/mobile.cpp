// Networks for small devices, of depthwise convolutions: MobileNet v2 and v3, MNASNet, ShuffleNet v2,
// EfficientNet.
#include <algorithm>
#include <cmath>

#include "net/networks/builder.hpp"

namespace dlprim::networks {
namespace {

/// "name.k.0" and "name.k.1".
Builder::Norm pair(const std::string& name, double epsilon = 1e-5) {
  return {name + ".0", name + ".1", epsilon};
}

int pooled(Builder& b, int x) {
  return b.flatten(b.global_average(x));
}

constexpr double kDropped = 0.2;

/// `skipped`: the share of samples whose y is left out in training.
int with_residual(Builder& b, int x, int y, int64_t stride, double skipped = 0) {
  if (stride != 1 || b.channels(x) != b.channels(y)) return y;
  return b.apply("add", {x, skipped > 0 ? b.dropout(y, skipped, true) : y});
}

std::string numbered(const std::string& name, int number) {
  return name + "." + std::to_string(number);
}

}  // namespace

NetGraph mobilenet_v2(Builder& b) {
  struct Stage {
    int64_t expansion, out;
    int blocks;
    int64_t stride;
  };
  int x = b.conv_norm(pair("features.0"), b.images(), 32, {3, 2, 1}, "relu6"), number = 1;
  for (const Stage& s : {Stage{1, 16, 1, 1},
                         {6, 24, 2, 2},
                         {6, 32, 3, 2},
                         {6, 64, 4, 2},
                         {6, 96, 3, 1},
                         {6, 160, 3, 2},
                         {6, 320, 1, 1}})
    for (int i = 0; i < s.blocks; i++) {
      const std::string name = numbered("features", number++) + ".conv";
      const int64_t stride = i == 0 ? s.stride : 1, inner = b.channels(x) * s.expansion;
      int y = x, layer = 0;
      if (s.expansion != 1) y = b.conv_norm(pair(numbered(name, layer++)), y, inner, {1}, "relu6");
      y = b.conv_norm(pair(numbered(name, layer++)), y, inner, {3, stride, 1}, "relu6", inner);
      y = b.conv_norm({numbered(name, layer), numbered(name, layer + 1)}, y, s.out, {1}, "");
      x = with_residual(b, x, y, stride);
    }
  x = pooled(b, b.conv_norm(pair("features.18"), x, 1280, {1}, "relu6"));
  return b.finish(b.linear("classifier.1", b.dropout(x, kDropped), b.classes()));
}

NetGraph mobilenet_v3_large(Builder& b) {
  struct Block {
    int64_t kernel, inner, out;
    bool gate;
    const char* function;
    int64_t stride;
  };
  constexpr double kEpsilon = 0.001;
  const char *const r = "relu", *const h = "hardswish";
  int x = b.conv_norm(pair("features.0", kEpsilon), b.images(), 16, {3, 2, 1}, h), number = 1;
  for (const Block& k : {Block{3, 16, 16, false, r, 1},
                         {3, 64, 24, false, r, 2},
                         {3, 72, 24, false, r, 1},
                         {5, 72, 40, true, r, 2},
                         {5, 120, 40, true, r, 1},
                         {5, 120, 40, true, r, 1},
                         {3, 240, 80, false, h, 2},
                         {3, 200, 80, false, h, 1},
                         {3, 184, 80, false, h, 1},
                         {3, 184, 80, false, h, 1},
                         {3, 480, 112, true, h, 1},
                         {3, 672, 112, true, h, 1},
                         {5, 672, 160, true, h, 2},
                         {5, 960, 160, true, h, 1},
                         {5, 960, 160, true, h, 1}}) {
    const std::string name = numbered("features", number++) + ".block";
    int y = x, layer = 0;
    const auto next = [&] { return pair(numbered(name, layer++), kEpsilon); };
    if (k.inner != b.channels(x)) y = b.conv_norm(next(), y, k.inner, {1}, k.function);
    y = b.conv_norm(next(), y, k.inner, {k.kernel, k.stride, k.kernel / 2}, k.function, k.inner);
    if (k.gate)
      y = b.squeeze_excite(numbered(name, layer++), y, rounded_to_8(static_cast<double>(k.inner / 4)), r,
                           "hardsigmoid");
    y = b.conv_norm(next(), y, k.out, {1}, "");
    x = with_residual(b, x, y, k.stride);
  }
  x = pooled(b, b.conv_norm(pair("features.16", kEpsilon), x, 960, {1}, h));
  x = b.apply(h, {b.linear("classifier.0", x, 1280)});
  return b.finish(b.linear("classifier.3", b.dropout(x, kDropped), b.classes()));
}

NetGraph mnasnet(Builder& b) {
  struct Stage {
    int64_t out, kernel, stride, expansion;
    int blocks;
  };
  const auto layer = [&](const std::string& name, int number, int x, int64_t filters, const Window& window,
                         const char* function, int64_t groups = 1) {
    return b.conv_norm({numbered(name, number), numbered(name, number + 1)}, x, filters, window, function,
                       groups);
  };
  int x = layer("layers", 0, b.images(), 32, {3, 2, 1}, "relu");
  x = layer("layers", 3, x, 32, {3, 1, 1}, "relu", 32);
  x = layer("layers", 6, x, 16, {1}, "");
  int number = 8;
  for (const Stage& s : {Stage{24, 3, 2, 3, 3},
                         {40, 5, 2, 3, 3},
                         {80, 5, 2, 6, 3},
                         {96, 3, 1, 6, 2},
                         {192, 5, 2, 6, 4},
                         {320, 3, 1, 6, 1}}) {
    for (int i = 0; i < s.blocks; i++) {
      const std::string name = numbered(numbered("layers", number), i) + ".layers";
      const int64_t stride = i == 0 ? s.stride : 1, inner = b.channels(x) * s.expansion;
      int y = layer(name, 0, x, inner, {1}, "relu");
      y = layer(name, 3, y, inner, {s.kernel, stride, s.kernel / 2}, "relu", inner);
      y = layer(name, 6, y, s.out, {1}, "");
      x = with_residual(b, x, y, stride);
    }
    number++;
  }
  x = pooled(b, layer("layers", 14, x, 1280, {1}, "relu"));
  return b.finish(b.linear("classifier.1", b.dropout(x, kDropped), b.classes()));
}

NetGraph shufflenet(Builder& b) {
  const int64_t widths[] = {116, 232, 464};
  const int blocks[] = {4, 8, 4};
  int x = b.max_pool(b.conv_norm(pair("conv1"), b.images(), 24, {3, 2, 1}, "relu"), {3, 2, 1});
  for (int stage = 0; stage < 3; stage++)
    for (int i = 0; i < blocks[stage]; i++) {
      const std::string name = "stage" + std::to_string(stage + 2) + "." + std::to_string(i);
      const int64_t half = widths[stage] / 2, stride = i == 0 ? 2 : 1;
      const auto layer = [&](const char* branch, int number, int v, int64_t filters, const Window& window,
                             const char* function, int64_t groups = 1) {
        const std::string of = name + branch;
        return b.conv_norm({numbered(of, number), numbered(of, number + 1)}, v, filters, window, function,
                           groups);
      };
      const std::vector<int> halves = stride == 1 ? b.split(x, 2) : std::vector<int>{x, x};
      int left = halves[0], right = halves[1];
      if (stride == 2) {
        left = layer(".branch1", 0, left, b.channels(left), {3, 2, 1}, "", b.channels(left));
        left = layer(".branch1", 2, left, half, {1}, "relu");
      }
      right = layer(".branch2", 0, right, half, {1}, "relu");
      right = layer(".branch2", 3, right, half, {3, stride, 1}, "", half);
      right = layer(".branch2", 5, right, half, {1}, "relu");
      // Channels of the halves take turns.
      Integers places;
      for (int64_t c = 0; c < half; c++) places.insert(places.end(), {c, half + c});
      x = b.node("gather", {b.concat({left, right}), b.whole(places)}, {{"axis", 1}}, widths[stage]);
    }
  x = pooled(b, b.conv_norm(pair("conv5"), x, 1024, {1}, "relu"));
  return b.finish(b.linear("fc", x, b.classes()));
}

namespace {

NetGraph efficientnet(Builder& b, double wider, double deeper, double dropped) {
  struct Stage {
    int64_t expansion, kernel, stride, out;
    int blocks;
  };
  const char* const f = "silu";
  const auto width = [&](int64_t channels) { return rounded_to_8(static_cast<double>(channels) * wider); };
  const auto depth = [&](int blocks) { return static_cast<int>(std::ceil(blocks * deeper)); };
  const Stage stages[] = {{1, 3, 1, 16, 1},  {6, 3, 2, 24, 2},  {6, 5, 2, 40, 2}, {6, 3, 2, 80, 3},
                          {6, 5, 1, 112, 3}, {6, 5, 2, 192, 4}, {6, 3, 1, 320, 1}};
  int all = 0, before = 0;  // blocks
  for (const Stage& s : stages) all += depth(s.blocks);
  int x = b.conv_norm(pair("features.0"), b.images(), width(32), {3, 2, 1}, f), stage = 1;
  for (const Stage& s : stages) {
    for (int i = 0; i < depth(s.blocks); i++) {
      const std::string name = numbered(numbered("features", stage), i) + ".block";
      const int64_t stride = i == 0 ? s.stride : 1, in = b.channels(x),
                    inner = rounded_to_8(static_cast<double>(in * s.expansion));
      int y = x, layer = 0;
      if (inner != in) y = b.conv_norm(pair(numbered(name, layer++)), y, inner, {1}, f);
      y = b.conv_norm(pair(numbered(name, layer++)), y, inner, {s.kernel, stride, s.kernel / 2}, f, inner);
      y = b.squeeze_excite(numbered(name, layer++), y, std::max<int64_t>(1, in / 4), f, "sigmoid");
      y = b.conv_norm(pair(numbered(name, layer)), y, width(s.out), {1}, "");
      x = with_residual(b, x, y, stride, kDropped * before++ / all);
    }
    stage++;
  }
  x = pooled(b, b.conv_norm(pair("features.8"), x, 4 * b.channels(x), {1}, f));
  return b.finish(b.linear("classifier.1", b.dropout(x, dropped), b.classes()));
}

}  // namespace

NetGraph efficientnet_b0(Builder& b) {
  return efficientnet(b, 1, 1, kDropped);
}
NetGraph efficientnet_b4(Builder& b) {
  return efficientnet(b, 1.4, 1.8, 2 * kDropped);
}

}  // namespace dlprim::networks
