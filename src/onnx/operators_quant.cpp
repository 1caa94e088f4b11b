// Quantised operators: in terms of what the numbers stand for, whole where ONNX has them whole.
#include "core/text.hpp"
#include "onnx/operators.hpp"

namespace dlprim::onnx {
namespace {

void dequantize(NodeImport& node) {
  Attributes attributes{{"axis", node.integer("axis", 1)}, {"block", node.integer("block_size", 0)}};
  if (node.integer("output_dtype", 0) != 0)
    attributes.emplace("dtype", node.dtype("output_dtype", ElementType::undefined));
  std::vector<int> inputs{decoded(node, 0), node.in(1)};
  if (node.has(2)) inputs.push_back(decoded(node, 2));
  node.result(node.emit("dequantize", inputs, std::move(attributes)));
}

/// To integers of few bits, or to codes of floats, whose zero is 0 by ONNX's rule.
void quantize_to(NodeImport& node, const Narrow& type, Attributes attributes) {
  const int64_t saturate = node.integer("saturate", 1);
  if (type.floating)
    attributes.emplace("dtype", "f32");
  else
    attributes.insert({{"dtype", dlprim::name_of(type.dtype)}, {"bits", type.bits}});
  std::vector<int> inputs{node.in(0), node.in(1)};
  if (node.has(2)) inputs.push_back(type.floating ? decoded(node, 2) : node.typed_in(2).value);
  const int y = node.emit("quantize", std::move(inputs), std::move(attributes));
  if (!type.floating) return node.result({y, &type});
  node.result({node.emit("encode", {y}, {{"format", type.format}, {"saturate", saturate}}), &type});
}

void quantize(NodeImport& node) {
  Attributes attributes{{"axis", node.integer("axis", 1)}, {"block", node.integer("block_size", 0)}};
  if (node.integer("precision", 0) > 1) node.refuse("has another precision than f32");
  const Narrow* const of_zero = node.typed_in(2).narrow;
  if (const Narrow* const type = of_zero ? of_zero : node.narrow("output_dtype"))
    return quantize_to(node, *type, std::move(attributes));
  node.ignore("saturate");  // of 8-bit floats alone
  if (node.integer("output_dtype", 0) != 0)
    attributes.emplace("dtype", node.dtype("output_dtype", ElementType::undefined));
  node.result(node.emit("quantize", node.all_inputs(), std::move(attributes)));
}

void dynamic_quantize(NodeImport& node) {
  node.results(node.emit_many("dynamic_quantize", {node.in(0)}, 3));
}

/// x - zero, i32.
int offset(NodeImport& node, int x, int zero, int64_t axis) {
  return node.emit("dequantize", {x, NetGraph::kNone, zero}, {{"axis", axis}, {"dtype", "i32"}});
}

/// i32 products, exact to 2^53.
void matmul_integer(NodeImport& node) {
  const int a = offset(node, node.in(0), node.in(2), -2), b = offset(node, node.in(1), node.in(3), -1);
  node.result(node.emit("matmul", {a, b}));
}

/// y = quantised whole * scale_a * scale_b / scale_y
int rescaled(NodeImport& node, int whole, int scale_a, int scale_b, int scale_y, int zero_y, int64_t axis) {
  const auto f32 = [&](int x) { return node.emit("cast", {x}, {{"dtype", "f32"}}); };
  const int scale = node.apply("div", {node.apply("mul", {f32(scale_a), f32(scale_b)}), f32(scale_y)});
  const int real = node.emit("dequantize", {whole, scale}, {{"axis", axis}, {"dtype", "f32"}});
  const int one = node.emit(
      "cast",
      {node.emit("reshape", {node.constant(std::vector<int64_t>{1}), node.constant(std::vector<int64_t>{})})},
      {{"dtype", "f32"}});
  return node.emit("quantize", {real, one, zero_y});
}

void qlinear_matmul(NodeImport& node) {
  const int a = offset(node, node.in(0), node.in(2), -2), b = offset(node, node.in(3), node.in(5), -1);
  const int whole = node.emit("matmul", {a, b});
  // Scales may be lists: of a one for each row, of b one for each column.
  const int rows = node.emit("dequantize", {whole, node.in(1)}, {{"axis", -2}, {"dtype", "f32"}});
  const int both = node.emit("dequantize", {rows, node.in(4)}, {{"axis", -1}, {"dtype", "f32"}});
  node.result(node.emit("quantize", {both, node.in(6), node.in(7)}, {{"axis", -2}}));
}

void conv_integer(NodeImport& node) {
  const int x = offset(node, node.in(0), node.in(2), 1), w = offset(node, node.in(1), node.in(3), 0);
  node.result(node.emit("conv", {x, w}, convolution(node)));
}

void qlinear_conv(NodeImport& node) {
  const int x = offset(node, node.in(0), node.in(2), 1), w = offset(node, node.in(3), node.in(5), 0);
  std::vector<int> inputs{x, w};
  if (node.has(8)) inputs.push_back(node.in(8));
  const int whole = node.emit("conv", std::move(inputs), convolution(node));
  node.result(rescaled(node, whole, node.in(1), node.in(4), node.in(6), node.in(7), 1));
}

/// com.microsoft: a matrix product with weights of 4 or 8 bits.
void matmul_bits(NodeImport& node) {
  node.ignore("accuracy_level");  // never below f32 sums here
  if (node.has(4)) node.refuse("has g_idx, which is not supported");
  std::vector<int> packed{node.in(1), node.in(2)};
  if (node.has(3)) packed.push_back(node.in(3));
  node.ignore("N");  // the weight's shape says it
  const int w = node.emit("unpack", std::move(packed),
                          {{"bits", node.integer("bits", 4)},
                           {"block", node.integer("block_size", 0)},
                           {"columns", node.integer("K", 0)}});
  const int turned = node.emit("transpose", {w}, {{"axes", std::vector<int64_t>{1, 0}}});
  int y = node.emit("matmul", {node.in(0), turned});
  if (node.has(5)) y = node.apply("add", {y, node.in(5)});
  node.result(y);
}

constexpr OperatorEntry kOperators[] = {
    {"ConvInteger", conv_integer},
    {"DequantizeLinear", dequantize},
    {"DynamicQuantizeLinear", dynamic_quantize},
    {"MatMulInteger", matmul_integer},
    {"MatMulNBits", matmul_bits, nullptr, 1, "com.microsoft"},
    {"QLinearConv", qlinear_conv},
    {"QLinearMatMul", qlinear_matmul},
    {"QuantizeLinear", quantize},
};

}  // namespace

int decoded(NodeImport& node, int k) {
  const auto [x, type] = node.typed_in(k);
  return type && type->floating ? node.emit("decode", {x}, {{"format", type->format}}) : x;
}

OperatorList quant_operators() {
  return list_of(kOperators);
}

}  // namespace dlprim::onnx
