// What a Net's layers with many choices are told: ConvLayer(16, 3).pad(1).without_bias().
#pragma once

#include <array>
#include <string>

#include <dlprim/conv.hpp>

namespace dlprim {

struct ConvLayer {
  ConvLayer(int64_t filters_, int64_t kernel_) : filters(filters_), kernel{kernel_, kernel_} {}
  int64_t filters;
  std::array<int64_t, 2> kernel;  ///< along H, W
  ConvParams params;              ///< the activation must be identity
  bool bias = true;
  std::string name = {};  ///< "conv1", "conv2", ... if empty

  ConvLayer& pad(int64_t all_sides) {
    params.pad_begin = params.pad_end = {all_sides};
    return *this;
  }
  ConvLayer& stride(int64_t both) {
    params.stride = {both};
    return *this;
  }
  ConvLayer& groups(int64_t count) {
    params.groups = count;
    return *this;
  }
  /// For a convolution before BatchNorm, which would remove the bias again.
  ConvLayer& without_bias() {
    bias = false;
    return *this;
  }
  ConvLayer& named(const std::string& text) {
    name = text;
    return *this;
  }
};

struct LinearLayer {
  LinearLayer(int64_t features_) : features(features_) {}  // NOLINT: net.linear(x, 10) reads well
  int64_t features;
  bool bias = true;
  std::string name = {};  ///< "linear1", ... if empty

  LinearLayer& without_bias() {
    bias = false;
    return *this;
  }
  LinearLayer& named(const std::string& text) {
    name = text;
    return *this;
  }
};

}  // namespace dlprim
