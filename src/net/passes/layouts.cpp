// Convolutions write their results with channels last where the device's are faster so. Other nodes give
// their results as what they read lies (NodeStep::y_as), so that nothing is turned in between.
#include "net/passes/pass.hpp"

namespace dlprim::detail {

/// Fewer do not fill the vectors and tiles that channels last are read in.
constexpr int64_t kFewestChannels = 16;

void choose_layouts(Rewritten& r) {
  if (!r.channels_last) return;
  for (NetGraph::Node& node : r.graph.nodes) {
    const bool chooses = node.kind == "conv" || node.kind == "conv_backward_data" ||
                         node.kind == "reduce_backward" ||
                         (node.kind == "pool_backward" && has_flag(node, "global"));
    const ValueFacts* y = node.outputs.empty() ? nullptr : r.fact(node.outputs[0]);
    if (chooses && y && y->shape.size() == 4 && y->shape[1] >= kFewestChannels && is_floating(y->dtype))
      node.attributes.emplace("channels_last", 1);
  }
}

}  // namespace dlprim::detail
