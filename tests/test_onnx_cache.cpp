// com.microsoft.GroupQueryAttention: against plain loops, and a text in one call against the same text in
// pieces, with what the cache holds in between.
#include <cmath>
#include <dlprim/onnx.hpp>

#include "cases/onnx_writer.hpp"
#include "catch.hpp"
#include "support.hpp"

using namespace dlprim;
using namespace dlprim::test;
using namespace dlprim::test::onnx_writer;
using onnx::ElementType;

namespace {

constexpr int64_t kHeads = 4, kKv = 2, kDepth = 8;

/// A model of one node. Tables of angles are constants.
Model attention(const std::vector<std::string>& inputs, std::vector<Message> attributes = {},
                const std::vector<Message>& initializers = {}) {
  attributes.insert(attributes.end(), {attribute("num_heads", kHeads), attribute("kv_num_heads", kKv)});
  Graph g;
  for (const std::string& name : inputs) {
    const bool whole = name == "lengths" || name == "total";
    if (!name.empty() && name != "cos" && name != "sin")
      g.inputs.push_back(
          Message().text(1, name).message(2, tensor_type(whole ? ElementType::i32 : ElementType::f32)));
  }
  for (const char* name : {"y", "keys", "values"})
    g.outputs.push_back(Message().text(1, name).message(2, tensor_type(ElementType::f32)));
  g.initializers = initializers;
  g.nodes = {node("GroupQueryAttention", inputs, {"y", "keys", "values"}, attributes, "com.microsoft")};
  Message made = model(graph(g));
  made.message(8, opset("com.microsoft", 1));
  return Model(onnx::parse_graph(made.bytes()));
}

struct Numbers {
  Shape shape;
  std::vector<float> values;
  Tensor tensor() const { return device_tensor(shape, values); }
};
Numbers random_numbers(const Shape& shape, Rng& rng) {
  return {shape, reals(element_count(shape), rng, -1, 1)};
}
Tensor whole(const std::vector<float>& numbers, const Shape& shape) {
  return device_tensor(shape, numbers, DType::i32);
}

}  // namespace

