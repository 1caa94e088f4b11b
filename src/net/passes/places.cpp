// Inputs of a concatenation that nobody else reads are computed where they end up: the node that gives one
// writes into a part of the result (NodeStep::y), which is then there without a copy. All inputs or none.
#include <algorithm>
#include <set>

#include "net/nodes/node.hpp"
#include "net/passes/pass.hpp"

namespace dlprim::detail {
namespace {

constexpr int64_t kAligned = 16;  ///< bytes: where wide loads and stores begin

bool gives(const NetGraph::Node& node, size_t input) {
  return node.inputs.size() > input && node.inputs[input] != NetGraph::kNone;
}

/// It asks for its result by NodeStep::y_as and takes it as that lies. A residual would have to lie likewise.
bool follows_layouts(const NetGraph::Node& node) {
  if (node.kind == "conv") return !gives(node, 3);
  if (node.kind == "batch_norm") return !gives(node, 5) && !has_flag(node, "per_element");
  return node.kind == "pool" || node.kind == "elementwise" || node.kind == "pointwise";
}

/// All kinds write parts without gaps. Those that follow channels last write some of an image's channels too,
/// where these begin at what wide stores need.
bool may_write(const NetGraph::Node& node, const ValueFacts& y, int axis, int64_t start) {
  const auto bytes = static_cast<int64_t>(size_of(y.dtype));
  const bool images = y.shape.size() == 4;
  if (images && !follows_layouts(node)) return false;
  if (images && axis == 1) return start * bytes % kAligned == 0 && y.shape[1] * bytes % kAligned == 0;
  int64_t behind = 1;
  for (int i = 0; i < y.shape.size(); i++) {
    if (i < axis && y.shape[i] != 1) return false;
    if (i > axis) behind *= y.shape[i];
  }
  return start * behind * bytes % kAligned == 0;
}

class Places {
 public:
  explicit Places(Rewritten& r) : r_(r), links_(r.graph) {}

  void run() {
    for (size_t n = 0; n < r_.graph.nodes.size(); n++)
      if (r_.graph.nodes[n].kind == "concat") place_inputs(static_cast<int>(n));
  }

 private:
  NetGraph::Node& node(int n) { return r_.graph.nodes[static_cast<size_t>(n)]; }

  void place_inputs(int n) {
    const NetGraph::Node& concat = node(n);
    const ValueFacts* y = r_.fact(concat.outputs[0]);
    if (!y || !is_floating(y->dtype) || element_count(y->shape) == 0) return;
    const auto* given = attribute<int64_t>(concat, "axis");
    const int axis = normal_axis(given ? *given : 0, y->shape.size());
    std::vector<int64_t> starts;
    int64_t start = 0;
    for (int value : concat.inputs) {
      const ValueFacts* x = r_.fact(value);
      const int from = links_.producer(value);
      if (!x || x->dtype != y->dtype || from < 0 || links_.only_reader(value) != n) return;
      if (!may_write(node(from), *y, axis, start)) return;
      starts.push_back(start);
      start += x->shape[axis];
    }
    if (std::set<int>(concat.inputs.begin(), concat.inputs.end()).size() != starts.size()) return;
    for (size_t i = 0; i < starts.size(); i++) place(concat.inputs[i], concat.outputs[0], axis, starts[i]);
  }

  /// Puts down with the node that writes `value` where in `whole` that goes.
  void place(int value, int whole, int axis, int64_t start) {
    NetGraph::Node& from = node(links_.producer(value));
    const auto k = std::find(from.outputs.begin(), from.outputs.end(), value) - from.outputs.begin();
    Attribute::Integers numbers{whole, axis, start};
    const Shape& shape = r_.fact(whole)->shape;
    numbers.insert(numbers.end(), shape.begin(), shape.end());
    from.attributes.emplace(place_attribute(static_cast<int>(k)), std::move(numbers));
  }

  Rewritten& r_;
  const Links links_;
};

}  // namespace

void place_parts(Rewritten& r) {
  Places(r).run();
}

}  // namespace dlprim::detail
