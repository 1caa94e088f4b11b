// Reductions, the places of extremes, running sums and products.
#include "core/text.hpp"
#include "onnx/operators.hpp"

namespace dlprim::onnx {
namespace {

/// Axes are an attribute at first, an input since 18, of ReduceSum since 13; so is what no axes mean.
void reduce(NodeImport& node) {
  const bool by_input = node.opset >= (node.message.op_type == "ReduceSum" ? 13 : 18);
  Attributes attributes{{"function", node.argument}, {"keep_dims", node.integer("keepdims", 1) != 0}};
  std::vector<int> inputs{node.in(0)};
  if (by_input) {
    if (node.integer("noop_with_empty_axes", 0) != 0) attributes.emplace("no_axes", "none");
    if (node.has(1)) inputs.push_back(node.in(1));
  } else if (node.has("axes")) {
    attributes.emplace("axes", node.integers("axes"));
  }
  node.result(node.emit("reduce", inputs, std::move(attributes)));
}

void arg_extreme(NodeImport& node) {
  Attributes attributes{{"function", node.argument},
                        {"axis", node.integer("axis", 0)},
                        {"keep_dims", node.integer("keepdims", 1) != 0}};
  if (node.opset >= 12) attributes.emplace("last", node.integer("select_last_index", 0) != 0);
  node.result(node.emit("arg_extreme", {node.in(0)}, std::move(attributes)));
}

void scan(NodeImport& node) {
  node.result(node.emit("cumulate", {node.in(0), node.in(1)},
                        {{"function", node.argument},
                         {"exclusive", node.integer("exclusive", 0) != 0},
                         {"reverse", node.integer("reverse", 0) != 0}}));
}

constexpr OperatorEntry kOperators[] = {
    {"ArgMax", arg_extreme, "argmax"},   {"ArgMin", arg_extreme, "argmin"},
    {"CumProd", scan, "product"},        {"CumSum", scan, "sum"},
    {"ReduceL1", reduce, "l1"},          {"ReduceL2", reduce, "l2"},
    {"ReduceLogSum", reduce, "log_sum"}, {"ReduceLogSumExp", reduce, "log_sum_exp"},
    {"ReduceMax", reduce, "max"},        {"ReduceMean", reduce, "mean"},
    {"ReduceMin", reduce, "min"},        {"ReduceProd", reduce, "prod"},
    {"ReduceSum", reduce, "sum"},        {"ReduceSumSquare", reduce, "sum_square"},
};

}  // namespace

OperatorList reduction_operators() {
  return list_of(kOperators);
}

}  // namespace dlprim::onnx
