// Attention of all kinds, rotary embeddings.
#include "core/text.hpp"
#include "onnx/operators.hpp"

namespace dlprim::onnx {
namespace {

using detail::cat;

void attention(NodeImport& node) {
  Attributes attributes{{"causal", node.integer("is_causal", 0)},
                        {"softcap", node.number("softcap", 0)},
                        {"scores_at", node.integer("qk_matmul_output_mode", 0)},
                        {"heads", node.integer("q_num_heads", 0)},
                        {"kv_heads", node.integer("kv_num_heads", 0)}};
  if (node.has("scale")) attributes.emplace("scale", node.number("scale", 0));
  node.ignore("softmax_precision");  // never below f32 here
  node.results(node.emit_many("attention", node.all_inputs(), 4, std::move(attributes)));
}

void rotary(NodeImport& node) {
  node.result(node.emit("rotary", node.all_inputs(),
                        {{"heads", node.integer("num_heads", 0)},
                         {"width", node.integer("rotary_embedding_dim", 0)},
                         {"interleaved", node.integer("interleaved", 0)}}));
}

/// The rule says which inputs there are: decay where it is gated, beta where it has the delta correction.
void linear_attention(NodeImport& node) {
  const std::string rule = node.text("update_rule", "gated_delta");
  const bool gated = rule.rfind("gated", 0) == 0, delta = rule == "delta" || rule == "gated_delta";
  if (!gated && !delta && rule != "linear") node.refuse("has update_rule '" + rule + "'");
  if (gated != node.has(4) || delta != node.has(5))
    node.refuse(cat("has update_rule '", rule, "', which does not go with its inputs"));
  node.ignore("chunk_size");  // says nothing of the result
  Attributes attributes{{"heads", node.integer("q_num_heads", 0)},
                        {"kv_heads", node.integer("kv_num_heads", 0)}};
  if (const double scale = node.number("scale", 0); scale != 0) attributes.emplace("scale", scale);
  node.results(node.emit_many("linear_attention", node.all_inputs(), 2, std::move(attributes)));
}

/// A depthwise convolution of what came before and x, one behind the other; what it leaves for the next call.
void causal_conv(NodeImport& node) {
  const int x = node.in(0), w = node.in(1);
  const std::string activation = node.text("activation", "none");
  if (activation != "none" && activation != "silu" && activation != "swish")
    node.refuse("has activation '" + activation + "'");
  const auto along = [&](int value, int64_t axis) {
    return node.emit("shape", {value}, {{"start", axis}, {"end", axis + 1}});
  };
  const int taps = node.apply("sub", {along(w, 2), node.constant(std::vector<int64_t>{1})});
  int past = node.in(3);
  if (past == NetGraph::kNone) {
    const int zero = node.emit("cast", {node.constant(std::vector<int64_t>{0}), x});
    past = node.emit("fill", {node.emit("concat", {along(x, 0), along(x, 1), taps}, {{"axis", 0}}), zero});
  }
  const int all = node.emit("concat", {past, x}, {{"axis", 2}});
  std::vector<int> inputs{all, w};
  if (node.has(2)) inputs.push_back(node.in(2));
  int y = node.emit("conv", std::move(inputs), {{"groups", 0}});
  if (activation != "none") y = node.apply("silu", {y});
  node.result(y);
  const int axis = node.constant(std::vector<int64_t>{2});
  node.result(node.emit("slice", {all, along(x, 2), along(all, 2), axis}), 1);
}

constexpr OperatorEntry kOperators[] = {
    {"Attention", attention},
    {"CausalConvWithState", causal_conv},
    {"LinearAttention", linear_attention},
    {"RotaryEmbedding", rotary},
};

}  // namespace

OperatorList attention_operators() {
  return list_of(kOperators);
}

}  // namespace dlprim::onnx
