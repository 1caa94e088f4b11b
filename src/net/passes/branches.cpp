#include "net/passes/branches.hpp"

#include <utility>
#include <vector>

namespace dlprim::detail {
namespace {

class Taking {
 public:
  Taking(const NetGraph& graph, const Branches& known) : known_(known), made_(graph) {
    made_.nodes.clear();
    std::vector<int> places(graph.values.size());
    for (size_t i = 0; i < places.size(); i++) places[i] = static_cast<int>(i);
    for (const NetGraph::Node& node : graph.nodes) add(node, places);
  }

  NetGraph& made() { return made_; }
  bool any() const { return any_; }

 private:
  static int at(const std::vector<int>& places, int value) {
    return value == NetGraph::kNone ? NetGraph::kNone : places[static_cast<size_t>(value)];
  }

  /// The node, or the nodes of the body that it takes. `places`: where its graph's values are in the new one.
  void add(const NetGraph::Node& node, const std::vector<int>& places) {
    const auto known = known_.find(&node);
    if (known != known_.end()) return take(node, known->second ? 0 : 1, places);
    NetGraph::Node& copy = made_.nodes.emplace_back(node);
    for (int& value : copy.inputs) value = at(places, value);
    for (int& value : copy.outputs) value = at(places, value);
  }

  void take(const NetGraph::Node& node, size_t which, const std::vector<int>& outside) {
    any_ = true;
    const NetGraph& body = *node.bodies[which];
    std::vector<int> places(body.values.size(), NetGraph::kNone);
    size_t input = which == 0 ? 1 : 1 + node.bodies[0]->inputs.size();
    for (int value : body.inputs) places[static_cast<size_t>(value)] = at(outside, node.inputs[input++]);
    // What the body writes is the node's output, unless it is an input or a constant, or two outputs are it.
    for (size_t k = 0; k < body.outputs.size(); k++) {
      int& place = places[static_cast<size_t>(body.outputs[k])];
      const bool written = place == NetGraph::kNone && body.constants.count(body.outputs[k]) == 0;
      if (written) place = at(outside, node.outputs[k]);
    }
    for (size_t value = 0; value < places.size(); value++)
      if (places[value] == NetGraph::kNone) {
        places[value] = static_cast<int>(made_.values.size());
        made_.values.push_back(body.values[value]);
      }
    for (const auto& [value, constant] : body.constants) made_.constants[at(places, value)] = constant;
    for (const NetGraph::Node& inner : body.nodes) add(inner, places);
    for (size_t k = 0; k < body.outputs.size(); k++) {
      const int from = at(places, body.outputs[k]), to = at(outside, node.outputs[k]);
      if (from == to || to == NetGraph::kNone) continue;
      NetGraph::Node& same = made_.nodes.emplace_back();
      same.kind = "identity";
      same.name = node.name;
      same.inputs = {from};
      same.outputs = {to};
    }
  }

  const Branches& known_;
  NetGraph made_;
  bool any_ = false;
};

}  // namespace

std::optional<NetGraph> with_branches_taken(const NetGraph& graph, const Branches& known) {
  Taking taking(graph, known);
  if (!taking.any()) return std::nullopt;
  return std::move(taking.made());
}

}  // namespace dlprim::detail
