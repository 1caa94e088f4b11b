#include "net/training/training_graph.hpp"

#include <algorithm>
#include <set>

#include <dlprim/net_host.hpp>

#include "core/check.hpp"
#include "net/passes/pass.hpp"
#include "net/training/recompute.hpp"

namespace dlprim {
namespace detail {
namespace {

int output_named(const NetGraph& graph, const std::string& name, const char* argument) {
  for (int value : graph.outputs)
    if (graph.values[static_cast<size_t>(value)].name == name) return value;
  throw ValidationError(argument, "'" + name + "' is no output of the graph");
}

/// A BatchNorm becomes one in training, which gives its running mean and variance, too.
void train_batch_norm(NetGraph& graph, NetGraph::Node& node) {
  node.attributes.insert_or_assign("training", true);
  node.attributes.insert_or_assign("unbiased", true);
  node.outputs.resize(5, NetGraph::kNone);
  for (size_t k : {1, 2})
    if (node.outputs[k] == NetGraph::kNone) node.outputs[k] = graph.add_value();
}

void train_dropout(NetGraph& graph, NetGraph::Node& node, int truth) {
  node.inputs.resize(3, NetGraph::kNone);
  if (node.inputs[1] == NetGraph::kNone)
    node.inputs[1] = graph.add_constant(host_tensor(DType::f32, {}, std::vector<double>{0.5}));
  node.inputs[2] = truth;
}

/// The place of the only node that reads the value; behind all of them if there is none.
size_t only_next(const Links& links, const NetGraph& graph, int value) {
  const int reader = links.only_reader(value);
  return reader < 0 ? graph.nodes.size() : static_cast<size_t>(reader);
}

std::string activation_named(const NetGraph::Node& node) {
  const std::string function = plain_function(node);
  if (function == "relu" || function == "relu6") return function;
  const auto* name = attribute<std::string>(node, "function");
  const auto* bounds = attribute<std::vector<double>>(node, "parameters");
  const bool six =
      node.kind == "elementwise" && name && *name == "clip" && bounds && *bounds == std::vector<double>{0, 6};
  return six ? "relu6" : "";
}

/// One node that takes over the output of the one behind it, and its place: what else it reads is there.
void take_over(NetGraph& graph, size_t& at, size_t next) {
  NetGraph::Node node = std::move(graph.nodes[at]);
  node.outputs[0] = graph.nodes[next].outputs[0];
  graph.nodes[at] = NetGraph::Node();
  graph.nodes[next] = std::move(node);
  at = next;
}

/// Whether what is added to a BatchNorm's result is a residual: of the same shape. Without facts it is taken
/// to be one if it is another BatchNorm's result, or that of pooling, but not of all of a plane.
bool has_full_shape(const NetGraph& graph, const Links& links, int value) {
  const int producer = links.producer(value);
  if (producer < 0) return false;
  const std::string& kind = graph.nodes[static_cast<size_t>(producer)].kind;
  return kind == "batch_norm" || kind == "pool";
}

}  // namespace

void join_batch_norms(NetGraph& graph) {
  for (size_t n = 0; n < graph.nodes.size(); n++) {
    if (graph.nodes[n].kind != "batch_norm" || graph.nodes[n].attributes.count("activation") ||
        has_flag(graph.nodes[n], "per_element"))
      continue;
    const Links links(graph);
    size_t at = n;
    size_t next = only_next(links, graph, graph.nodes[at].outputs[0]);
    if (next == graph.nodes.size()) continue;
    if (plain_function(graph.nodes[next]) == "add" && graph.nodes[at].inputs.size() < 6) {
      const int other = other_input(graph.nodes[next], graph.nodes[at].outputs[0]);
      const size_t behind = only_next(links, graph, graph.nodes[next].outputs[0]);
      if (!has_full_shape(graph, links, other) || behind == graph.nodes.size() ||
          activation_named(graph.nodes[behind]).empty())
        continue;
      graph.nodes[at].inputs.resize(6, NetGraph::kNone);
      graph.nodes[at].inputs[5] = other;
      take_over(graph, at, next);
      next = behind;
    }
    const std::string activation = activation_named(graph.nodes[next]);
    if (activation.empty()) continue;
    graph.nodes[at].attributes.emplace("activation", activation);
    take_over(graph, at, next);
  }
  drop_emptied(graph);
}

namespace {

/// Constants become inputs.
void open(NetGraph& graph, const std::vector<TrainingGraph::State>& states) {
  for (const TrainingGraph::State& state : states) {
    NetGraph::Value& value = graph.values[static_cast<size_t>(state.value)];
    value.dtype = state.first->dtype;
    value.shape = std::vector<Dimension>();
    for (int64_t size : state.first->shape) value.shape->emplace_back(size);
    graph.constants.erase(state.value);
    graph.inputs.push_back(state.value);
  }
}

std::vector<TrainingGraph::State> statistics_of(const NetGraph& graph) {
  std::vector<TrainingGraph::State> states;
  std::set<int> seen;
  for (const NetGraph::Node& node : graph.nodes) {
    if (node.kind != "batch_norm") continue;
    for (size_t k : {3, 4}) {
      const int value = node.inputs[k];
      const auto constant = graph.constants.find(value);
      require(constant != graph.constants.end() && seen.insert(value).second, "graph", "the statistics of '",
              node.name, "' must be constants of its own");
      const std::string& name = graph.values[static_cast<size_t>(value)].name;
      states.push_back({name.empty() ? cat("value ", value) : name, constant->second, value});
    }
  }
  return states;
}

/// What may learn; whether it does, its gradient says.
std::vector<TrainingGraph::State> candidates(const NetGraph& graph, const Trainer::Config& config,
                                             const std::vector<TrainingGraph::State>& statistics,
                                             DType dtype) {
  std::vector<TrainingGraph::State> states;
  std::set<std::string> names;
  for (const auto& [value, constant] : graph.constants) {
    const std::string& name = graph.values[static_cast<size_t>(value)].name;
    const bool statistic = std::any_of(statistics.begin(), statistics.end(),
                                       [&, v = value](const auto& s) { return s.value == v; });
    const bool frozen = std::count(config.frozen.begin(), config.frozen.end(), name) != 0;
    if (name.empty() || statistic || frozen || constant->dtype != dtype || element_count(constant->shape) < 2)
      continue;
    require(names.insert(name).second, "graph", "two constants are called '", name, "'");
    states.push_back({name, constant, value});
  }
  return states;
}

}  // namespace

NetGraph without_inputs(const NetGraph& graph, const std::vector<int>& inputs) {
  NetGraph rest = graph;
  std::vector<bool> lacking(graph.values.size());
  const auto lacks = [&](int value) {
    return value != NetGraph::kNone && lacking[static_cast<size_t>(value)];
  };
  const auto erase = [&](std::vector<int>& values) {
    values.erase(std::remove_if(values.begin(), values.end(), lacks), values.end());
  };
  for (int value : inputs) lacking[static_cast<size_t>(value)] = true;
  rest.nodes.clear();
  for (const NetGraph::Node& node : graph.nodes) {
    if (std::none_of(node.inputs.begin(), node.inputs.end(), lacks)) {
      rest.nodes.push_back(node);
      continue;
    }
    for (int value : node.outputs)
      if (value != NetGraph::kNone) lacking[static_cast<size_t>(value)] = true;
  }
  erase(rest.inputs);
  erase(rest.outputs);
  return rest;
}

TrainingGraph training_graph(const NetGraph& given, const Trainer::Config& config) {
  given.check();
  for (const std::string& name : config.frozen)
    require(
        std::any_of(given.constants.begin(), given.constants.end(),
                    [&](const auto& c) { return given.values[static_cast<size_t>(c.first)].name == name; }),
        "frozen", "'", name, "' is no constant of the graph");
  TrainingGraph training;
  training.inference = given;
  NetGraph& step = training.step = given;
  training.statistics = statistics_of(step);

  std::vector<int> new_statistics;
  const int truth = step.add_constant(host_tensor(DType::boolean, {}, std::vector<double>{1}));
  for (NetGraph::Node& node : step.nodes) {
    if (node.kind == "batch_norm") train_batch_norm(step, node);
    if (node.kind == "dropout") train_dropout(step, node, truth);
  }
  for (const NetGraph::Node& node : step.nodes)
    if (node.kind == "batch_norm")
      new_statistics.insert(new_statistics.end(), {node.outputs[1], node.outputs[2]});
  join_batch_norms(step);

  const int loss = output_named(step, config.loss, "loss");
  const int seed = step.add_input("training.seed", DType::f32, {});
  const NetGraph forward = step;
  std::vector<int> outputs;
  for (const DType dtype : {DType::f32, DType::f64}) {  // constants of f64 learn where none of f32 does
    const std::vector<TrainingGraph::State> all = candidates(forward, config, training.statistics, dtype);
    if (all.empty()) continue;
    std::vector<int> of;
    for (const TrainingGraph::State& state : all) of.push_back(state.value);
    step = forward;
    const std::vector<int> gradients = add_gradients(step, loss, of, seed);
    for (size_t i = 0; i < all.size(); i++) {
      if (gradients[i] == NetGraph::kNone) continue;
      training.parameters.push_back(all[i]);
      outputs.push_back(gradients[i]);
    }
    if (!outputs.empty()) break;
  }
  if (config.recompute) recompute_segments(step, seed);
  require(!outputs.empty(), "graph", "no constant with a name leads to '", config.loss,
          "': there is nothing to train");
  open(step, training.parameters);
  open(step, training.statistics);
  open(training.inference, training.parameters);
  open(training.inference, training.statistics);
  step.outputs.insert(step.outputs.end(), outputs.begin(), outputs.end());
  step.outputs.insert(step.outputs.end(), new_statistics.begin(), new_statistics.end());
  return training;
}

}  // namespace detail

void add_class_loss(NetGraph& graph, const std::string& logits, const std::string& labels,
                    const ClassLoss& params) {
  using detail::require;
  int x = detail::output_named(graph, logits, "logits");
  for (const auto* list : {&graph.inputs, &graph.outputs})
    for (int value : *list) {
      const std::string& name = graph.values[static_cast<size_t>(value)].name;
      require(name != labels && name != params.loss, "names", "the graph has a '", name, "' already");
    }
  const auto whole = [&](std::vector<int64_t> numbers) {
    const auto count = static_cast<int64_t>(numbers.size());
    return graph.add_constant(host_tensor(DType::i64, {count}, numbers));
  };
  // [N, L, C] is as [N L, C].
  const int sizes = graph.add("shape", {x}, {{"start", -1}});
  const int rows = graph.add("concat", {whole({-1}), sizes}, {{"axis", 0}});
  x = graph.add("reshape", {x, rows}, {{"allow_zero", true}});
  const int target = graph.add_input(labels, DType::i64, {});
  graph.values[static_cast<size_t>(target)].shape.reset();
  const int flat = graph.add("reshape", {target, whole({-1})});
  const int loss =
      graph.add("class_loss", {x, flat}, {{"logits", true}, {"label_smoothing", params.label_smoothing}});
  graph.add_output(params.loss, loss);
}

}  // namespace dlprim
