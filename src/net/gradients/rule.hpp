// How a node's gradients are computed: by nodes. A rule is told of one node and the gradients of its outputs,
// and gives those of its inputs.
#pragma once

#include <initializer_list>
#include <map>
#include <string>
#include <vector>

#include <dlprim/net_graph.hpp>

#include "net/passes/pass.hpp"

namespace dlprim::detail {

class GradientGraph;

/// One node, and the nodes that a rule makes for it.
class GradientStep {
 public:
  GradientStep(GradientGraph& graph_, size_t place_, std::vector<int> dy_, std::vector<bool> wanted_);

  const NetGraph::Node& node() const;
  bool has(size_t k) const { return k < node().inputs.size() && x(k) != NetGraph::kNone; }
  int x(size_t k) const { return node().inputs[k]; }
  /// Output `k`, which the node gives from now on if it did not.
  int y(size_t k = 0);
  /// The gradient of output `k`; kNone if none flows.
  int dy(size_t k = 0) const { return k < dy_.size() ? dy_[k] : NetGraph::kNone; }
  /// Whether the gradient of input `k` leads somewhere.
  bool wanted(size_t k) const { return k < wanted_.size() && wanted_[k]; }
  void give(size_t k, int gradient);

  int add(const char* kind, std::vector<int> inputs, Attributes attributes = {});
  std::vector<int> add_many(const char* kind, std::vector<int> inputs, const std::vector<bool>& outputs,
                            Attributes attributes = {});
  /// An expression of pointwise.hpp; `gradient_of`: the elementwise function, if it is one's gradient.
  int pointwise(const std::string& body, std::vector<int> inputs, std::vector<double> scalars = {},
                const std::string& gradient_of = {});
  /// The value's sizes, i64, computed where the value is, so that it is not kept for them.
  int sizes(int value);
  int reshaped(int gradient, int like);
  int whole(const Attribute::Integers& numbers);
  int number(double value);  ///< a constant of f32
  /// Whether a node of that kind writes the value, which the graph had before it grew.
  bool made_by(int value, const std::string& kind) const;
  /// The node's attributes of these names, those that it has.
  Attributes taken(std::initializer_list<const char*> names) const;
  /// The numbers of an input that is a constant. Throws ValidationError if it is none.
  std::vector<double> constant(size_t k) const;
  /// An attribute of the forward node is set.
  void set(const char* name, Attribute value);

  /// Throws ValidationError: the node, and why it has no gradient.
  [[noreturn]] void refuse(const std::string& why) const;

  std::vector<int> given;  ///< gradients of inputs

 private:
  GradientGraph& graph_;
  size_t place_;
  std::vector<int> dy_;
  std::vector<bool> wanted_;
};

using GradientRule = void (*)(GradientStep& step);

struct NamedRule {
  const char* kind;
  GradientRule rule;
};
struct RuleList {
  const NamedRule* first;
  size_t count;
  const NamedRule* begin() const { return first; }
  const NamedRule* end() const { return first + count; }
};
template <size_t N>
constexpr RuleList rules_of(const NamedRule (&rules)[N]) {
  return {rules, N};
}

RuleList element_rules();
RuleList layer_rules();
RuleList shape_rules();

/// Null: the kind has no gradient.
GradientRule find_gradient_rule(const std::string& kind);

/// The graph that grows: nodes of the forward direction, then those of gradients.
class GradientGraph {
 public:
  explicit GradientGraph(NetGraph& graph_) : graph(graph_), links(graph_), forward(graph_.nodes.size()) {}

  NetGraph& graph;
  const Links links;     ///< of what was there
  const size_t forward;  ///< how many nodes were there
  std::vector<NetGraph::Node> backward;

  int sizes(int value);
  /// All nodes become the graph's.
  void finish();

 private:
  std::map<int, int> sizes_;  ///< of values
};

}  // namespace dlprim::detail
