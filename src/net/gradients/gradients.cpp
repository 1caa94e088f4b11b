// Reverse differentiation of a graph: gradients flow from the loss back through the nodes, each of which has
// a rule. Where a value was used more than once its gradients are added, those of later uses first.
#include <algorithm>
#include <iterator>

#include <dlprim/net_host.hpp>
#include <dlprim/net_training.hpp>

#include "core/check.hpp"
#include "net/gradients/rule.hpp"

namespace dlprim {
namespace detail {

GradientStep::GradientStep(GradientGraph& graph, size_t place, std::vector<int> dy, std::vector<bool> wanted)
    : given(wanted.size(), NetGraph::kNone),
      graph_(graph),
      place_(place),
      dy_(std::move(dy)),
      wanted_(std::move(wanted)) {}

const NetGraph::Node& GradientStep::node() const {
  return graph_.graph.nodes[place_];
}

int GradientStep::y(size_t k) {
  std::vector<int>& outputs = graph_.graph.nodes[place_].outputs;
  if (outputs.size() <= k) outputs.resize(k + 1, NetGraph::kNone);
  if (outputs[k] == NetGraph::kNone) outputs[k] = graph_.graph.add_value();
  return graph_.graph.nodes[place_].outputs[k];
}

void GradientStep::give(size_t k, int gradient) {
  if (wanted(k)) given[k] = gradient;
}

std::vector<int> GradientStep::add_many(const char* kind, std::vector<int> inputs,
                                        const std::vector<bool>& outputs, Attributes attributes) {
  NetGraph::Node made;
  made.kind = kind;
  made.name = node().name.empty() ? "" : node().name + ".backward";
  made.attributes = std::move(attributes);
  made.inputs = std::move(inputs);
  for (const bool there : outputs) made.outputs.push_back(there ? graph_.graph.add_value() : NetGraph::kNone);
  graph_.backward.push_back(std::move(made));
  return graph_.backward.back().outputs;
}
int GradientStep::add(const char* kind, std::vector<int> inputs, Attributes attributes) {
  return add_many(kind, std::move(inputs), {true}, std::move(attributes)).front();
}

int GradientStep::pointwise(const std::string& body, std::vector<int> inputs, std::vector<double> scalars,
                            const std::string& gradient_of) {
  Attributes attributes{{"body", body}, {"scalars", std::move(scalars)}, {"like", 0}};
  if (!gradient_of.empty()) attributes.emplace("gradient_of", gradient_of);
  return add("pointwise", std::move(inputs), std::move(attributes));
}

int GradientStep::sizes(int value) {
  return graph_.sizes(value);
}
int GradientStep::reshaped(int gradient, int like) {
  return add("reshape", {gradient, sizes(like)}, {{"allow_zero", true}});
}
int GradientStep::whole(const Attribute::Integers& numbers) {
  return graph_.graph.add_constant(host_tensor(DType::i64, {static_cast<int64_t>(numbers.size())}, numbers));
}
int GradientStep::number(double value) {
  return graph_.graph.add_constant(host_tensor(DType::f32, {}, std::vector<double>{value}));
}

bool GradientStep::made_by(int value, const std::string& kind) const {
  const int producer = graph_.links.producer(value);
  return producer >= 0 && graph_.graph.nodes[static_cast<size_t>(producer)].kind == kind;
}

Attributes GradientStep::taken(std::initializer_list<const char*> names) const {
  Attributes attributes;
  for (const char* name : names)
    if (const auto found = node().attributes.find(name); found != node().attributes.end())
      attributes.insert(*found);
  return attributes;
}

std::vector<double> GradientStep::constant(size_t k) const {
  const auto found = graph_.graph.constants.find(x(k));
  if (found == graph_.graph.constants.end()) refuse(cat("input ", k, " is no constant"));
  return numbers_of(*found->second);
}

void GradientStep::set(const char* name, Attribute value) {
  graph_.graph.nodes[place_].attributes.insert_or_assign(name, std::move(value));
}

void GradientStep::refuse(const std::string& why) const {
  throw ValidationError(cat("node '", node().name, "' (", node().kind, ")"), "has no gradient: " + why);
}

GradientRule find_gradient_rule(const std::string& kind) {
  for (const RuleList& rules : {element_rules(), layer_rules(), shape_rules()})
    for (const NamedRule& rule : rules)
      if (kind == rule.kind) return rule.rule;
  return nullptr;
}

int GradientGraph::sizes(int value) {
  const auto known = sizes_.find(value);
  if (known != sizes_.end()) return known->second;
  return sizes_[value] = graph.add_value();
}

void GradientGraph::finish() {
  std::vector<NetGraph::Node> nodes;
  const auto put_sizes = [&](int value) {
    const auto asked = sizes_.find(value);
    if (asked == sizes_.end()) return;
    NetGraph::Node shape;
    shape.kind = "shape";
    shape.inputs = {value};
    shape.outputs = {asked->second};
    nodes.push_back(std::move(shape));
  };
  for (int value : graph.inputs) put_sizes(value);
  std::vector<int> constants;
  for (const auto& [value, constant] : graph.constants) constants.push_back(value);
  for (int value : constants) put_sizes(value);
  const auto put = [&](NetGraph::Node node) {
    nodes.push_back(std::move(node));
    const std::vector<int> outputs = nodes.back().outputs;
    for (int value : outputs)
      if (value != NetGraph::kNone) put_sizes(value);
  };
  for (NetGraph::Node& node : graph.nodes) put(std::move(node));
  for (NetGraph::Node& node : backward) put(std::move(node));
  graph.nodes = std::move(nodes);
}

namespace {

/// Kinds whose results are whole numbers, or depend on nothing but their inputs' shapes: no gradient flows.
bool is_constant_nearly_everywhere(const std::string& kind) {
  constexpr const char* kKinds[] = {"arg_extreme", "bernoulli", "eye",   "multinomial",
                                    "nonzero",     "random",    "shape", "size"};
  return std::any_of(std::begin(kKinds), std::end(kKinds), [&](const char* name) { return kind == name; });
}

/// Values that depend on one of `of`: gradients must flow to them.
std::vector<bool> led_to(const NetGraph& graph, const std::vector<int>& of) {
  std::vector<bool> leads(graph.values.size(), false);
  for (int value : of) leads[static_cast<size_t>(value)] = true;
  for (const NetGraph::Node& node : graph.nodes) {
    bool any = false;
    for (int value : node.inputs)
      any = any || (value != NetGraph::kNone && leads[static_cast<size_t>(value)]);
    if (is_constant_nearly_everywhere(node.kind)) any = false;
    for (int value : node.outputs)
      if (value != NetGraph::kNone) leads[static_cast<size_t>(value)] = any;
  }
  for (int value : of) leads[static_cast<size_t>(value)] = true;
  return leads;
}

class Differentiation {
 public:
  Differentiation(NetGraph& graph, const std::vector<int>& of)
      : growing_(graph), leads_(led_to(graph, of)), sums_(graph.values.size(), NetGraph::kNone) {}

