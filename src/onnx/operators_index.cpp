// Reading and writing at places: gathers, scatters, masks; tensors that places make.
#include "core/text.hpp"
#include "onnx/operators.hpp"

namespace dlprim::onnx {
namespace {

using detail::cat;

void gather_elements(NodeImport& node) {
  node.result(node.emit("gather_elements", {node.in(0), node.in(1)}, {{"axis", node.integer("axis", 0)}}));
}

void gather_nd(NodeImport& node) {
  const int64_t batch = node.opset >= 12 ? node.integer("batch_dims", 0) : 0;
  node.result(node.emit("gather_nd", {node.in(0), node.in(1)}, {{"batch", batch}}));
}

/// Since opset 16 add and mul, since 18 max and min.
const char* reduction(NodeImport& node) {
  if (node.opset < 16) return "none";
  const std::string name = node.text("reduction", "none");
  if (name == "none") return "none";
  if (name == "add") return "sum";
  if (name == "mul") return "prod";
  if (name == "max" || name == "min") return name == "max" ? "max" : "min";
  node.refuse("has reduction '" + name + "', must be none, add, mul, max or min");
}

void scatter_elements(NodeImport& node) {
  node.result(node.emit("scatter_elements", {node.in(0), node.in(1), node.in(2)},
                        {{"axis", node.integer("axis", 0)}, {"reduce", reduction(node)}}));
}

void scatter_nd(NodeImport& node) {
  node.result(node.emit("scatter_nd", {node.in(0), node.in(1), node.in(2)}, {{"reduce", reduction(node)}}));
}

void tensor_scatter(NodeImport& node) {
  const std::string mode = node.text("mode", "linear");
  if (mode != "linear" && mode != "circular")
    node.refuse("has mode '" + mode + "', must be linear or circular");
  std::vector<int> inputs{node.in(0), node.in(1)};
  if (node.has(2)) inputs.push_back(node.in(2));
  node.result(
      node.emit("write_at", inputs, {{"axis", node.integer("axis", -2)}, {"circular", mode == "circular"}}));
}

void reverse_sequence(NodeImport& node) {
  node.result(node.emit(
      "reverse_sequence", {node.in(0), node.in(1)},
      {{"time_axis", node.integer("time_axis", 0)}, {"batch_axis", node.integer("batch_axis", 1)}}));
}

void compress(NodeImport& node) {
  Attributes attributes;
  if (node.has("axis")) attributes.emplace("axis", node.integer("axis", 0));
  node.result(node.emit("compress", {node.in(0), node.in(1)}, std::move(attributes)));
}

void non_zero(NodeImport& node) {
  node.result(node.emit("nonzero", {node.in(0)}));
}

void trilu(NodeImport& node) {
  std::vector<int> inputs{node.in(0)};
  if (node.has(1)) inputs.push_back(node.in(1));
  node.result(node.emit("triangle", inputs, {{"upper", node.integer("upper", 1) != 0}}));
}

void eye_like(NodeImport& node) {
  Attributes attributes{{"k", node.integer("k", 0)}};
  if (node.has("dtype")) attributes.emplace("dtype", node.dtype("dtype", ElementType::undefined));
  node.result(node.emit("eye", {node.in(0)}, std::move(attributes)));
}

/// Negative indices count from the end since opset 11; before they are outside.
void one_hot(NodeImport& node) {
  node.result(node.emit("one_hot", {node.in(0), node.in(1), node.in(2)},
                        {{"axis", node.integer("axis", -1)}, {"from_end", node.opset >= 11}}));
}

void bit_cast(NodeImport& node) {
  node.result(node.emit("bit_cast", {node.in(0)}, {{"dtype", node.dtype("to", ElementType::undefined)}}));
}

constexpr OperatorEntry kOperators[] = {
    {"BitCast", bit_cast},
    {"Compress", compress},
    {"EyeLike", eye_like},
    {"GatherElements", gather_elements},
    {"GatherND", gather_nd},
    {"NonZero", non_zero},
    {"OneHot", one_hot},
    {"ReverseSequence", reverse_sequence},
    {"Scatter", scatter_elements},
    {"ScatterElements", scatter_elements},
    {"ScatterND", scatter_nd},
    {"TensorScatter", tensor_scatter},
    {"Trilu", trilu},
};

}  // namespace

OperatorList index_operators() {
  return list_of(kOperators);
}

}  // namespace dlprim::onnx
