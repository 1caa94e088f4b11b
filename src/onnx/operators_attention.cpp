// Attention of all kinds, rotary embeddings.
#include <array>

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
  if (node.opset >= 25) {
    attributes.emplace("left_window", node.integer("left_window_size", -1));
    attributes.emplace("right_window", node.integer("right_window_size", -1));
  }
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

/// q, k and v by heads, [B, heads, S, D]: three inputs, or one with the heads of all behind one another.
std::array<int, 3> heads_of(NodeImport& node, int64_t heads, int64_t kv) {
  const auto parted = [&](int x, int64_t count) {
    return node.emit("reshape", {x, node.constant(std::vector<int64_t>{0, 0, count, -1})});
  };
  std::vector<int> parts;
  if (node.has(1) != node.has(2)) node.refuse("has a key without a value, or this without that");
  if (node.has(1))
    parts = {parted(node.in(0), heads), parted(node.in(1), kv), parted(node.in(2), kv)};
  else
    parts = node.emit_many("split", {parted(node.in(0), heads + 2 * kv)}, 3,
                           {{"axis", 2}, {"sizes", std::vector<int64_t>{heads, kv, kv}}});
  std::array<int, 3> made{};
  for (size_t i = 0; i < 3; i++)
    made[i] = node.emit("transpose", {parts[i]}, {{"axes", std::vector<int64_t>{0, 2, 1, 3}}});
  return made;
}

/// com.microsoft: attention with a cache, causal, for samples of several lengths.
void group_query_attention(NodeImport& node) {
  const int64_t heads = node.integer("num_heads", 0), kv = node.integer("kv_num_heads", 0);
  if (heads < 1 || kv < 1 || heads % kv != 0)
    node.refuse(cat("has ", heads, " heads of queries and ", kv, " of keys"));
  for (const char* name : {"sliding_window_cache", "qk_output"})
    if (node.integer(name, 0) != 0) node.refuse(cat("has ", name, ", which is not supported"));
  for (const char* name : {"k_quant_type", "v_quant_type"})
    if (node.text(name, "NONE") != "NONE") node.refuse("has a quantised cache, which is not supported");
  for (const char* name : {"kv_cache_bit_width", "qk_norm_epsilon", "q_norm_epsilon", "k_norm_epsilon"})
    node.ignore(name);  // of what is refused
  auto [q, k, v] = heads_of(node, heads, kv);
  const auto constant = [&](int64_t number) { return node.constant(std::vector<int64_t>{number}); };
  const auto along = [&](int value, int64_t axis) {
    return node.emit("shape", {value}, {{"start", axis}, {"end", axis + 1}});
  };
  const int lengths = node.apply("add", {node.emit("cast", {node.in(5)}, {{"dtype", "i64"}}), constant(1)});
  const int rows = along(q, 2);
  const int before = node.apply("maximum", {node.apply("sub", {lengths, rows}), constant(0)});
  const int each = node.emit("range", {constant(0), rows, constant(1)});
  const int own = node.apply("add", {node.emit("unsqueeze", {before, constant(1)}), each});
  if (node.integer("do_rotary", 0) != 0) {
    if (!node.has(7) || !node.has(8)) node.refuse("has do_rotary and no table of cosines or sines");
    const HostTensor* const cosines = node.constant_in(7);
    const int64_t width = cosines && cosines->shape.size() == 2 ? 2 * cosines->shape[1] : 0;
    const int places = node.has(9) ? node.in(9) : own;
    for (int* const x : {&q, &k})
      *x = node.emit("rotary", {*x, node.in(7), node.in(8), places},
                     {{"width", width}, {"interleaved", node.integer("rotary_interleaved", 0)}});
  } else {
    node.ignore("rotary_interleaved");
    for (int i : {7, 8, 9}) node.in(i);
  }
  k = node.emit("cache_append", {k, before, node.in(6), node.in(3)});
  v = node.emit("cache_append", {v, before, node.in(6), node.in(4)});
  node.result(k, 1);
  node.result(v, 2);
  // A shared cache is longer than what it holds.
  const int all = node.emit("reshape", {node.emit("cast", {node.in(6)}, {{"dtype", "i64"}}), constant(1)});
  const bool sink = node.integer("smooth_softmax", 0) != 0 || node.has(11);
  const auto held = [&](int x) {
    const int part = node.emit("slice", {x, constant(0), all, constant(2)});
    if (!sink) return part;
    const int zero = node.emit("cast", {constant(0), x});
    const int row = node.emit("concat", {along(x, 0), along(x, 1), constant(1), along(x, 3)}, {{"axis", 0}});
    return node.emit("concat", {part, node.emit("fill", {row, zero})}, {{"axis", 2}});
  };
  const int mask = node.emit("cache_mask", {own, lengths, node.in(6), node.in(10), node.in(11)},
                             {{"causal", node.integer("causal", 1)},
                              {"window", node.integer("local_window_size", -1)},
                              {"sink", sink}});
  Attributes attributes{{"softcap", node.number("softcap", 0)}};
  if (const double scale = node.number("scale", 0); scale != 0) attributes.emplace("scale", scale);
  const int y = node.emit("attention", {q, held(k), held(v), mask}, std::move(attributes));
  const int turned = node.emit("transpose", {y}, {{"axes", std::vector<int64_t>{0, 2, 1, 3}}});
  node.result(node.emit("reshape", {turned, node.constant(std::vector<int64_t>{0, 0, -1})}));
}

constexpr OperatorEntry kOperators[] = {
    {"Attention", attention},
    {"CausalConvWithState", causal_conv},
    {"GroupQueryAttention", group_query_attention, nullptr, 1, "com.microsoft"},
    {"LinearAttention", linear_attention},
    {"RotaryEmbedding", rotary},
};

}  // namespace

OperatorList attention_operators() {
  return list_of(kOperators);
}

}  // namespace dlprim::onnx