TEST_CASE("attention with a cache, of samples of several lengths, fits plain loops", "[small]") {
  constexpr int64_t kBatch = 3, kRows = 2, kBefore = 5, kAll = 7;
  const std::vector<int64_t> lengths{7, 4, 2};
  Rng rng(7);
  const Numbers q = random_numbers({kBatch, kRows, kHeads * kDepth}, rng),
                k = random_numbers({kBatch, kRows, kKv * kDepth}, rng),
                v = random_numbers({kBatch, kRows, kKv * kDepth}, rng),
                keys = random_numbers({kBatch, kKv, kBefore, kDepth}, rng),
                values = random_numbers({kBatch, kKv, kBefore, kDepth}, rng),
                bias = random_numbers({1, kHeads, kRows, kAll}, rng), sinks = random_numbers({kHeads}, rng);
  const Model model =
      attention({"q", "k", "v", "past_k", "past_v", "lengths", "total", "", "", "", "bias", "sink"},
                {attribute("softcap", 0.5F), attribute("local_window_size", 3)});
  const Model::Tensors feeds{{"q", q.tensor()},
                             {"k", k.tensor()},
                             {"v", v.tensor()},
                             {"past_k", keys.tensor()},
                             {"past_v", values.tensor()},
                             {"lengths", whole({6, 3, 1}, {kBatch})},
                             {"total", whole({kAll}, {})},
                             {"bias", bias.tensor()},
                             {"sink", sinks.tensor()}};
  // Number d of head h at a place of sample b: new ones lie behind those of the cache.
  const auto at = [&](const Numbers& cache, const Numbers& own, int64_t b, int64_t h, int64_t place,
                      int64_t d) {
    const int64_t before = std::max<int64_t>(lengths[static_cast<size_t>(b)] - kRows, 0);
    const int64_t from = place < before ? ((b * kKv + h) * kBefore + place) * kDepth + d
                                        : ((b * kRows + place - before) * kKv + h) * kDepth + d;
    return static_cast<double>((place < before ? cache : own).values[static_cast<size_t>(from)]);
  };
  for (const char* run : {"first", "recorded", "replayed"}) {
    INFO(run);
    const Model::Tensors results = model.run(stream(), feeds);
    const std::vector<float> y = host_values(results.at("y")), present = host_values(results.at("keys"));
    REQUIRE(results.at("keys").shape() == Shape{kBatch, kKv, kAll, kDepth});
    for (int64_t b = 0; b < kBatch; b++) {
      const int64_t length = lengths[static_cast<size_t>(b)], before = length - kRows;
      for (int64_t h = 0; h < kKv; h++)
        for (int64_t place = 0; place < length; place++)
          for (int64_t d = 0; d < kDepth; d++)
            REQUIRE(static_cast<double>(
                        present[static_cast<size_t>(((b * kKv + h) * kAll + place) * kDepth + d)]) ==
                    at(keys, k, b, h, place, d));
      for (int64_t h = 0; h < kHeads; h++)
        for (int64_t s = 0; s < kRows; s++) {
          const int64_t own = h / (kHeads / kKv), row = before + s;
          double sum = std::exp(static_cast<double>(sinks.values[static_cast<size_t>(h)]));
          std::vector<double> expected(kDepth);
          for (int64_t place = std::max<int64_t>(0, row - 2); place <= row; place++) {
            double score = 0;
            for (int64_t d = 0; d < kDepth; d++)
              score += static_cast<double>(
                           q.values[static_cast<size_t>(((b * kRows + s) * kHeads + h) * kDepth + d)]) *
                       at(keys, k, b, own, place, d);
            score = 0.5 * std::tanh(score / std::sqrt(8.0) / 0.5) +
                    static_cast<double>(bias.values[static_cast<size_t>((h * kRows + s) * kAll + place)]);
            sum += std::exp(score);
            for (int64_t d = 0; d < kDepth; d++)
              expected[static_cast<size_t>(d)] += std::exp(score) * at(values, v, b, own, place, d);
          }
          for (int64_t d = 0; d < kDepth; d++) {
            INFO("sample " << b << " head " << h << " row " << s << " number " << d);
            CHECK(static_cast<double>(y[static_cast<size_t>(((b * kRows + s) * kHeads + h) * kDepth + d)]) ==
                  Approx(expected[static_cast<size_t>(d)] / sum).margin(2e-6));
          }
        }
    }
  }
}

