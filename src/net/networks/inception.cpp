// Networks of Inception modules: GoogLeNet and Inception v3, without the heads that only training has.
#include "net/networks/builder.hpp"

namespace dlprim::networks {
namespace {

constexpr double kEpsilon = 0.001;

/// What torchvision calls BasicConv2d.
int basic(Builder& b, const std::string& name, int x, int64_t filters, const Window& window) {
  return b.conv_norm({name + ".conv", name + ".bn", kEpsilon}, x, filters, window, "relu");
}

struct Module {
  int64_t one, reduced3, three, reduced5, five, pooled;
};

/// torchvision's third branch has 3 x 3 windows, where the paper's has 5 x 5: weights are of those.
int module(Builder& b, const std::string& name, int x, const Module& m) {
  const int one = basic(b, name + ".branch1", x, m.one, {1});
  const int three =
      basic(b, name + ".branch2.1", basic(b, name + ".branch2.0", x, m.reduced3, {1}), m.three, {3, 1, 1});
  const int five =
      basic(b, name + ".branch3.1", basic(b, name + ".branch3.0", x, m.reduced5, {1}), m.five, {3, 1, 1});
  const int pooled = basic(b, name + ".branch4.1", b.max_pool(x, {3, 1, 1}, true), m.pooled, {1});
  return b.concat({one, three, five, pooled});
}

/// The modules of Inception v3, in torchvision's letters.
class V3 {
 public:
  explicit V3(Builder& b) : b_(b) {}

  int a(const std::string& name, int x, int64_t pooled) {
    const Window three{3, 1, 1};
    const int one = layer(name, "branch1x1", x, 64, {1});
    const int five = layer(name, "branch5x5_2", layer(name, "branch5x5_1", x, 48, {1}), 64, {5, 1, 2});
    int twice = layer(name, "branch3x3dbl_1", x, 64, {1});
    twice = layer(name, "branch3x3dbl_3", layer(name, "branch3x3dbl_2", twice, 96, three), 96, three);
    return b_.concat({one, five, twice, pool(name, x, pooled)});
  }
  int b(const std::string& name, int x) {
    const int three = layer(name, "branch3x3", x, 384, {3, 2});
    int twice = layer(name, "branch3x3dbl_1", x, 64, {1});
    twice = layer(name, "branch3x3dbl_3", layer(name, "branch3x3dbl_2", twice, 96, {3, 1, 1}), 96, {3, 2});
    return b_.concat({three, twice, b_.max_pool(x, {3, 2})});
  }
  int c(const std::string& name, int x, int64_t inner) {
    const int one = layer(name, "branch1x1", x, 192, {1});
    int seven = layer(name, "branch7x7_1", x, inner, {1});
    seven = layer(name, "branch7x7_3", layer(name, "branch7x7_2", seven, inner, kRow7), 192, kColumn7);
    int twice = layer(name, "branch7x7dbl_1", x, inner, {1});
    twice =
        layer(name, "branch7x7dbl_3", layer(name, "branch7x7dbl_2", twice, inner, kColumn7), inner, kRow7);
    twice = layer(name, "branch7x7dbl_5", layer(name, "branch7x7dbl_4", twice, inner, kColumn7), 192, kRow7);
    return b_.concat({one, seven, twice, pool(name, x, 192)});
  }
  int d(const std::string& name, int x) {
    const int three = layer(name, "branch3x3_2", layer(name, "branch3x3_1", x, 192, {1}), 320, {3, 2});
    int seven = layer(name, "branch7x7x3_2", layer(name, "branch7x7x3_1", x, 192, {1}), 192, kRow7);
    seven = layer(name, "branch7x7x3_4", layer(name, "branch7x7x3_3", seven, 192, kColumn7), 192, {3, 2});
    return b_.concat({three, seven, b_.max_pool(x, {3, 2})});
  }
  int e(const std::string& name, int x) {
    const Window row{{1, 3}, 1, {0, 1}}, column{{3, 1}, 1, {1, 0}};
    const int one = layer(name, "branch1x1", x, 320, {1});
    int three = layer(name, "branch3x3_1", x, 384, {1});
    three = b_.concat(
        {layer(name, "branch3x3_2a", three, 384, row), layer(name, "branch3x3_2b", three, 384, column)});
    int twice = layer(name, "branch3x3dbl_2", layer(name, "branch3x3dbl_1", x, 448, {1}), 384, {3, 1, 1});
    twice = b_.concat({layer(name, "branch3x3dbl_3a", twice, 384, row),
                       layer(name, "branch3x3dbl_3b", twice, 384, column)});
    return b_.concat({one, three, twice, pool(name, x, 192)});
  }

