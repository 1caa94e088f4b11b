#include "net/passes/pass.hpp"

#include <algorithm>

#include <dlprim/net_model.hpp>

#include "core/check.hpp"

namespace dlprim {
namespace detail {

int Rewritten::add_constant(HostTensor tensor) {
  const ValueFacts known{tensor.dtype, tensor.shape};
  const int value = graph.add_constant(std::move(tensor));
  facts.resize(graph.values.size());
  facts.back() = known;
  return value;
}

std::optional<double> Rewritten::number(int value) const {
  const HostTensor* numbers = constant(value);
  if (!numbers || element_count(numbers->shape) != 1) return std::nullopt;
  return numbers_of(*numbers)[0];
}

int Rewritten::add_value(const ValueFacts& known) {
  const int value = graph.add_value();
  facts.resize(graph.values.size());
  facts.back() = known;
  return value;
}

const std::vector<GraphPass>& passes() {
  static const auto* list = new std::vector<GraphPass>{
      {"branches", "of an If whose condition is known only the branch that it takes is left", nullptr, true},
      {"integers", "products of quantised tensors multiply their integers", multiply_integers, true},
      {"constants", "what is made of constants alone, or of shapes, is one", fold_constants, true},
      {"splits", "parts of a tensor that were gathered or sliced are views", join_splits, true},
      {"no_ops", "nodes that give their input again go", remove_no_ops, true},
      {"repeats", "what is computed twice is computed once", remove_repeats, true},
      {"pads", "zeros around a convolution's input are its own padding", fold_pads, true},
      {"affine", "factors and terms for each channel, and BatchNorm, go into the convolution in front",
       fold_affine, false},
      {"products", "products of one tensor with several constants are one", join_products, false},
      {"norms", "LayerNorm and RMSNorm that are written out are one node", recognise_norms, true},
      {"rotary", "rotary embeddings that are written out are one node", recognise_rotary, true},
      {"attention", "attention that is written out is one node, and causal masks are made once",
       recognise_attention, true},
      {"functions", "SiLU, hardswish and GELU that are written out are one node", recognise_functions, true},
      {"precision", "products, and what follows them, compute in the dtype that the model was asked for",
       lower_precision, true},
      {"epilogue", "bias, residual and activation go into the product or convolution in front",
       fuse_epilogues, true},
      {"pointwise", "elementwise operators in a row become one kernel", fuse_pointwise, true},
      {"channels_last", "convolutions write channels last where they are faster so", choose_layouts, true},
      {"places", "what is concatenated is computed where it ends up", place_parts, true},
      {"dead", "what nobody reads is not computed", remove_dead, false},
  };
  return *list;
}

void run_passes(Rewritten& rewritten, const std::vector<std::string>& without, Passes which) {
  for (const GraphPass& pass : passes()) {
    const bool wanted = std::find(without.begin(), without.end(), pass.name) == without.end();
    if (!pass.run || !wanted || (which == Passes::without_facts && pass.needs_facts)) continue;
    pass.run(rewritten);
    if (rewritten.share) rewritten.share(rewritten.graph);
  }
}

namespace {

bool gives_any(const NetGraph::Node& node, const std::vector<bool>& values) {
  return std::any_of(node.outputs.begin(), node.outputs.end(), [&](int value) {
    return value != NetGraph::kNone && values[static_cast<size_t>(value)];
  });
}

/// The values that the outputs depend on. Nodes have no effect but their outputs.
std::vector<bool> needed_values(const NetGraph& graph) {
  std::vector<bool> needed(graph.values.size());
  for (int value : graph.outputs) needed[static_cast<size_t>(value)] = true;
  for (size_t n = graph.nodes.size(); n-- > 0;) {
    const NetGraph::Node& node = graph.nodes[n];
    if (!gives_any(node, needed)) continue;
    for (int value : node.inputs)
      if (value != NetGraph::kNone) needed[static_cast<size_t>(value)] = true;
  }
  return needed;
}

}  // namespace

Links::Links(const NetGraph& graph) : producers_(graph.values.size(), -1), readers_(graph.values.size(), -1) {
  constexpr int kSeveral = -2;
  const auto read = [&](int value, int node) {
    int& reader = readers_[static_cast<size_t>(value)];
    reader = reader == -1 || reader == node ? node : kSeveral;
  };
  const std::vector<bool> needed = needed_values(graph);
  for (size_t n = 0; n < graph.nodes.size(); n++) {
    if (!gives_any(graph.nodes[n], needed)) continue;
    for (int value : graph.nodes[n].outputs)
      if (value != NetGraph::kNone) producers_[static_cast<size_t>(value)] = static_cast<int>(n);
    for (int value : graph.nodes[n].inputs)
      if (value != NetGraph::kNone) read(value, static_cast<int>(n));
  }
  for (int value : graph.outputs) readers_[static_cast<size_t>(value)] = kSeveral;
  for (int& reader : readers_) reader = std::max(reader, -1);
}

std::string plain_function(const NetGraph::Node& node) {
  if (node.kind != "elementwise" || node.attributes.count("parameters") || node.attributes.count("dtype"))
    return "";
  const auto* name = attribute<std::string>(node, "function");
  return name ? *name : "";
}

bool has_flag(const NetGraph::Node& node, const char* name) {
  const auto* flag = attribute<int64_t>(node, name);
  return flag && *flag != 0;
}

int other_input(const NetGraph::Node& node, int value) {
  return node.inputs[0] == value ? node.inputs[1] : node.inputs[0];
}

NetGraph::Node node_of(const char* kind, std::vector<int> inputs, int y, Attributes attributes) {
  NetGraph::Node node;
  node.kind = kind;
  node.attributes = std::move(attributes);
  node.inputs = std::move(inputs);
  node.outputs = {y};
  return node;
}

void put_in_front(NetGraph& graph, std::map<size_t, std::vector<NetGraph::Node>> made) {
  std::vector<NetGraph::Node> nodes;
  for (size_t n = 0; n < graph.nodes.size(); n++) {
    for (NetGraph::Node& node : made[n]) nodes.push_back(std::move(node));
    nodes.push_back(std::move(graph.nodes[n]));
  }
  graph.nodes = std::move(nodes);
  drop_emptied(graph);
}

void drop_emptied(NetGraph& graph) {
  graph.nodes.erase(std::remove_if(graph.nodes.begin(), graph.nodes.end(),
                                   [](const NetGraph::Node& node) { return node.outputs.empty(); }),
                    graph.nodes.end());
}

void remove_dead(Rewritten& rewritten) {
  NetGraph& graph = rewritten.graph;
  const std::vector<bool> needed = needed_values(graph);
  for (NetGraph::Node& node : graph.nodes)
    if (!gives_any(node, needed)) node.outputs.clear();
  drop_emptied(graph);
  for (auto it = graph.constants.begin(); it != graph.constants.end();)
    it = needed[static_cast<size_t>(it->first)] ? std::next(it) : graph.constants.erase(it);
}

}  // namespace detail

std::vector<std::string> graph_passes() {
  std::vector<std::string> names;
  for (const detail::GraphPass& pass : detail::passes()) names.emplace_back(pass.name);
  return names;
}

}  // namespace dlprim
