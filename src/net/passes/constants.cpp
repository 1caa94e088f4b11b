// What is made of constants alone becomes a constant, where the other passes see it.
#include <algorithm>

#include "net/passes/pass.hpp"

namespace dlprim::detail {

void fold_constants(Rewritten& r) {
  for (NetGraph::Node& node : r.graph.nodes) {
    const bool known = std::all_of(node.outputs.begin(), node.outputs.end(), [&](int value) {
      return value == NetGraph::kNone || r.known.count(value) != 0;
    });
    if (!known) continue;
    for (int value : node.outputs)
      if (value != NetGraph::kNone) r.graph.constants[value] = r.known.at(value);
    node.outputs.clear();
  }
  drop_emptied(r.graph);
}

}  // namespace dlprim::detail
