#include "net/networks/builder.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include <dlprim/net_host.hpp>

#include "core/check.hpp"

namespace dlprim::networks {

using detail::cat;
using detail::require;

namespace {

/// What files have beside what inference reads: counters, heads for training, masks.
bool is_left_out(const std::string& name) {
  const auto ends = [&](const std::string& end) {
    return name.size() >= end.size() && name.compare(name.size() - end.size(), end.size(), end) == 0;
  };
  for (const char* begin : {"AuxLogits.", "aux1.", "aux2."})
    if (name.rfind(begin, 0) == 0) return true;
  return ends(".num_batches_tracked") || ends(".attn.bias") || ends(".attn.masked_bias") ||
         name == "lm_head.weight";
}

}  // namespace

Builder::Builder(const Network& network, const Config& config)
    : network_(network), config_(config), random_(config.seed) {
  require(config.classes >= 1, "classes", config.classes, ", must be at least 1");
  if (config.weights.empty()) return;
  file_ = std::make_unique<SafetensorsReader>(config.weights);
  for (const SafetensorsReader::Entry& entry : file_->entries()) {
    // transformers puts the model's name in front, or not.
    const std::string prefix = "transformer.";
    const bool prefixed = entry.name.rfind(prefix, 0) == 0;
    entries_.emplace(prefixed ? entry.name.substr(prefix.size()) : entry.name, entry);
  }
}

int Builder::images(bool fixed) {
  const int64_t side = fixed ? network_.image : -1;
  const int x =
      graph_.add_input("input", DType::f32,
                       {{-1, "batch"}, {3, ""}, {side, fixed ? "" : "height"}, {side, fixed ? "" : "width"}});
  channels_[x] = 3;
  return x;
}

int Builder::tokens() {
  return graph_.add_input("input", DType::i64, {{-1, "batch"}, {-1, "tokens"}});
}

NetGraph Builder::finish(int value) {
  graph_.add_output("output", value);
  for (const auto& [name, entry] : entries_)
    require(taken_.count(name) != 0 || is_left_out(name), "weights", "'", config_.weights, "' has a tensor '",
            entry.name, "', which ", network_.name, " has not");
  return std::move(graph_);
}

HostTensor Builder::from_file(const std::string& name, const Shape& shape) {
  const auto found = entries_.find(name);
  require(found != entries_.end(), "weights", "'", config_.weights, "' has no tensor '", name, "', which ",
          network_.name, " needs", file_->why_lacking(name));
  const SafetensorsReader::Entry& entry = found->second;
  require(is_floating(entry.dtype) && entry.dtype != DType::f64, "weights", "'", name, "' is ",
          name_of(entry.dtype), ", must be f32, f16 or bf16");
  require(entry.shape == shape, "weights", "'", name, "' is ", entry.shape, ", ", network_.name, " has ",
          shape);
  taken_.insert(name);
  HostTensor tensor = file_->read(entry);
  return tensor.dtype == DType::f32 ? tensor : host_tensor(DType::f32, shape, numbers_of(tensor));
}

int Builder::parameter(const std::string& name, const Shape& shape, Init init) {
  const auto known = parameters_.find(name);
  if (known != parameters_.end()) return known->second;
  HostTensor tensor;
  if (file_) {
    tensor = from_file(name, shape);
  } else {
    std::vector<float> values(static_cast<size_t>(element_count(shape)), static_cast<float>(init.value));
    std::normal_distribution<float> normal(0, static_cast<float>(init.value));
    if (init.kind == Init::Kind::normal)
      for (float& v : values) v = normal(random_);
    tensor.shape = shape;
    tensor.data.resize(values.size() * sizeof(float));
    std::memcpy(tensor.data.data(), values.data(), tensor.data.size());
  }
  tensor.name = name;
  return parameters_[name] = graph_.add_constant(std::move(tensor));
}

int Builder::number(double value) {
  return graph_.add_constant(host_tensor(DType::f32, {}, std::vector<double>{value}));
}

int Builder::whole(const Integers& values, bool vector) {
  const Shape shape = vector ? Shape{static_cast<int64_t>(values.size())} : Shape{};
  return graph_.add_constant(host_tensor(DType::i64, shape, values));
}

int Builder::node(const char* kind, std::vector<int> inputs, Attributes attributes, int64_t channels) {
  const int y = graph_.add(kind, std::move(inputs), std::move(attributes));
  channels_[y] = channels;
  return y;
}

int Builder::conv(const std::string& name, int x, int64_t filters, const Window& window, int64_t groups,
                  bool bias) {
  const int64_t seen = channels(x) / groups;
  const double fan_in = static_cast<double>(seen * window.kernel.h * window.kernel.w);
  std::vector<int> inputs{x, parameter(name + ".weight", {filters, seen, window.kernel.h, window.kernel.w},
                                       {Init::Kind::normal, std::sqrt(2 / fan_in)})};
  if (bias) inputs.push_back(parameter(name + ".bias", {filters}, {}));
  return node("conv", std::move(inputs),
              {{"stride", window.stride.list()},
               {"pad_begin", window.pad.list()},
               {"pad_end", window.pad.list()},
               {"groups", groups}},
              filters);
}

int Builder::batch_norm(const std::string& name, int x, double epsilon) {
  const Shape shape = {channels(x)};
  const Init one{Init::Kind::constant, 1};
  return node("batch_norm",
              {x, parameter(name + ".weight", shape, one), parameter(name + ".bias", shape, {}),
               parameter(name + ".running_mean", shape, {}), parameter(name + ".running_var", shape, one)},
              {{"epsilon", epsilon}}, channels(x));
}

int Builder::linear(const std::string& name, int x, int64_t features) {
  const int64_t seen = channels(x);
  const int w = parameter(name + ".weight", {features, seen},
                          {Init::Kind::normal, 1 / std::sqrt(static_cast<double>(seen))});
  const int transposed = graph_.add("transpose", {w}, {{"axes", Integers{1, 0}}});
  return node("matmul", {x, transposed, parameter(name + ".bias", {features}, {})}, {}, features);
}

int Builder::layer_norm(const std::string& name, int x, double epsilon) {
  const Shape shape = {channels(x)};
  const int w = parameter(name + ".weight", shape, {Init::Kind::constant, 1}),
            bias = parameter(name + ".bias", shape, {});
  return node("layer_norm", {x, w, bias}, {{"axis", -1}, {"epsilon", epsilon}}, channels(x));
}

int Builder::apply(const char* function, std::vector<int> inputs) {
  const int64_t of = channels(inputs[0]);
  return node("elementwise", std::move(inputs), {{"function", function}}, of);
}

int Builder::dropout(int x, double ratio, bool samples) {
  Attributes attributes;
  if (samples) attributes.emplace("samples", true);
  return node("dropout", {x, number(ratio)}, std::move(attributes), channels(x));
}

namespace {

Attributes pooling(const char* mode, const Window& window) {
  return {{"mode", mode},
          {"kernel", window.kernel.list()},
          {"stride", window.stride.list()},
          {"pad_begin", window.pad.list()},
          {"pad_end", window.pad.list()}};
}

}  // namespace

int Builder::max_pool(int x, const Window& window, bool ceil) {
  Attributes attributes = pooling("max", window);
  attributes.emplace("ceil_mode", ceil);
  return node("pool", {x}, std::move(attributes), channels(x));
}

int Builder::average_pool(int x, const Window& window) {
  Attributes attributes = pooling("average", window);
  attributes.emplace("count_include_pad", true);
  return node("pool", {x}, std::move(attributes), channels(x));
}

int Builder::global_average(int x) {
  return node("global_pool", {x}, {{"mode", "average"}}, channels(x));
}

int Builder::flatten(int x) {
  return node("flatten", {x}, {{"axis", 1}}, channels(x));
}

int Builder::concat(const std::vector<int>& values) {
  int64_t sum = 0;
  for (int value : values) sum += channels(value);
  return node("concat", values, {{"axis", 1}}, sum);
}

std::vector<int> Builder::split(int x, size_t parts) {
  const int64_t each = channels(x) / static_cast<int64_t>(parts);
  const std::vector<int> values =
      graph_.add_many("split", {x}, parts, {{"axis", 1}, {"sizes", Integers(parts, each)}});
  for (int value : values) channels_[value] = each;
  return values;
}

int Builder::conv_norm(const Norm& names, int x, int64_t filters, const Window& window, const char* function,
                       int64_t groups) {
  x = batch_norm(names.norm, conv(names.conv, x, filters, window, groups), names.epsilon);
  return *function ? apply(function, {x}) : x;
}

int Builder::squeeze_excite(const std::string& name, int x, int64_t squeezed, const char* first,
                            const char* gate) {
  const int64_t all = channels(x);
  int g = apply(first, {conv(name + ".fc1", global_average(x), squeezed, {1}, 1, true)});
  g = apply(gate, {conv(name + ".fc2", g, all, {1}, 1, true)});
  return apply("mul", {x, g});
}

int64_t rounded_to_8(double v) {
  const int64_t nearest = std::max<int64_t>(8, static_cast<int64_t>(v + 4) / 8 * 8);
  return static_cast<double>(nearest) < 0.9 * v ? nearest + 8 : nearest;
}

}  // namespace dlprim::networks
