#include "net/training/recompute.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "net/gradients/rule.hpp"

namespace dlprim::detail {
namespace {

class Recomputation {
 public:
  Recomputation(NetGraph& graph, int seed)
      : graph_(graph),
        depends_(graph.values.size()),
        stays_(graph.values.size(), true),
        producers_(graph.values.size()) {
    depends_[index(seed)] = true;
    first_ = graph.nodes.size();
    for (size_t n = 0; n < graph.nodes.size(); n++) {
      const NetGraph::Node& node = graph.nodes[n];
      const bool any = std::any_of(node.inputs.begin(), node.inputs.end(), [&](int value) {
        return value != NetGraph::kNone && depends_[index(value)];
      });
      for (int value : node.outputs)
        if (value != NetGraph::kNone) depends_[index(value)] = any, producers_[index(value)] = n;
      if (any) first_ = std::min(first_, n);
    }
    length_ = static_cast<size_t>(std::ceil(std::sqrt(static_cast<double>(std::max<size_t>(first_, 1)))));
    find_what_goes();
  }

  void run() {
    std::vector<NetGraph::Node> nodes = std::move(graph_.nodes);
    forward_ = &nodes;
    for (size_t n = 0; n < nodes.size(); n++) {
      NetGraph::Node node = nodes[n];
      if (n >= first_)
        for (int& value : node.inputs)
          if (value != NetGraph::kNone) value = again(value);
      result_.push_back(std::move(node));
    }
    graph_.nodes = std::move(result_);
  }

 private:
  static size_t index(int value) { return static_cast<size_t>(value); }
  size_t segment(size_t node) const { return node / length_; }

  /// Kinds that give the same when they run again, and more than sizes.
  static bool repeats(const NetGraph::Node& node) {
    return find_gradient_rule(node.kind) && node.kind != "dropout" && node.kind != "class_loss";
  }
  /// Outputs behind the first are small, or places that cost more than they take.
  static bool first_alone(const NetGraph::Node& node) {
    return node.kind == "batch_norm" || node.kind == "layer_norm" || node.kind == "pool";
  }

  /// Kinds whose gradient goes to the elements that are equal to the result: computed again, among other
  /// nodes, these may be rounded in another way.
  static bool looks_for_its_result(const NetGraph::Node& node) {
    const auto* function = attribute<std::string>(node, "function");
    return node.kind == "reduce" && function && (*function == "max" || *function == "min");
  }

  void find_what_goes() {
    const size_t last = first_ == 0 ? 0 : segment(first_ - 1);
    for (size_t n = 0; n < first_; n++) {
      const NetGraph::Node& node = graph_.nodes[n];
      if (!repeats(node) || segment(n) == last) continue;  // gradients begin with the last segment
      for (size_t k = 0; k < node.outputs.size(); k++)
        if (node.outputs[k] != NetGraph::kNone && (k == 0 || !first_alone(node)))
          stays_[index(node.outputs[k])] = false;
    }
    for (int value : graph_.outputs) stays_[index(value)] = true;
    for (size_t n = 0; n < first_; n++)
      if (looks_for_its_result(graph_.nodes[n]))
        stays_[index(graph_.nodes[n].inputs[0])] = stays_[index(graph_.nodes[n].outputs[0])] = true;
    for (size_t n = 0; n < first_; n++)
      for (int value : graph_.nodes[n].inputs)
        if (value != NetGraph::kNone && !stays_[index(value)] &&
            segment(producers_[index(value)]) != segment(n))
          stays_[index(value)] = true;
  }

  /// The value, or what it is computed again as.
  int again(int value) {
    if (stays_[index(value)] || depends_[index(value)]) return value;
    if (const auto made = made_.find(value); made != made_.end()) return made->second;
    const NetGraph::Node& original = (*forward_)[producers_[index(value)]];
    NetGraph::Node node = original;
    for (int& input : node.inputs)
      if (input != NetGraph::kNone) input = again(input);
    for (size_t k = 0; k < node.outputs.size(); k++) {
      int& output = node.outputs[k];
      if (output == NetGraph::kNone) continue;
      if (k > 0 && first_alone(original)) {
        output = NetGraph::kNone;
        continue;
      }
      output = graph_.add_value(graph_.values[index(output)].name);
      made_[original.outputs[k]] = output;
    }
    if (node.kind == "batch_norm")
      node.outputs.resize(5, NetGraph::kNone), node.outputs[3] = graph_.add_value();
    result_.push_back(std::move(node));
    return made_.at(value);
  }

  NetGraph& graph_;
  std::vector<bool> depends_;  ///< on the seed, by value
  std::vector<bool> stays_;
  std::vector<size_t> producers_;
  size_t first_ = 0, length_ = 1;
  const std::vector<NetGraph::Node>* forward_ = nullptr;
  std::vector<NetGraph::Node> result_;
  std::map<int, int> made_;
};

}  // namespace

void recompute_segments(NetGraph& graph, int seed) {
  Recomputation(graph, seed).run();
}

}  // namespace dlprim::detail
