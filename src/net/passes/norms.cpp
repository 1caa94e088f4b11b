// LayerNorm and RMSNorm over the last axis, written out as exporters do, become one node:
//   d = x - mean(x);  y = d / sqrt(mean(d * d) + epsilon) [* weight] [+ bias]
// RMSNorm is without the first step. The root may be divided by, or its reciprocal multiplied with.
#include <algorithm>

#include <dlprim/net_host.hpp>

#include "net/passes/pass.hpp"

namespace dlprim::detail {
namespace {

class Norms {
 public:
  explicit Norms(Rewritten& r) : r_(r), links_(r.graph), reads_(r.graph.values.size()) {
    for (const NetGraph::Node& node : r.graph.nodes)
      for (int value : node.inputs)
        if (value != NetGraph::kNone) reads_[static_cast<size_t>(value)]++;
    for (int value : r.graph.outputs) reads_[static_cast<size_t>(value)]++;
  }

  /// Whether `n` scales by an inverse root; then the nodes before and behind it are in one.
  void take(size_t n) {
    const NetGraph::Node& scaling = node_at(n);
    const std::string function = plain_function(scaling);
    if (scaling.inputs.size() != 2 || scaling.outputs.size() != 1) return;
    for (size_t k = 0; k < 2; k++) {
      members_ = {n};
      const int deviation = scaling.inputs[k], factor = scaling.inputs[1 - k];
      const int sum = function == "mul"             ? under_inverse_root(factor)
                      : function == "div" && k == 0 ? under("sqrt", factor)
                                                    : NetGraph::kNone;
      if (sum != NetGraph::kNone && matches(deviation, sum)) return replace(n);
    }
  }

 private:
  NetGraph::Node& node_at(size_t n) { return r_.graph.nodes[n]; }
  bool read_times(int value, int times) const { return reads_[static_cast<size_t>(value)] == times; }

  /// The node that computes the value for `readers` reads and nothing else, or null. It is a member then.
  const NetGraph::Node* made(int value, int readers = 1) {
    const int producer = links_.producer(value);
    if (producer < 0 || !read_times(value, readers)) return nullptr;
    members_.push_back(static_cast<size_t>(producer));
    const NetGraph::Node& node = node_at(members_.back());
    return node.outputs.size() == 1 ? &node : nullptr;
  }

  /// The input of the function that gives the value.
  int under(const std::string& function, int value) {
    const NetGraph::Node* node = made(value);
    return node && plain_function(*node) == function ? node->inputs[0] : NetGraph::kNone;
  }
  /// Of 1 / sqrt(input), in one of its forms.
  int under_inverse_root(int value) {
    const NetGraph::Node* node = made(value);
    if (!node) return NetGraph::kNone;
    const std::string function = plain_function(*node);
    if (function == "rsqrt") return node->inputs[0];
    if (function == "reciprocal") return under("sqrt", node->inputs[0]);
    const bool divides = function == "div" && r_.number(node->inputs[0]) == 1.0;
    return divides ? under("sqrt", node->inputs[1]) : NetGraph::kNone;
  }

  /// The input of a mean over the last axis, which stays with size 1.
  int under_mean(int value) {
    const NetGraph::Node* node = made(value);
    if (!node || node->kind != "reduce" || !has_flag(*node, "keep_dims")) return NetGraph::kNone;
    const auto* name = attribute<std::string>(*node, "function");
    const ValueFacts* x = r_.fact(node->inputs[0]);
    if (!name || *name != "mean" || !x || x->shape.empty()) return NetGraph::kNone;
    const auto rank = static_cast<double>(x->shape.size());
    const std::vector<double> axes = axes_of(*node);
    return axes.size() == 1 && (axes[0] == -1 || axes[0] == rank - 1) ? node->inputs[0] : NetGraph::kNone;
  }
  std::vector<double> axes_of(const NetGraph::Node& node) const {
    if (node.inputs.size() == 2) {
      const HostTensor* constant = r_.constant(node.inputs[1]);
      return constant ? numbers_of(*constant) : std::vector<double>();
    }
    const auto* axes = attribute<std::vector<int64_t>>(node, "axes");
    return axes ? std::vector<double>(axes->begin(), axes->end()) : std::vector<double>();
  }

