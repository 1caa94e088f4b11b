// The graph: adding nodes and parameters, names, the summary. The layers themselves are in layers_*.cpp.
#include "net/graph.hpp"

#include <algorithm>
#include <atomic>

#include <dlprim/copy.hpp>

#include "core/check.hpp"

namespace dlprim {
namespace detail {

const Tensor& BackwardStep::new_gradient(int parameter) {
  Tensor& gradient = parameter_gradients[static_cast<size_t>(parameter)];
  gradient = Tensor(stream, graph.value(parameter).shape());
  return gradient;
}

Tensor InputNode::forward(const ForwardStep& /*step*/) const {
  return {};
}  // its value is fed

namespace {

uint64_t next_number() {
  static std::atomic<uint64_t> number{0};
  return ++number;
}

}  // namespace

Graph::Graph(const Stream& stream_, uint64_t seed)
    : number(next_number()), stream(stream_), random{seed, 0} {}

int Graph::id_of(const char* argument, Value value) const {
  require(value.graph_ != 0, argument, "is no value: it is empty");
  require(value.graph_ == number, argument, "is a value of another net");
  return value.id_;
}

const Shape& Graph::layer_input(const char* argument, Value value, int rank) const {
  const Node& from = node(argument, value);
  require(from.dtype == DType::f32, argument, "'", from.name, "' is ", name_of(from.dtype), ", must be f32");
  require(rank < 0 || from.shape.size() == rank, argument, "'", from.name, "' has rank ", from.shape.size(),
          " with its batch axis, must have ", rank);
  return from.shape;
}

Value Graph::add(std::unique_ptr<Node> node, const std::vector<Value>& inputs, const std::string& name) {
  std::vector<Shape> shapes;
  for (Value input : inputs) {
    node->inputs.push_back(id_of("x", input));
    shapes.push_back(nodes[static_cast<size_t>(node->inputs.back())]->shape);
  }
  node->shape = node->output_shape(shapes);
  element_count(node->shape);
  node->name = name_for(node->kind(), name);
  nodes.push_back(std::move(node));
  return Value(number, static_cast<int>(nodes.size()) - 1);
}

std::string Graph::name_for(const char* kind, const std::string& given) const {
  const auto taken = [&](const std::string& name) {
    return std::any_of(nodes.begin(), nodes.end(), [&](const auto& node) { return node->name == name; });
  };
  require(!taken(given) || given.empty(), "name", "'", given, "' is taken by another layer");
  if (!given.empty()) return given;
  for (int number = 1;; number++)
    if (std::string name = cat(kind, number); !taken(name)) return name;
}

Parameter& Graph::new_parameter(const std::string& name, const Shape& shape, bool trained) {
  parameters.push_back({name, Tensor(stream, shape), Tensor(), trained});
  return parameters.back();
}

int Graph::add_uniform(const std::string& name, const Shape& shape, double bound) {
  const Tensor& value = new_parameter(name, shape, true).value;
  random_uniform(stream, -bound, bound, random.take(value.numel()), value);
  return static_cast<int>(parameters.size()) - 1;
}

int Graph::add_constant(const std::string& name, const Shape& shape, double value, bool trained) {
  fill(stream, value, new_parameter(name, shape, trained).value);
  return static_cast<int>(parameters.size()) - 1;
}

}  // namespace detail

using detail::cat;

Net::Net(const Stream& stream, uint64_t seed) : graph_(std::make_shared<detail::Graph>(stream, seed)) {}

Value Net::input(const Shape& shape, DType dtype, const std::string& name) {
  auto node = std::make_unique<detail::InputNode>();
  node->shape.push_back(1);
  for (int64_t size : shape) {
    detail::require(size > 0, "shape", to_string(shape), " has a size below 1");
    node->shape.push_back(size);
  }
  node->dtype = dtype;
  return graph_->add(std::move(node), {}, name);
}

const Shape& Net::shape(Value value) const {
  return graph_->node("value", value).shape;
}

const std::vector<Parameter>& Net::parameters() const {
  return graph_->parameters;
}

std::string Net::summary() const {
  const auto padding = [](size_t width, const std::string& text) {
    return std::string(width - std::min(width, text.size()), ' ');
  };
  const auto line = [&](const std::string& name, const std::string& shape, const std::string& count) {
    return name + padding(16, name) + " " + shape + padding(20, shape) + " " + padding(12, count) + count +
           "\n";
  };
  std::string table = line("layer", "output", "parameters");
  int64_t total = 0;
  for (const auto& node : graph_->nodes) {
    int64_t count = 0;
    for (int p : node->parameters())
      if (graph_->parameters[static_cast<size_t>(p)].trained) count += graph_->value(p).numel();
    total += count;
    std::string shape = "[N";
    for (int i = 1; i < node->shape.size(); i++) shape += cat(", ", node->shape[i]);
    const bool scalar = node->shape.size() == 1 && !node->inputs.empty();  // the losses: one number a batch
    table += line(node->name, scalar ? "[1]" : shape + "]", count ? cat(count) : "");
  }
  return table + line("all", "", cat(total));
}

}  // namespace dlprim