 private:
  int layer(const std::string& module, const char* name, int x, int64_t filters, const Window& window) {
    return basic(b_, module + "." + name, x, filters, window);
  }
  int pool(const std::string& name, int x, int64_t filters) {
    return layer(name, "branch_pool", b_.average_pool(x, {3, 1, 1}), filters, {1});
  }

  const Window kRow7{{1, 7}, 1, {0, 3}}, kColumn7{{7, 1}, 1, {3, 0}};
  Builder& b_;
};

}  // namespace

NetGraph googlenet(Builder& b) {
  int x = b.max_pool(basic(b, "conv1", b.images(), 64, {7, 2, 3}), {3, 2}, true);
  x = basic(b, "conv3", basic(b, "conv2", x, 64, {1}), 192, {3, 1, 1});
  x = b.max_pool(x, {3, 2}, true);
  x = module(b, "inception3a", x, {64, 96, 128, 16, 32, 32});
  x = module(b, "inception3b", x, {128, 128, 192, 32, 96, 64});
  x = b.max_pool(x, {3, 2}, true);
  x = module(b, "inception4a", x, {192, 96, 208, 16, 48, 64});
  x = module(b, "inception4b", x, {160, 112, 224, 24, 64, 64});
  x = module(b, "inception4c", x, {128, 128, 256, 24, 64, 64});
  x = module(b, "inception4d", x, {112, 144, 288, 32, 64, 64});
  x = module(b, "inception4e", x, {256, 160, 320, 32, 128, 128});
  x = b.max_pool(x, {2, 2}, true);
  x = module(b, "inception5a", x, {256, 160, 320, 32, 128, 128});
  x = module(b, "inception5b", x, {384, 192, 384, 48, 128, 128});
  return b.finish(b.linear("fc", b.dropout(b.flatten(b.global_average(x)), 0.2), b.classes()));
}

NetGraph inception_v3(Builder& b) {
  int x = basic(b, "Conv2d_1a_3x3", b.images(), 32, {3, 2});
  x = basic(b, "Conv2d_2b_3x3", basic(b, "Conv2d_2a_3x3", x, 32, {3}), 64, {3, 1, 1});
  x = b.max_pool(x, {3, 2});
  x = basic(b, "Conv2d_4a_3x3", basic(b, "Conv2d_3b_1x1", x, 80, {1}), 192, {3});
  x = b.max_pool(x, {3, 2});
  V3 v3(b);
  x = v3.a("Mixed_5b", x, 32);
  x = v3.a("Mixed_5c", x, 64);
  x = v3.a("Mixed_5d", x, 64);
  x = v3.b("Mixed_6a", x);
  x = v3.c("Mixed_6b", x, 128);
  x = v3.c("Mixed_6c", x, 160);
  x = v3.c("Mixed_6d", x, 160);
  x = v3.c("Mixed_6e", x, 192);
  x = v3.d("Mixed_7a", x);
  x = v3.e("Mixed_7b", x);
  x = v3.e("Mixed_7c", x);
  return b.finish(b.linear("fc", b.dropout(b.flatten(b.global_average(x)), 0.5), b.classes()));
}

}  // namespace dlprim::networks
