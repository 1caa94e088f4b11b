// Constants, and what says or changes shapes: reshaping, joining, splitting, slicing.
#include "core/text.hpp"
#include "onnx/operators.hpp"

namespace dlprim::onnx {
namespace {

HostTensor floats(const std::vector<double>& numbers, const Shape& shape) {
  HostTensor tensor{{}, DType::f32, shape, {}};
  const std::vector<float> elements(numbers.begin(), numbers.end());
  const auto* bytes = reinterpret_cast<const unsigned char*>(elements.data());
  tensor.data.assign(bytes, bytes + elements.size() * sizeof(float));
  return tensor;
}

/// One of the attributes holds the numbers.
void constant(NodeImport& node) {
  const auto whole = [&](std::vector<int64_t> numbers, bool list) {
    const int value = node.constant(numbers);
    return list ? value : node.emit("reshape", {value, node.constant(std::vector<int64_t>())});
  };
  if (const TensorMessage* tensor = node.tensor("value")) return node.result(node.constant_of(*tensor));
  if (node.has("value_int")) return node.result(whole({node.integer("value_int", 0)}, false));
  if (node.has("value_ints")) return node.result(whole(node.integers("value_ints"), true));
  if (node.has("value_float")) return node.result(node.constant(floats({node.number("value_float", 0)}, {})));
  if (node.has("value_floats")) {
    const std::vector<double> numbers = node.numbers("value_floats");
    return node.result(node.constant(floats(numbers, {static_cast<int64_t>(numbers.size())})));
  }
  if (const SparseTensorMessage* sparse = node.sparse_tensor("sparse_value"))
    return node.result(node.constant_of(*sparse));
  node.refuse("holds no tensor of numbers: texts are not supported");
}

/// `value`: a tensor of one element; without it 0, f32.
void constant_of_shape(NodeImport& node) {
  const TensorMessage* value = node.tensor("value");
  const int element = value ? node.constant_of(*value) : node.constant(floats({0}, {1}));
  node.result(node.emit("fill", {node.in(0), element}));
}

void one_to_one(NodeImport& node) {
  node.result(node.emit(node.argument, node.all_inputs()));
}

void shape(NodeImport& node) {
  Attributes attributes{{"start", node.integer("start", 0)}};
  if (node.has("end")) attributes.emplace("end", node.integer("end", 0));
  node.result(node.emit("shape", {node.in(0)}, std::move(attributes)));
}

void reshape(NodeImport& node) {
  node.result(node.emit("reshape", {node.in(0), node.in(1)}, {{"allow_zero", node.integer("allowzero", 0)}}));
}

void flatten(NodeImport& node) {
  node.result(node.emit("flatten", {node.in(0)}, {{"axis", node.integer("axis", 1)}}));
}

/// Squeeze and Unsqueeze: axes are an attribute before opset 13, an input since.
void axes(NodeImport& node) {
  Attributes attributes;
  if (node.opset < 13 && node.has("axes")) attributes.emplace("axes", node.integers("axes"));
  std::vector<int> inputs{node.in(0)};
  if (node.opset >= 13 && node.has(1)) inputs.push_back(node.in(1));
  node.result(node.emit(node.argument, inputs, std::move(attributes)));
}

void transpose(NodeImport& node) {
  Attributes attributes;
  if (node.has("perm")) attributes.emplace("axes", node.integers("perm"));
  node.result(node.emit("transpose", {node.in(0)}, std::move(attributes)));
}

void concat(NodeImport& node) {
  node.result(node.emit("concat", node.all_inputs(), {{"axis", node.integer("axis", 0)}}));
}

void split(NodeImport& node) {
  Attributes attributes{{"axis", node.integer("axis", 0)}};
  if (node.opset < 13 && node.has("split")) attributes.emplace("sizes", node.integers("split"));
  if (node.opset >= 18) node.ignore("num_outputs");  // as many as the node has
  std::vector<int> inputs{node.in(0)};
  if (node.opset >= 13 && node.has(1)) inputs.push_back(node.in(1));
  const auto count = static_cast<size_t>(node.output_count());
  node.results(node.emit_many("split", inputs, count, std::move(attributes)));
}

/// Starts, ends, axes are attributes before opset 10.
void slice_by_attributes(NodeImport& node) {
  const int starts = node.constant(node.integers("starts")), ends = node.constant(node.integers("ends"));
  std::vector<int> inputs{node.in(0), starts, ends};
  if (node.has("axes")) inputs.push_back(node.constant(node.integers("axes")));
  node.result(node.emit("slice", inputs));
}

void gather(NodeImport& node) {
  node.result(node.emit("gather", {node.in(0), node.in(1)}, {{"axis", node.integer("axis", 0)}}));
}

void tile(NodeImport& node) {
  node.result(node.emit("tile", {node.in(0), node.in(1)}));
}

constexpr OperatorEntry kOperators[] = {
    {"Concat", concat},
    {"Constant", constant},
    {"ConstantOfShape", constant_of_shape},
    {"Expand", one_to_one, "expand"},
    {"Flatten", flatten},
    {"Gather", gather},
    {"Identity", one_to_one, "identity"},
    {"Range", one_to_one, "range"},
    {"Reshape", reshape},
    {"Shape", shape},
    {"Size", one_to_one, "size"},
    {"Slice", slice_by_attributes},
    {"Slice", one_to_one, "slice", 10},
    {"Split", split},
    {"Squeeze", axes, "squeeze"},
    {"Tile", tile},
    {"Transpose", transpose},
    {"Unsqueeze", axes, "unsqueeze"},
};

}  // namespace

OperatorList shape_operators() {
  return list_of(kOperators);
}

}  // namespace dlprim::onnx
