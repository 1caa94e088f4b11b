// Operators of ONNX Runtime's own domain, which its optimizer writes: fused forms of others.
#include "core/text.hpp"
#include "onnx/operators.hpp"

namespace dlprim::onnx {
namespace {

using detail::cat;

/// f(x + bias), f the argument; a bias that is left out is 0.
void biased(NodeImport& node) {
  const int x = node.in(0);
  node.result(node.apply(node.argument, {node.has(1) ? node.apply("add", {x, node.in(1)}) : x}));
}
/// alpha A' B'. First the axes in front, if asked: what is axis 0 becomes the last but one.
void fused_matmul(NodeImport& node) {
  const auto operand = [&](int k, const char* batch, const char* matrix) {
    int x = node.in(k);
    if (node.integer(batch, 0) != 0) x = node.emit("move_axis", {x}, {{"from", 0}, {"to", -2}});
    if (node.integer(matrix, 0) != 0) x = node.emit("move_axis", {x}, {{"from", -1}, {"to", -2}});
    return x;
  };
  const int a = operand(0, "transBatchA", "transA"), b = operand(1, "transBatchB", "transB");
  node.result(node.emit("matmul", {a, b}, {{"alpha", node.number("alpha", 1)}}));
}

/// input + skip (+ bias), normalised. The sum is the fourth output, of RMS too, which has no mean.
void skip_layer_norm(NodeImport& node) {
  const bool rms = node.argument != nullptr;
  const int bias = rms ? 3 : 4;
  int sum = node.apply("add", {node.in(0), node.in(1)});
  if (node.has(bias)) sum = node.apply("add", {sum, node.in(bias)});
  const bool statistics = node.wants(1) || node.wants(2);
  std::vector<int> inputs{sum, node.in(2)};
  if (!rms) inputs.push_back(node.in(3));
  const std::vector<int> values =
      node.emit_many("layer_norm", inputs,
                     !statistics ? 1
                     : rms       ? 2
                                 : 3,
                     {{"axis", -1}, {"epsilon", node.number("epsilon", rms ? 1e-5 : 1e-12)}, {"rms", rms}});
  if (rms && node.wants(1)) node.refuse("has a mean as its second output: RMS normalisation takes none");
  node.result(values[0]);
  if (statistics && !rms) node.result(values[1], 1);
  if (statistics) node.result(values.back(), 2);
  node.result(sum, 3);
}

/// Inputs: ids, segments, embeddings of words, places, segments, gamma, beta, mask, places' ids. The second
/// output, how long each mask is, is only made where there is no mask: zeros.
void embed_layer_norm(NodeImport& node) {
  if (node.wants(1) && node.has(7)) node.refuse("has mask_index as an output and a mask: not supported");
  node.in(7);  // for that output alone
  node.ignore("mask_index_type");
  const int ids = node.in(0);
  const auto rows = [&](int table, int indices) {
    return node.emit("gather", {table, indices}, {{"axis", 0}});
  };
  int sum = rows(node.in(2), ids);
  if (node.has(8)) {
    sum = node.apply("add", {sum, rows(node.in(3), node.in(8))});
  } else {
    const int length = node.emit("shape", {ids}, {{"start", 1}, {"end", 2}});
    sum = node.apply("add",
                     {sum, node.emit("slice", {node.in(3), node.constant(std::vector<int64_t>{0}), length})});
  }
  if (node.has(1) != node.has(4)) node.refuse("has segments without embeddings, or these without segments");
  if (node.has(1)) sum = node.apply("add", {sum, rows(node.in(4), node.in(1))});
  node.result(node.emit("layer_norm", {sum, node.in(5), node.in(6)},
                        {{"axis", -1}, {"epsilon", node.number("epsilon", 1e-12)}}));
  if (node.wants(1)) {
    const int batch = node.emit("shape", {ids}, {{"start", 0}, {"end", 1}});
    node.result(node.emit("fill", {batch, node.constant(HostTensor{{}, DType::i32, {1}, {0, 0, 0, 0}})}), 1);
  }
  node.result(sum, 2);
}

constexpr const char* kDomain = "com.microsoft";
constexpr OperatorEntry kOperators[] = {
    {"BiasGelu", biased, "gelu", 1, kDomain},
    {"EmbedLayerNormalization", embed_layer_norm, nullptr, 1, kDomain},
    {"FastGelu", biased, "gelu_tanh", 1, kDomain},
    {"FusedMatMul", fused_matmul, nullptr, 1, kDomain},
    {"Gelu", biased, "gelu", 1, kDomain},
    {"SkipLayerNormalization", skip_layer_norm, nullptr, 1, kDomain},
    {"SkipSimplifiedLayerNormalization", skip_layer_norm, "rms", 1, kDomain},
};

}  // namespace

OperatorList microsoft_operators() {
  return list_of(kOperators);
}

}  // namespace dlprim::onnx
