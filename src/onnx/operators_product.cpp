// Matrix products, convolutions, pooling.
#include "core/text.hpp"
#include "onnx/operators.hpp"

namespace dlprim::onnx {
namespace {

using detail::cat;

void matmul(NodeImport& node) {
  node.result(node.emit("matmul", {node.in(0), node.in(1)}));
}

/// alpha A' B' + beta C
void gemm(NodeImport& node) {
  const auto operand = [&](int k, const char* name) {
    const bool transposed = node.integer(name, 0) != 0;
    return transposed ? node.emit("transpose", {node.in(k)}, {{"axes", std::vector<int64_t>{1, 0}}})
                      : node.in(k);
  };
  const int a = operand(0, "transA"), b = operand(1, "transB");
  const double alpha = node.number("alpha", 1), beta = node.number("beta", 1);
  int y = node.emit("matmul", {a, b}, {{"alpha", alpha}});
  if (const int c = node.in(2); c != NetGraph::kNone && beta != 0) {  // with beta 0 C is not read
    // A sum without a factor becomes the product's bias.
    const std::vector<double> factor = beta == 1 ? std::vector<double>{} : std::vector<double>{beta};
    y = node.apply("add", {y, c}, factor);
  }
  node.result(y);
}

/// The window's attributes, those of convolution and pooling. `kernel_shape` of a convolution repeats w's
/// shape.
Attributes window(NodeImport& node) {
  Attributes attributes;
  if (node.has("strides")) attributes.emplace("stride", node.integers("strides"));
  if (node.has("dilations")) attributes.emplace("dilation", node.integers("dilations"));
  const std::string pad = node.text("auto_pad", "NOTSET");
  const std::vector<int64_t> pads = node.integers("pads");
  if (pad == "SAME_UPPER" || pad == "SAME_LOWER") {
    attributes.emplace("same", pad == "SAME_UPPER" ? "upper" : "lower");
  } else if (pad == "NOTSET") {
    if (pads.size() % 2 != 0) node.refuse(cat("has ", pads.size(), " pads, must be two for each axis"));
    const auto half = pads.begin() + static_cast<std::ptrdiff_t>(pads.size() / 2);
    if (!pads.empty()) {
      attributes.emplace("pad_begin", std::vector<int64_t>(pads.begin(), half));
      attributes.emplace("pad_end", std::vector<int64_t>(half, pads.end()));
    }
  } else if (pad != "VALID") {
    node.refuse("has auto_pad '" + pad + "'");
  }
  return attributes;
}

void conv(NodeImport& node) {
  std::vector<int> inputs{node.in(0), node.in(1)};
  if (node.has(2)) inputs.push_back(node.in(2));
  node.result(node.emit("conv", std::move(inputs), convolution(node)));
}

void conv_transpose(NodeImport& node) {
  Attributes attributes = convolution(node);
  attributes.emplace("transposed", true);
  if (node.has("output_padding")) attributes.emplace("output_pad", node.integers("output_padding"));
  if (node.has("output_shape")) attributes.emplace("output_shape", node.integers("output_shape"));
  std::vector<int> inputs{node.in(0), node.in(1)};
  if (node.has(2)) inputs.push_back(node.in(2));
  node.result(node.emit("conv", std::move(inputs), std::move(attributes)));
}

Attributes pool_window(NodeImport& node, const char* mode) {
  Attributes attributes = window(node);
  attributes.emplace("mode", mode);
  attributes.emplace("kernel", node.integers("kernel_shape"));
  attributes.emplace("ceil_mode", node.integer("ceil_mode", 0));
  // Strides of one by default, where the net's kind has the kernel's size.
  if (!node.has("strides"))
    attributes.emplace("stride", std::vector<int64_t>(node.integers("kernel_shape").size(), 1));
  return attributes;
}

void max_pool(NodeImport& node) {
  Attributes attributes = pool_window(node, "max");
  const int64_t column_major = node.integer("storage_order", 0);
  if (node.wants(1)) {  // they say how indices are counted, and nothing of the maxima
    attributes.emplace("column_major", column_major);
    attributes.emplace("flat", true);
  }
  const std::vector<int> values =
      node.emit_many("pool", {node.in(0)}, node.wants(1) ? 2 : 1, std::move(attributes));
  node.result(values[0]);
  if (node.wants(1)) node.result(values[1], 1);
}
void average_pool(NodeImport& node) {
  Attributes attributes = pool_window(node, "average");
  attributes.emplace("count_include_pad", node.integer("count_include_pad", 0));
  node.result(node.emit("pool", {node.in(0)}, std::move(attributes)));
}
void lp_pool(NodeImport& node) {
  Attributes attributes = pool_window(node, "lp");
  const auto p = static_cast<double>(node.integer("p", 2));
  attributes.emplace("norm", p);
  node.result(node.emit("pool", {node.apply("abs", {node.in(0)})}, std::move(attributes)));
}
void global_pool(NodeImport& node) {
  node.result(node.emit("global_pool", {node.in(0)}, {{"mode", node.argument}}));
}
void global_lp_pool(NodeImport& node) {
  const auto p = static_cast<double>(node.integer("p", 2));
  node.result(node.emit("global_pool", {node.apply("abs", {node.in(0)})}, {{"mode", "lp"}, {"norm", p}}));
}

constexpr OperatorEntry kOperators[] = {
    {"AveragePool", average_pool},
    {"Conv", conv},
    {"ConvTranspose", conv_transpose},
    {"Gemm", gemm},
    {"GlobalAveragePool", global_pool, "average"},
    {"GlobalLpPool", global_lp_pool},
    {"GlobalMaxPool", global_pool, "max"},
    {"LpPool", lp_pool},
    {"MatMul", matmul},
    {"MaxPool", max_pool},
};

}  // namespace

Attributes convolution(NodeImport& node) {
  Attributes attributes = window(node);
  node.ignore("kernel_shape");  // w's shape says it
  attributes.emplace("groups", node.integer("group", 1));
  return attributes;
}

OperatorList product_operators() {
  return list_of(kOperators);
}

}  // namespace dlprim::onnx