  /// The value whose square this is; it is read twice by that, or once.
  int under_square(int value) {
    const NetGraph::Node* node = made(value);
    if (!node || node->inputs.size() != 2) return NetGraph::kNone;
    const std::string function = plain_function(*node);
    const bool twice = function == "mul" && node->inputs[0] == node->inputs[1];
    const bool power = function == "pow" && r_.number(node->inputs[1]) == 2.0;
    square_reads_ = twice ? 2 : 1;
    return twice || power ? node->inputs[0] : NetGraph::kNone;
  }

  /// Whether `sum` is mean(deviation^2) + epsilon, and what the deviation is from.
  bool matches(int deviation, int sum) {
    const NetGraph::Node* adds = made(sum);
    if (!adds || plain_function(*adds) != "add") return false;
    const int constant = r_.constant(adds->inputs[0]) ? adds->inputs[0] : adds->inputs[1];
    const auto epsilon = r_.number(constant);
    if (!epsilon || *epsilon < 0) return false;
    epsilon_ = *epsilon;
    const int squares = under_mean(other_input(*adds, constant));
    if (squares == NetGraph::kNone || under_square(squares) != deviation) return false;
    const ValueFacts* fact = r_.fact(deviation);
    if (!fact || !is_floating(fact->dtype)) return false;
    x_ = deviation;
    rms_ = true;
    const std::vector<size_t> without_mean = members_;
    const NetGraph::Node* subtracts = made(deviation, square_reads_ + 1);
    if (subtracts && plain_function(*subtracts) == "sub" &&
        under_mean(subtracts->inputs[1]) == subtracts->inputs[0]) {
      x_ = subtracts->inputs[0];
      rms_ = false;
    } else {
      members_ = without_mean;
    }
    return true;
  }

  /// A constant with a number for each place of the last axis, of x's dtype.
  bool is_parameter(int value) const {
    const HostTensor* constant = r_.constant(value);
    const ValueFacts& x = *r_.fact(x_);
    return constant && constant->dtype == x.dtype && !constant->shape.empty() &&
           constant->shape.size() <= x.shape.size() && constant->shape.back() == x.shape.back() &&
           element_count(constant->shape) == x.shape.back();
  }
  /// The constant that the only reader of the value applies by `function`; that reader is a member then.
  int parameter(const std::string& function, int value) {
    const int reader = read_times(value, 1) ? links_.only_reader(value) : -1;
    if (reader < 0) return NetGraph::kNone;
    const NetGraph::Node& node = node_at(static_cast<size_t>(reader));
    if (plain_function(node) != function || node.inputs.size() != 2 || node.outputs.size() != 1)
      return NetGraph::kNone;
    const int constant = other_input(node, value);
    if (!is_parameter(constant)) return NetGraph::kNone;
    members_.push_back(static_cast<size_t>(reader));
    return constant;
  }

  void replace(size_t n) {
    size_t last = n;
    const int weight = parameter("mul", node_at(n).outputs[0]);
    if (weight != NetGraph::kNone) last = members_.back();
    const int bias =
        weight != NetGraph::kNone && !rms_ ? parameter("add", node_at(last).outputs[0]) : NetGraph::kNone;
    if (bias != NetGraph::kNone) last = members_.back();
    NetGraph::Node norm;
    norm.kind = "layer_norm";
    norm.name = node_at(last).name;
    norm.attributes = {{"axis", -1}, {"epsilon", epsilon_}, {"rms", rms_}};
    norm.inputs = {x_, weight, bias};
    while (norm.inputs.back() == NetGraph::kNone) norm.inputs.pop_back();
    norm.outputs = node_at(last).outputs;
    for (size_t member : members_) node_at(member).outputs.clear();
    node_at(last) = std::move(norm);
  }

  Rewritten& r_;
  const Links links_;
  std::vector<int> reads_;
  std::vector<size_t> members_;
  int x_ = NetGraph::kNone, square_reads_ = 0;
  double epsilon_ = 0;
  bool rms_ = false;
};

}  // namespace

void recognise_norms(Rewritten& r) {
  Norms norms(r);
  for (size_t n = 0; n < r.graph.nodes.size(); n++) norms.take(n);
  drop_emptied(r.graph);
}

}  // namespace dlprim::detail
