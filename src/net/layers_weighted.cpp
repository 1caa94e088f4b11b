// Layers with parameters: convolution, linear, batch normalisation.
#include <cmath>

#include <dlprim/linear.hpp>

#include "core/check.hpp"
#include "net/graph.hpp"

namespace dlprim {
namespace {

using detail::BackwardStep;
using detail::ForwardStep;
using detail::Graph;
using detail::Node;
using detail::require;

/// Weights and an optional bias: what convolution and linear layers share.
class WeightedNode : public Node {
 public:
  int weight = -1, bias = -1;
  Shape weight_shape;

  bool needs_input(int /*k*/) const override { return true; }
  std::vector<int> parameters() const override {
    return bias < 0 ? std::vector<int>{weight} : std::vector<int>{weight, bias};
  }

 protected:
  Tensor bias_of(const Graph& graph) const { return bias < 0 ? Tensor() : graph.value(bias); }
};

class ConvNode : public WeightedNode {
 public:
  ConvParams params;

  const char* kind() const override { return "conv"; }
  Shape output_shape(const std::vector<Shape>& x) const override {
    return conv_output_shape(x[0], weight_shape, params);
  }
  Tensor forward(const ForwardStep& step) const override {
    Tensor y(step.stream, step.y_shape);
    conv(step.stream, step.x[0], step.graph.value(weight), bias_of(step.graph), params, y);
    return y;
  }
  void backward(BackwardStep& step) const override {
    conv_backward_filter(step.stream, step.x[0], step.dy, params, step.new_gradient(weight));
    if (bias >= 0) conv_backward_bias(step.stream, step.dy, step.new_gradient(bias));
    if (!step.wanted[0]) return;
    step.dx[0] = Tensor(step.stream, step.x_shapes[0]);
    conv_backward_data(step.stream, step.dy, step.graph.value(weight), params, step.dx[0]);
  }
};

class LinearNode : public WeightedNode {
 public:
  const char* kind() const override { return "linear"; }
  Shape output_shape(const std::vector<Shape>& x) const override { return {x[0][0], weight_shape[0]}; }
  Tensor forward(const ForwardStep& step) const override {
    Tensor y(step.stream, step.y_shape);
    linear(step.stream, step.x[0], step.graph.value(weight), bias_of(step.graph), Activation::identity, y);
    return y;
  }
  void backward(BackwardStep& step) const override {
    linear_backward_weights(step.stream, step.x[0], step.dy, step.new_gradient(weight));
    if (bias >= 0) linear_backward_bias(step.stream, step.dy, step.new_gradient(bias));
    if (!step.wanted[0]) return;
    step.dx[0] = Tensor(step.stream, step.x_shapes[0]);
    linear_backward_data(step.stream, step.dy, step.graph.value(weight), step.dx[0]);
  }
};

class BatchNormNode : public Node {
 public:
  int weight = -1, bias = -1, mean = -1, variance = -1;
  BatchNormParams params;

  const char* kind() const override { return "batch_norm"; }
  bool needs_input(int /*k*/) const override { return true; }
  std::vector<int> parameters() const override { return {weight, bias, mean, variance}; }
  Shape output_shape(const std::vector<Shape>& x) const override { return x[0]; }
  void check(Mode mode, const std::vector<Shape>& x) const override {
    const int64_t count = element_count(x[0]) / x[0][1];
    require(mode == Mode::evaluation || count >= 2, "feeds", "'", name, "' has shape ", to_string(x[0]),
            ": training needs 2 or more values in a channel, to have a variance");
  }