  /// `seed` becomes of the loss's shape and dtype.
  void run(int loss, int seed) {
    const auto add = [&](const char* kind, std::vector<int> inputs) {
      NetGraph::Node node;
      node.kind = kind;
      node.inputs = std::move(inputs);
      node.outputs = {growing_.graph.add_value()};
      growing_.backward.push_back(std::move(node));
      return growing_.backward.back().outputs[0];
    };
    sums_[static_cast<size_t>(loss)] = add("cast", {add("expand", {seed, growing_.sizes(loss)}), loss});
    for (size_t place = growing_.forward; place-- > 0;) step_back(place);
  }
  int gradient(int value) const { return sums_[static_cast<size_t>(value)]; }
  void finish() { growing_.finish(); }

 private:
  void step_back(size_t place) {
    const NetGraph::Node& node = growing_.graph.nodes[place];
    std::vector<int> dy;
    bool reached = false;
    for (int value : node.outputs) {
      dy.push_back(value == NetGraph::kNone ? NetGraph::kNone : sums_[static_cast<size_t>(value)]);
      reached = reached || dy.back() != NetGraph::kNone;
    }
    std::vector<bool> wanted;
    bool any = false;
    for (int value : node.inputs) {
      wanted.push_back(value != NetGraph::kNone && leads_[static_cast<size_t>(value)]);
      any = any || wanted.back();
    }
    if (!reached || !any) return;
    GradientStep step(growing_, place, std::move(dy), std::move(wanted));
    const GradientRule rule = find_gradient_rule(node.kind);
    if (!rule) step.refuse("its kind has none");
    rule(step);
    for (size_t k = 0; k < step.given.size(); k++)
      if (step.given[k] != NetGraph::kNone) accumulate(step, step.x(k), step.given[k]);
  }

  void accumulate(GradientStep& step, int value, int gradient) {
    int& sum = sums_[static_cast<size_t>(value)];
    sum = sum == NetGraph::kNone ? gradient : step.add("elementwise", {sum, gradient}, {{"function", "add"}});
  }

  GradientGraph growing_;
  const std::vector<bool> leads_;
  std::vector<int> sums_;  ///< of the values that were there
};

}  // namespace
}  // namespace detail

std::vector<int> add_gradients(NetGraph& graph, int loss, const std::vector<int>& of, int seed) {
  using detail::require;
  const int count = static_cast<int>(graph.values.size());
  require(loss >= 0 && loss < count, "loss", loss, " is no value of the graph");
  for (int value : of) require(value >= 0 && value < count, "of", value, " is no value of the graph");
  require(seed >= NetGraph::kNone && seed < count, "seed", seed, " is no value of the graph");
  NetGraph grown = graph;  // nothing has changed if a rule refuses
  detail::Differentiation work(grown, of);
  if (seed == NetGraph::kNone) seed = grown.add_constant(host_tensor(DType::f32, {}, std::vector<double>{1}));
  work.run(loss, seed);
  std::vector<int> gradients;
  for (int value : of) gradients.push_back(work.gradient(value));
  work.finish();
  graph = std::move(grown);
  return gradients;
}

}  // namespace dlprim
