// Nodes that give their first input again, of the same dtype and shape, go: who read them reads that.
#include <algorithm>
#include <set>

#include "net/passes/pass.hpp"

namespace dlprim::detail {

void remove_no_ops(Rewritten& r) {
  static const auto* kinds = new std::set<std::string>{"cast",    "dropout", "expand", "flatten",  "identity",
                                                       "reshape", "squeeze", "sum_to", "unsqueeze"};
  std::vector<int> stands_for(r.graph.values.size());
  for (size_t v = 0; v < stands_for.size(); v++) stands_for[v] = static_cast<int>(v);
  for (NetGraph::Node& node : r.graph.nodes) {
    for (int& value : node.inputs)
      if (value != NetGraph::kNone) value = stands_for[static_cast<size_t>(value)];
    if (kinds->count(node.kind) == 0 || node.outputs.size() != 1) continue;
    if (node.kind == "dropout" && node.inputs.size() > 2) continue;  // that trains, perhaps
    const int y = node.outputs[0];
    const ValueFacts *from = r.fact(node.inputs[0]), *to = r.fact(y);
    const bool is_output = std::count(r.graph.outputs.begin(), r.graph.outputs.end(), y) != 0;
    if (!from || !to || from->dtype != to->dtype || from->shape != to->shape || is_output) continue;
    stands_for[static_cast<size_t>(y)] = node.inputs[0];
    node.outputs.clear();
  }
  drop_emptied(r.graph);
}

}  // namespace dlprim::detail
