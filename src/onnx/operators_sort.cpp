// The largest elements, distinct elements, boxes that do not overlap.
#include "core/text.hpp"
#include "onnx/operators.hpp"

namespace dlprim::onnx {
namespace {

/// k is an attribute before opset 10.
void top_k(NodeImport& node) {
  Attributes attributes{{"axis", node.integer("axis", -1)}};
  int k = NetGraph::kNone;
  if (node.opset < 10) {
    if (!node.has("k")) node.refuse("has no k");
    k = node.constant({node.integer("k", 0)});
  } else {
    k = node.in(1);
  }
  if (node.opset >= 11) {
    attributes.emplace("largest", node.integer("largest", 1) != 0);
    attributes.emplace("sorted", node.integer("sorted", 1) != 0);
  }
  const std::vector<int> values = node.emit_many("top_k", {node.in(0), k}, 2, std::move(attributes));
  node.result(values[0]);
  node.result(values[1], 1);
}

void unique(NodeImport& node) {
  Attributes attributes{{"sorted", node.integer("sorted", 1) != 0}};
  if (node.has("axis")) attributes.emplace("axis", node.integer("axis", 0));
  const std::vector<int> values = node.emit_many("unique", {node.in(0)}, 4, std::move(attributes));
  NetGraph::Node& made = node.last();
  for (int k = 0; k < 4; k++) {
    if (node.wants(k))
      node.result(values[static_cast<size_t>(k)], k);
    else
      made.outputs[static_cast<size_t>(k)] = NetGraph::kNone;  // it is not computed, either
  }
}

void non_max_suppression(NodeImport& node) {
  node.result(node.emit("non_max_suppression", node.all_inputs(),
                        {{"center", node.integer("center_point_box", 0) != 0}}));
}

constexpr OperatorEntry kOperators[] = {
    {"NonMaxSuppression", non_max_suppression},
    {"TopK", top_k},
    {"Unique", unique},
};

}  // namespace

OperatorList sort_operators() {
  return list_of(kOperators);
}

}  // namespace dlprim::onnx
