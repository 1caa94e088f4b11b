// Losses of classes; dropout.
#include "core/text.hpp"
#include "onnx/operators.hpp"

namespace dlprim::onnx {
namespace {

HostTensor truth() {
  return {{}, DType::boolean, {1}, {1}};
}

/// With the argument "logits" the second output is their log-softmax.
void class_loss(NodeImport& node) {
  const bool logits = node.argument != nullptr;
  Attributes attributes{{"reduction", node.text("reduction", "mean")}, {"logits", logits}};
  if (node.has("ignore_index")) attributes.emplace("ignore_index", node.integer("ignore_index", 0));
  std::vector<int> inputs{node.in(0), node.in(1)};
  if (node.has(2)) inputs.push_back(node.in(2));
  const std::vector<int> values =
      node.emit_many("class_loss", inputs, logits && node.wants(1) ? 2 : 1, std::move(attributes));
  node.result(values[0]);
  if (values.size() > 1) node.result(values[1], 1);
}

/// x as it is, and a mask that is true everywhere, before opset 10 of x's type.
void kept(NodeImport& node) {
  node.result(node.emit("identity", {node.in(0)}));
  if (!node.wants(1)) return;
  const int mask = node.emit("fill", {node.emit("shape", {node.in(0)}), node.constant(truth())});
  node.result(node.opset < 10 ? node.emit("cast", {mask, node.in(0)}) : mask, 1);
}
/// Inference: training was not the model's matter.
void dropout_by_attribute(NodeImport& node) {
  node.ignore("ratio");
  kept(node);
}
void dropout(NodeImport& node) {
  const bool seeded = node.has("seed");
  node.ignore("seed");
  const std::vector<int> inputs{node.in(0), node.in(1), node.in(2)};
  const HostTensor* training = node.constant_in(2);
  if (!node.has(2) || (training && training->data == std::vector<unsigned char>{0})) return kept(node);
  const std::vector<int> values =
      node.emit_many("dropout", inputs, node.wants(1) ? 2 : 1, {{"seeded", seeded}});
  node.result(values[0]);
  if (values.size() > 1) node.result(values[1], 1);
}

constexpr OperatorEntry kOperators[] = {
    {"Dropout", dropout_by_attribute},
    {"Dropout", dropout, nullptr, 12},
    {"NegativeLogLikelihoodLoss", class_loss},
    {"SoftmaxCrossEntropyLoss", class_loss, "logits"},
};

}  // namespace

OperatorList loss_operators() {
  return list_of(kOperators);
}

}  // namespace dlprim::onnx
