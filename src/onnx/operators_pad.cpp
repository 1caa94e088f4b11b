// Putting elements around a tensor, and moving them between channels and space.
#include "core/text.hpp"
#include "onnx/operators.hpp"

namespace dlprim::onnx {
namespace {

using detail::cat;

std::string pad_mode(NodeImport& node) {
  const std::string mode = node.text("mode", "constant");
  if (mode == "edge") return "replicate";
  if (mode == "wrap" && node.opset >= 19) return "circular";
  if (mode != "constant" && mode != "reflect")
    node.refuse("has mode '" + mode + "', must be constant, reflect, edge, or from opset 19 on wrap");
  return mode;
}
/// Pads and the value are attributes before opset 11.
void pad_by_attributes(NodeImport& node) {
  const auto value = static_cast<float>(node.number("value", 0));
  HostTensor tensor{{}, DType::f32, {1}, {}};
  const auto* bytes = reinterpret_cast<const unsigned char*>(&value);
  tensor.data.assign(bytes, bytes + sizeof value);
  const std::vector<int> inputs{node.in(0), node.constant(node.integers("pads")),
                                node.constant(std::move(tensor))};
  node.result(node.emit("pad", inputs, {{"mode", pad_mode(node)}}));
}
/// Axes are given from opset 18 on.
void pad(NodeImport& node) {
  std::vector<int> inputs{node.in(0), node.in(1), node.in(2)};
  if (node.opset >= 18) inputs.push_back(node.in(3));
  node.result(node.emit("pad", inputs, {{"mode", pad_mode(node)}}));
}

void center_crop_pad(NodeImport& node) {
  Attributes attributes;
  if (node.has("axes")) attributes.emplace("axes", node.integers("axes"));
  node.result(node.emit("center", {node.in(0), node.in(1)}, std::move(attributes)));
}

/// The argument is the net's kind. `since`: the opset that brought `mode`.
void blocks(NodeImport& node, int64_t since) {
  const std::string mode = node.opset >= since ? node.text("mode", "DCR") : "DCR";
  if (mode != "DCR" && mode != "CRD") node.refuse("has mode '" + mode + "', must be DCR or CRD");
  node.result(node.emit(node.argument, {node.in(0)},
                        {{"block", node.integer("blocksize", 0)}, {"channels_first", mode == "CRD"}}));
}
void depth_to_space(NodeImport& node) {
  blocks(node, 11);
}
void space_to_depth(NodeImport& node) {
  blocks(node, 28);
}

constexpr OperatorEntry kOperators[] = {
    {"CenterCropPad", center_crop_pad},
    {"DepthToSpace", depth_to_space, "depth_to_space"},
    {"Pad", pad_by_attributes},
    {"Pad", pad, nullptr, 11},
    {"SpaceToDepth", space_to_depth, "space_to_depth"},
};

}  // namespace

OperatorList pad_operators() {
  return list_of(kOperators);
}

}  // namespace dlprim::onnx
