// Normalisations: softmax and its kin, and those by means and variances.
#include "core/text.hpp"
#include "onnx/operators.hpp"

namespace dlprim::onnx {
namespace {

using detail::cat;

/// The axes from `axis` on are one, before opset 13.
void softmax_to_end(NodeImport& node) {
  const bool log = std::string(node.argument) == "log";
  const char* kind = std::string(node.argument) == "hardmax" ? "hardmax" : "softmax";
  node.result(
      node.emit(kind, {node.in(0)}, {{"axis", node.integer("axis", 1)}, {"log", log}, {"to_end", true}}));
}
void softmax(NodeImport& node) {
  const bool log = std::string(node.argument) == "log";
  const char* kind = std::string(node.argument) == "hardmax" ? "hardmax" : "softmax";
  node.result(node.emit(kind, {node.in(0)}, {{"axis", node.integer("axis", -1)}, {"log", log}}));
}

/// Inference, or, from opset 14 on, training. Before that more outputs than one meant training, in words that
/// left open what they hold: refused, as outputs that nothing makes. `spatial` 0 (opset 7 and 8): statistics
/// of each element.
void batch_norm(NodeImport& node) {
  Attributes attributes{{"epsilon", node.number("epsilon", 1e-5)},
                        {"momentum", node.number("momentum", 0.9)}};
  if (node.opset < 9) attributes.emplace("per_element", node.integer("spatial", 1) == 0);
  const bool training = node.opset >= 14 && node.integer("training_mode", 0) != 0;
  attributes.emplace("training", training);
  const std::vector<int> inputs{node.in(0), node.in(1), node.in(2), node.in(3), node.in(4)};
  const size_t outputs = !training ? 1 : node.wants(2) ? 3 : node.wants(1) ? 2 : 1;
  node.results(node.emit_many("batch_norm", inputs, outputs, std::move(attributes)));
}

/// The precision of the first stage, which is f32 here at least.
void check_stash(NodeImport& node) {
  const int64_t type = node.integer("stash_type", 1);
  if (type != 1) node.refuse(cat("has stash_type ", type, ", must be 1 (float)"));
}

void instance_norm(NodeImport& node) {
  node.result(node.emit("group_norm", {node.in(0), node.in(1), node.in(2)},
                        {{"epsilon", node.number("epsilon", 1e-5)}}));
}
/// Scale and bias are of groups before opset 21, of channels since.
void group_norm(NodeImport& node) {
  const int64_t groups = node.integer("num_groups", 0);
  if (groups < 1) node.refuse(cat("has num_groups ", groups, ", must be 1 or more"));
  if (node.opset >= 21) check_stash(node);
  node.result(node.emit(
      "group_norm", {node.in(0), node.in(1), node.in(2)},
      {{"epsilon", node.number("epsilon", 1e-5)}, {"groups", groups}, {"per_group", node.opset < 21}}));
}

/// Of the second argument "rms": there is no mean, nor a bias.
void layer_norm(NodeImport& node) {
  const bool rms = node.argument != nullptr;
  check_stash(node);
  std::vector<int> inputs{node.in(0), node.in(1)};
  if (!rms) inputs.push_back(node.in(2));
  const size_t outputs = !rms && node.wants(2) ? 3 : node.wants(1) ? 2 : 1;
  const std::vector<int> values = node.emit_many(
      "layer_norm", inputs, outputs,
      {{"axis", node.integer("axis", -1)}, {"epsilon", node.number("epsilon", 1e-5)}, {"rms", rms}});
  node.result(values[0]);
  for (size_t k = 1; k < outputs; k++)  // f64 of f64 in the net, f32 in ONNX
    if (node.wants(static_cast<int>(k)))
      node.result(node.emit("cast", {values[k]}, {{"dtype", "f32"}}), static_cast<int>(k));
}

void lp_norm(NodeImport& node) {
  const int64_t p = node.integer("p", 2);
  if (p != 1 && p != 2) node.refuse(cat("has p ", p, ", must be 1 or 2"));
  node.result(node.emit("lp_normalize", {node.in(0)}, {{"axis", node.integer("axis", -1)}, {"p", p}}));
}

/// Deviations get 1e-9, as in the operator's own function.
void mean_variance(NodeImport& node) {
  const std::vector<int64_t> axes = node.has("axes") ? node.integers("axes") : std::vector<int64_t>{0, 2, 3};
  node.result(node.emit("standardize", {node.in(0)}, {{"axes", axes}, {"epsilon", 1e-9}}));
}

void lrn(NodeImport& node) {
  node.result(node.emit("lrn", {node.in(0)},
                        {{"size", node.integer("size", 0)},
                         {"alpha", node.number("alpha", 1e-4)},
                         {"beta", node.number("beta", 0.75)},
                         {"bias", node.number("bias", 1)}}));
}

constexpr OperatorEntry kOperators[] = {
    {"BatchNormalization", batch_norm},
    {"GroupNormalization", group_norm},
    {"Hardmax", softmax_to_end, "hardmax"},
    {"Hardmax", softmax, "hardmax", 13},
    {"InstanceNormalization", instance_norm},
    {"LRN", lrn},
    {"LayerNormalization", layer_norm},
    {"LogSoftmax", softmax_to_end, "log"},
    {"LogSoftmax", softmax, "log", 13},
    {"LpNormalization", lp_norm},
    {"MeanVarianceNormalization", mean_variance},
    {"RMSNormalization", layer_norm, "rms"},
    {"SimplifiedLayerNormalization", layer_norm, "rms"},  // ONNX Runtime's, in ONNX's domain
    {"Softmax", softmax_to_end, ""},
    {"Softmax", softmax, "", 13},
};

}  // namespace

OperatorList norm_operators() {
  return list_of(kOperators);
}

}  // namespace dlprim::onnx
