// Transformers: ViT-B/16 and GPT-2 small.
#include "net/networks/builder.hpp"

namespace dlprim::networks {
namespace {

constexpr int64_t kWidth = 768, kHeads = 12, kLayers = 12;
constexpr double kDeviation = 0.02;  ///< of random weights, as GPT-2's

/// q, k, v of the last dimension of `joined`, [B, L, 3 * kWidth].
int attention(Builder& b, int joined, bool causal) {
  std::vector<int> parts;
  for (int64_t part = 0; part < 3; part++)
    parts.push_back(b.node("slice",
                           {joined, b.whole({part * kWidth}), b.whole({(part + 1) * kWidth}), b.whole({2})},
                           {}, kWidth));
  return b.node("attention", std::move(parts), {{"heads", kHeads}, {"kv_heads", kHeads}, {"causal", causal}},
                kWidth);
}

/// x times w [in, out], as GPT-2's files have it, with its bias.
int product(Builder& b, const std::string& name, int x, int64_t out) {
  const int64_t in = b.channels(x);
  return b.node("matmul",
                {x, b.parameter(name + ".weight", {in, out}, {Init::Kind::normal, kDeviation}),
                 b.parameter(name + ".bias", {out}, {})},
                {}, out);
}

}  // namespace

NetGraph vit(Builder& b) {
  constexpr double kEpsilon = 1e-6;
  constexpr int64_t kPatches = 14 * 14;
  const Init drawn{Init::Kind::normal, kDeviation};
  int x = b.conv("conv_proj", b.images(true), kWidth, {16, 16}, 1, true);
  x = b.node("reshape", {x, b.whole({0, kWidth, kPatches})}, {}, kWidth);
  x = b.node("transpose", {x}, {{"axes", Integers{0, 2, 1}}}, kWidth);
  // The class' token in front of each image's.
  const int batch = b.node("shape", {x}, {{"start", 0}, {"end", 1}}, 1);
  const int sizes = b.node("concat", {batch, b.whole({1, kWidth})}, {{"axis", 0}}, 3);
  const int token = b.node("expand", {b.parameter("class_token", {1, 1, kWidth}, {}), sizes}, {}, kWidth);
  x = b.node("concat", {token, x}, {{"axis", 1}}, kWidth);
  x = b.apply("add", {x, b.parameter("encoder.pos_embedding", {1, kPatches + 1, kWidth}, drawn)});
  for (int64_t i = 0; i < kLayers; i++) {
    const std::string name = "encoder.layers.encoder_layer_" + std::to_string(i);
    int y = b.layer_norm(name + ".ln_1", x, kEpsilon);
    const int w = b.parameter(name + ".self_attention.in_proj_weight", {3 * kWidth, kWidth}, drawn);
    const int bias = b.parameter(name + ".self_attention.in_proj_bias", {3 * kWidth}, {});
    const int transposed = b.node("transpose", {w}, {{"axes", Integers{1, 0}}}, 3 * kWidth);
    y = attention(b, b.node("matmul", {y, transposed, bias}, {}, 3 * kWidth), false);
    x = b.apply("add", {b.linear(name + ".self_attention.out_proj", y, kWidth), x});
    y = b.apply("gelu", {b.linear(name + ".mlp.0", b.layer_norm(name + ".ln_2", x, kEpsilon), 4 * kWidth)});
    x = b.apply("add", {b.linear(name + ".mlp.3", y, kWidth), x});
  }
  x = b.layer_norm("encoder.ln", x, kEpsilon);
  x = b.node("gather", {x, b.whole({0}, false)}, {{"axis", 1}}, kWidth);
  return b.finish(b.linear("heads.head", x, b.classes()));
}

NetGraph gpt2(Builder& b) {
  constexpr int64_t kTokens = 50257, kPlaces = 1024;
  constexpr double kEpsilon = 1e-5;
  const Init drawn{Init::Kind::normal, kDeviation};
  const int ids = b.tokens();
  const int words = b.parameter("wte.weight", {kTokens, kWidth}, drawn);
  const int length = b.node("gather", {b.node("shape", {ids}, {}, 2), b.whole({1}, false)}, {{"axis", 0}}, 1);
  const int places = b.node("range", {b.whole({0}, false), length, b.whole({1}, false)}, {}, 1);
  int x = b.node("gather", {words, ids}, {{"axis", 0}}, kWidth);
  x = b.apply("add", {x, b.node("gather", {b.parameter("wpe.weight", {kPlaces, kWidth}, drawn), places},
                                {{"axis", 0}}, kWidth)});
  for (int64_t i = 0; i < kLayers; i++) {
    const std::string name = "h." + std::to_string(i);
    int y = product(b, name + ".attn.c_attn", b.layer_norm(name + ".ln_1", x, kEpsilon), 3 * kWidth);
    x = b.apply("add", {product(b, name + ".attn.c_proj", attention(b, y, true), kWidth), x});
    y = product(b, name + ".mlp.c_fc", b.layer_norm(name + ".ln_2", x, kEpsilon), 4 * kWidth);
    x = b.apply("add", {product(b, name + ".mlp.c_proj", b.apply("gelu_tanh", {y}), kWidth), x});
  }
  x = b.layer_norm("ln_f", x, kEpsilon);
  const int scores = b.node("transpose", {words}, {{"axes", Integers{1, 0}}}, kTokens);
  return b.finish(b.node("matmul", {x, scores}, {}, kTokens));
}

}  // namespace dlprim::networks
