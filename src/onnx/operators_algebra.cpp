// Products by an equation, determinants.
#include "core/text.hpp"
#include "onnx/operators.hpp"

namespace dlprim::onnx {
namespace {

void einsum(NodeImport& node) {
  if (!node.has("equation")) node.refuse("has no equation");
  node.result(node.emit("einsum", node.all_inputs(), {{"equation", node.text("equation")}}));
}

void det(NodeImport& node) {
  node.result(node.emit("det", {node.in(0)}));
}

constexpr OperatorEntry kOperators[] = {
    {"Det", det},
    {"Einsum", einsum},
};

}  // namespace

OperatorList algebra_operators() {
  return list_of(kOperators);
}

}  // namespace dlprim::onnx
