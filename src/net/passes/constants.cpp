// What is made of constants alone, or of shapes, becomes a constant, where the other passes see it.
#include <algorithm>

#include "net/passes/pass.hpp"

namespace dlprim::detail {

void fold_constants(Rewritten& r) {
  const auto find = [&](int value) {
    const auto known = r.known.find(value);
    if (known != r.known.end()) return known->second;
    const ValueFacts* fact = r.fact(value);
    return fact ? fact->elements : nullptr;
  };
  for (NetGraph::Node& node : r.graph.nodes) {
    const bool known = std::all_of(node.outputs.begin(), node.outputs.end(),
                                   [&](int value) { return value == NetGraph::kNone || find(value); });
    if (!known) continue;
    for (int value : node.outputs)
      if (value != NetGraph::kNone) r.graph.constants[value] = find(value);
    node.outputs.clear();
  }
  drop_emptied(r.graph);
}

}  // namespace dlprim::detail
