// What networks are written in: a graph that grows layer by layer, each with the name that its weights have
// in files.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <dlprim/net_graph.hpp>
#include <dlprim/net_networks.hpp>
#include <dlprim/safetensors.hpp>

namespace dlprim::networks {

using Integers = Attribute::Integers;

/// How a parameter without a file is drawn.
struct Init {
  enum class Kind : uint8_t { constant, normal } kind = Kind::constant;
  double value = 0;  ///< the constant, or the standard deviation
};

/// Height and width.
struct Pair {
  Pair(int64_t both) : h(both), w(both) {}  // NOLINT(google-explicit-constructor)
  Pair(int64_t height, int64_t width) : h(height), w(width) {}
  Integers list() const { return {h, w}; }

  int64_t h, w;
};

struct Window {
  Pair kernel;
  Pair stride = 1, pad = 0;
};

class Builder {
 public:
  Builder(const Network& network, const Config& config);

  /// "input" [batch, 3, height, width]; of `fixed` networks only of their own size.
  int images(bool fixed = false);
  int tokens();
  /// The graph, whose output is `value`. Throws ValidationError if the file has tensors that nobody asked
  /// for.
  NetGraph finish(int value);

  int64_t classes() const { return config_.classes; }
  /// Of dimension 1 of an image, or of the last of a matrix.
  int64_t channels(int value) const { return channels_.at(value); }
  /// A tensor of the file, or a random one.
  int parameter(const std::string& name, const Shape& shape, Init init);
  int number(double value);
  int whole(const Integers& values, bool vector = true);

  // Layers; `name` is that of their weights. Those without take an image or a matrix as it is.
  int conv(const std::string& name, int x, int64_t filters, const Window& window, int64_t groups = 1,
           bool bias = false);
  int batch_norm(const std::string& name, int x, double epsilon = 1e-5);
  int linear(const std::string& name, int x, int64_t features);
  int layer_norm(const std::string& name, int x, double epsilon);
  int apply(const char* function, std::vector<int> inputs);
  int relu(int x) { return apply("relu", {x}); }
  /// Of training alone; of elements, or of whole samples ("stochastic depth", Huang et al., 2016).
  int dropout(int x, double ratio, bool samples = false);
  int max_pool(int x, const Window& window, bool ceil = false);
  int average_pool(int x, const Window& window);
  /// [N, C, H, W] to [N, C, 1, 1].
  int global_average(int x);
  int flatten(int x);
  int concat(const std::vector<int>& values);
  /// Slices of dimension 1, as large as each other.
  std::vector<int> split(int x, size_t parts);
  /// A node of another kind, with `channels`.
  int node(const char* kind, std::vector<int> inputs, Attributes attributes, int64_t channels);

  /// Convolution without bias, BatchNorm, a function ("" for none).
  struct Norm {
    std::string conv, norm;  ///< names
    double epsilon = 1e-5;
  };
  int conv_norm(const Norm& names, int x, int64_t filters, const Window& window, const char* function,
                int64_t groups = 1);
  /// x times a gate of each channel: the mean, a convolution to `squeezed` channels, a function, another
  /// back, a function. (Hu et al., 2018)
  int squeeze_excite(const std::string& name, int x, int64_t squeezed, const char* first, const char* gate);

 private:
  HostTensor from_file(const std::string& name, const Shape& shape);

  const Network& network_;
  const Config& config_;
  NetGraph graph_;
  std::map<int, int64_t> channels_;
  std::map<std::string, int> parameters_;
  std::mt19937_64 random_;
  std::unique_ptr<SafetensorsReader> file_;
  std::map<std::string, SafetensorsReader::Entry> entries_;
  std::set<std::string> taken_;
};

/// Multiples of 8 next to v, but no less than nine tenths of it: as MobileNets and EfficientNets round.
int64_t rounded_to_8(double v);

// The networks, each in its file.
NetGraph alexnet(Builder& b);
NetGraph vgg16(Builder& b);
NetGraph squeezenet(Builder& b);
NetGraph resnet18(Builder& b);
NetGraph resnet50(Builder& b);
NetGraph resnext50(Builder& b);
NetGraph wide_resnet50(Builder& b);
NetGraph densenet121(Builder& b);
NetGraph googlenet(Builder& b);
NetGraph inception_v3(Builder& b);
NetGraph mobilenet_v2(Builder& b);
NetGraph mobilenet_v3_large(Builder& b);
NetGraph mnasnet(Builder& b);
NetGraph shufflenet(Builder& b);
NetGraph efficientnet_b0(Builder& b);
NetGraph efficientnet_b4(Builder& b);
NetGraph regnet(Builder& b);
NetGraph vit(Builder& b);
NetGraph gpt2(Builder& b);

}  // namespace dlprim::networks