TEST_CASE("a text in one call and in pieces is the same", "[small]") {
  constexpr int64_t kLength = 6, kShared = 9;
  constexpr int64_t kWidth = (kHeads + 2 * kKv) * kDepth;
  Rng rng(11);
  const Numbers text = random_numbers({1, kLength, kWidth}, rng);
  std::vector<float> cosines, sines;
  for (float angle : reals(kShared * kDepth / 2, rng, -3, 3)) {
    cosines.push_back(std::cos(angle));
    sines.push_back(std::sin(angle));
  }
  const std::vector<Message> tables{
      tensor("cos", ElementType::f32, {kShared, kDepth / 2}, raw_bytes(cosines)),
      tensor("sin", ElementType::f32, {kShared, kDepth / 2}, raw_bytes(sines))};
  const int interleaved = GENERATE(0, 1), shared = GENERATE(0, 1);
  const int64_t capacity = shared * kShared;  // a growing cache, or one that is as long from the start
  INFO("interleaved " << interleaved << " capacity " << capacity);
  const Model model =
      attention({"q", "", "", "past_k", "past_v", "lengths", "total", "cos", "sin"},
                {attribute("do_rotary", 1), attribute("rotary_interleaved", interleaved)}, tables);
  const auto call = [&](int64_t begin, int64_t end, const Tensor& keys, const Tensor& values) {
    const std::vector<float> part(text.values.begin() + begin * kWidth, text.values.begin() + end * kWidth);
    return model.run(stream(), {{"q", device_tensor({1, end - begin, kWidth}, part)},
                                {"past_k", keys},
                                {"past_v", values},
                                {"lengths", whole({static_cast<float>(end - 1)}, {1})},
                                {"total", whole({static_cast<float>(end)}, {})}});
  };
  const Numbers zeros{{1, kKv, capacity, kDepth},
                      std::vector<float>(static_cast<size_t>(kKv * capacity * kDepth))};
  const std::vector<float> all = host_values(call(0, kLength, zeros.tensor(), zeros.tensor()).at("y"));
  Tensor keys = zeros.tensor(), values = zeros.tensor();
  std::vector<float> pieces;
  for (const auto& [begin, end] : std::vector<std::pair<int64_t, int64_t>>{{0, 2}, {2, 3}, {3, 5}, {5, 6}}) {
    const Model::Tensors results = call(begin, end, keys, values);
    keys = results.at("keys"), values = results.at("values");
    const std::vector<float> y = host_values(results.at("y"));
    pieces.insert(pieces.end(), y.begin(), y.end());
  }
  REQUIRE(pieces.size() == all.size());
  for (size_t i = 0; i < all.size(); i++) {
    INFO(i);
    CHECK(pieces[i] == Approx(all[i]).margin(2e-6));
  }
}

TEST_CASE("places beyond a sample's length are neither read nor written", "[small]") {
  constexpr int64_t kPlaces = 7, kLength = 4;
  Rng rng(13);
  const Numbers q = random_numbers({1, 1, (kHeads + 2 * kKv) * kDepth}, rng);
  Numbers cache = random_numbers({1, kKv, kPlaces, kDepth}, rng);
  const Model model =
      attention({"q", "", "", "past_k", "past_v", "lengths", "total"}, {attribute("causal", 0)});
  const auto call = [&] {
    return model.run(stream(), {{"q", q.tensor()},
                                {"past_k", cache.tensor()},
                                {"past_v", cache.tensor()},
                                {"lengths", whole({kLength - 1}, {1})},
                                {"total", whole({kPlaces}, {})}});
  };
  const std::vector<float> before = host_values(call().at("y"));
  const auto beyond = [&](size_t i) { return static_cast<int64_t>(i) / kDepth % kPlaces >= kLength; };
  for (size_t i = 0; i < cache.values.size(); i++)
    if (beyond(i)) cache.values[i] = 100;
  const Model::Tensors results = call();
  CHECK(host_values(results.at("y")) == before);
  const std::vector<float> present = host_values(results.at("keys"));
  for (size_t i = 0; i < present.size(); i++)
    if (beyond(i)) CHECK(present[i] == 100);
}

TEST_CASE("forms of attention with a cache that are not supported are refused", "[small]") {
  const std::vector<std::string> inputs{"q", "k", "v", "past_k", "past_v", "lengths", "total"};
  const auto complaint = [&](std::vector<Message> attributes, std::vector<std::string> given) {
    return refusal([&] { attention(given, std::move(attributes)); });
  };
  CHECK_THAT(complaint({attribute("sliding_window_cache", 1)}, inputs),
             Catch::Contains("sliding_window_cache"));
  CHECK_THAT(complaint({attribute("k_quant_type", "PER_TENSOR")}, inputs),
             Catch::Contains("quantised cache"));
  CHECK_THAT(complaint({attribute("do_rotary", 1)}, inputs), Catch::Contains("no table of cosines"));
  CHECK_THAT(complaint({}, {"q", "k", "", "", "", "lengths", "total"}),
             Catch::Contains("a key without a value"));
  std::vector<std::string> normed = inputs;
  normed.resize(14);
  normed.emplace_back("weight");
  CHECK_THAT(complaint({}, normed), Catch::Contains("input 14, 'weight', is not supported"));
}