  Tensor forward(const ForwardStep& step) const override {
    const Graph& graph = step.graph;
    Tensor y(step.stream, step.y_shape);
    if (step.mode == Mode::evaluation) {
      batch_norm_inference(step.stream, step.x[0], graph.value(weight), graph.value(bias), {},
                           graph.value(mean), graph.value(variance), params, y);
      return y;
    }
    const Shape channels = graph.value(weight).shape();
    step.saved.tensors = {Tensor(step.stream, channels), Tensor(step.stream, channels)};
    batch_norm_training(step.stream, step.x[0], graph.value(weight), graph.value(bias), {}, params,
                        graph.value(mean), graph.value(variance), y, step.saved.tensors[0],
                        step.saved.tensors[1]);
    return y;
  }
  void backward(BackwardStep& step) const override {
    const Graph& graph = step.graph;
    step.dx[0] = detail::is_sole_owner(step.dy) ? step.dy : Tensor(step.stream, step.x_shapes[0]);
    batch_norm_backward(step.stream, step.dy, step.x[0], graph.value(weight), {}, step.saved.tensors[0],
                        step.saved.tensors[1], {}, Activation::identity, step.dx[0],
                        step.new_gradient(weight), step.new_gradient(bias));
  }
};

/// Fills in the shape, the name and the parameters of a node, and adds it.
Value add_weighted(Graph& graph, std::unique_ptr<WeightedNode> node, Value x, const Shape& weight_shape,
                   bool bias, const std::string& given_name) {
  node->weight_shape = weight_shape;
  node->output_shape({graph.layer_input("x", x)});  // before any parameter is made
  const std::string name = graph.name_for(node->kind(), given_name);
  const int64_t fan_in = element_count(weight_shape) / weight_shape[0];
  const double bound = 1 / std::sqrt(static_cast<double>(fan_in));
  detail::Rollback rollback(graph);
  node->weight = graph.add_uniform(name + ".weight", weight_shape, bound);
  if (bias) node->bias = graph.add_uniform(name + ".bias", {weight_shape[0]}, bound);
  const Value y = graph.add(std::move(node), {x}, name);
  rollback.keep();
  return y;
}

}  // namespace

Value Net::conv(Value x, const ConvLayer& layer) {
  const Shape& in = graph_->layer_input("x", x, 4);
  require(layer.filters > 0, "filters", layer.filters, " must be above 0");
  require(layer.kernel[0] > 0 && layer.kernel[1] > 0, "kernel", layer.kernel[0], " x ", layer.kernel[1],
          " must be above 0");
  require(layer.params.groups > 0 && in[1] % layer.params.groups == 0, "groups", layer.params.groups,
          " does not divide ", in[1], " channels");
  require(layer.params.activation == Activation::identity, "activation", name_of(layer.params.activation),
          " must be identity: add the activation as a layer");
  auto node = std::make_unique<ConvNode>();
  node->params = layer.params;
  const Shape weight{layer.filters, in[1] / layer.params.groups, layer.kernel[0], layer.kernel[1]};
  return add_weighted(*graph_, std::move(node), x, weight, layer.bias, layer.name);
}

Value Net::linear(Value x, const LinearLayer& layer) {
  const Shape& in = graph_->layer_input("x", x, 2);
  require(layer.features > 0, "features", layer.features, " must be above 0");
  return add_weighted(*graph_, std::make_unique<LinearNode>(), x, {layer.features, in[1]}, layer.bias,
                      layer.name);
}

Value Net::batch_norm(Value x, const BatchNormParams& params, const std::string& given_name) {
  const Shape& in = graph_->layer_input("x", x);
  require(in.size() >= 2, "x", "has shape ", to_string(in), ": there is no channel axis");
  require(std::isfinite(params.epsilon) && params.epsilon > 0, "epsilon", params.epsilon,
          " must be finite and above 0");
  require(params.momentum >= 0 && params.momentum <= 1, "momentum", params.momentum, " must be in [0, 1]");
  const std::string name = graph_->name_for("batch_norm", given_name);
  const Shape channels{in[1]};
  auto node = std::make_unique<BatchNormNode>();
  node->params = params;
  detail::Rollback rollback(*graph_);
  node->weight = graph_->add_constant(name + ".weight", channels, 1, true);
  node->bias = graph_->add_constant(name + ".bias", channels, 0, true);
  node->mean = graph_->add_constant(name + ".running_mean", channels, 0, false);
  node->variance = graph_->add_constant(name + ".running_var", channels, 1, false);
  const Value y = graph_->add(std::move(node), {x}, name);
  rollback.keep();
  return y;
}

}  // namespace dlprim
