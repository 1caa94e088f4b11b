// Values of ONNX operators where ONNX's own tests have none: NaN, infinities and zeros of both signs, factors
// of 0, lengths of 0, windows of attention. Right values are those that onnx's reference or onnxruntime give;
// where they differ the case says whose.
#include <cmath>

#include "cases/onnx_node.hpp"

using namespace dlprim;
using namespace dlprim::test;
using onnx_writer::attribute;

namespace {

constexpr double kNaN = NAN, kInf = INFINITY;

}  // namespace

TEST_CASE("causal attention with lengths ends at each sample's last key", "[small]") {
  // Four equal scores; v tells by its digits which keys a row saw.
  OnnxNode a{"Attention",
             {reals({2, 1, 1, 1}, {0, 0}), reals({2, 1, 4, 1}, std::vector<double>(8, 0.0)),
              reals({2, 1, 4, 1}, {1, 10, 100, 1000, 1, 10, 100, 1000}), reals({0}, {}), reals({0}, {}),
              reals({0}, {}), wholes({2}, {3, 4})},
             {DType::f32},
             {attribute("is_causal", 1)},
             24};
  a.absent = {false, false, false, true, true, true, false};
  CHECK(a.numbers() == std::vector<double>{37, 277.75});

  // Two rows: the first sees all keys but the last; where there are fewer keys than rows it sees none.
  a.inputs[0] = reals({2, 1, 2, 1}, {0, 0, 0, 0});
  a.inputs[6] = wholes({2}, {1, 4});
  CHECK(a.numbers() == std::vector<double>{0, 1, 37, 277.75});
  CHECK(a.numbers() != std::vector<double>{1, 1, 1, 5.5});  // aligned top left

  // Without is_causal the lengths alone count.
  a.attributes.clear();
  CHECK(a.numbers() == std::vector<double>{1, 1, 277.75, 277.75});
}

TEST_CASE("windows of attention count keys from each row's position", "[small]") {
  const auto seen = [](int64_t left, int64_t right, bool causal, std::vector<int64_t> lengths) {
    const auto batch = static_cast<int64_t>(lengths.empty() ? 1 : lengths.size());
    std::vector<double> v;
    for (int64_t b = 0; b < batch; b++)
      for (double digit : {1, 2, 4, 8}) v.push_back(digit);
    OnnxNode a{"Attention",
               {reals({batch, 1, 2, 1}, std::vector<double>(static_cast<size_t>(2 * batch), 0.0)),
                reals({batch, 1, 4, 1}, std::vector<double>(static_cast<size_t>(4 * batch), 0.0)),
                reals({batch, 1, 4, 1}, v), reals({0}, {}), reals({0}, {}), reals({0}, {}),
                wholes({batch}, lengths.empty() ? std::vector<int64_t>{4} : lengths)},
               {DType::f32},
               {attribute("is_causal", causal ? 1 : 0), attribute("left_window_size", left),
                attribute("right_window_size", right)},
               25};
    a.absent = {false, false, false, true, true, true, lengths.empty()};
    return a.numbers();
  };
  using List = std::vector<double>;
  // Positions 0 and 1.
  CHECK(seen(-1, -1, false, {}) == List{3.75, 3.75});
  CHECK(seen(0, 0, false, {}) == List{1, 2});
  CHECK(seen(0, 1, false, {}) == List{1.5, 3});
  CHECK(seen(1, -1, false, {}) == List{3.75, 3.75});
  CHECK(seen(0, -1, true, {}) == List{1, 2});
  // Positions 2 and 3 of the first sample, 0 and 1 of the second, -1 and 0 of the third.
  CHECK(seen(1, 0, false, {4, 2, 1}) == List{3, 6, 1, 1.5, 0, 1});
  CHECK(seen(1, 2, true, {4, 2, 1}) == List{3, 6, 1, 1.5, 0, 1});
  CHECK(seen(0, 1, false, {4, 2, 1}) == List{6, 8, 1.5, 2, 1, 1});
}

TEST_CASE("Gemm with a factor of 0 does not read C", "[small]") {
  OnnxNode gemm{
      "Gemm",
      {reals({2, 2}, {1, 2, 3, 4}), reals({2, 2}, {1, 0, 0, 1}), reals({2, 2}, {kNaN, kInf, -kInf, 5})},
      {DType::f32},
      {attribute("beta", 0.0F)}};
  CHECK(gemm.numbers() == std::vector<double>{1, 2, 3, 4});
  gemm.inputs[2] = reals({2}, {kNaN, kInf});
  CHECK(gemm.numbers() == std::vector<double>{1, 2, 3, 4});
  gemm.attributes = {attribute("beta", 2.0F)};
  gemm.inputs[2] = reals({2}, {1, -1});
  CHECK(gemm.numbers() == std::vector<double>{3, 0, 5, 2});
}

TEST_CASE("recurrent layers end in zeros where a length is 0", "[small]") {
  for (const std::string op : {"RNN", "GRU", "LSTM"}) {
    for (const std::string direction : {"forward", "reverse", "bidirectional"}) {
      INFO(op << ' ' << direction);
      const int64_t gates = op == "LSTM" ? 4 : op == "GRU" ? 3 : 1, d = direction == "bidirectional" ? 2 : 1;
      const auto ones = [](const Shape& shape, double value) {
        return reals(shape, std::vector<double>(static_cast<size_t>(element_count(shape)), value));
      };
      OnnxNode layer{op,
                     {ones({2, 2, 1}, 0), ones({d, gates, 1}, 1), ones({d, gates, 1}, 0),
                      ones({d, 2 * gates}, 0), wholes({2}, {0, 2}, DType::i32), ones({d, 2, 1}, 0.75)},
                     {DType::f32, DType::f32},
                     {attribute("direction", direction), attribute("hidden_size", 1)}};
      if (op == "LSTM") layer.inputs.push_back(ones({d, 2, 1}, 0.5)), layer.outputs.push_back(DType::f32);
      const std::vector<HostTensor> y = layer.run();
      for (size_t k = 1; k < y.size(); k++) {
        const std::vector<double> state = numbers_of(y[k]);
        for (int64_t i = 0; i < d; i++) {
          CHECK(state[static_cast<size_t>(2 * i)] == 0);
          // The other sample ran: from 0.5 the cell is halved in each of two steps.
          if (op == "LSTM" && k == 2) CHECK(state[static_cast<size_t>(2 * i + 1)] == 0.125);
        }
      }
      for (size_t i = 0; i < numbers_of(y[0]).size(); i += 2) CHECK(numbers_of(y[0])[i] == 0);
    }
  }
}

TEST_CASE("what is quantised of NaN and infinities", "[small]") {
  // NaN gives the least number, as in onnxruntime. NumPy's cast of infinities in onnx's reference overflows.
  const HostTensor x = reals({6}, {kNaN, kInf, -kInf, -0.0, 0.75, -0.25});
  const struct {
    DType dtype;
    int64_t zero, least, most;
  } types[] = {{DType::u8, 128, 0, 255},
               {DType::i8, 5, -128, 127},
               {DType::i16, 0, -32768, 32767},
               {DType::u16, 7, 0, 65535}};
  for (const auto& t : types) {
    INFO(name_of(t.dtype));
    const double z = static_cast<double>(t.zero);
    const OnnxNode quantize{
        "QuantizeLinear", {x, reals({}, {0.5}), wholes({}, {t.zero}, t.dtype)}, {t.dtype}, {}};
    CHECK(quantize.numbers() ==
          std::vector<double>{double(t.least), double(t.most), double(t.least), z, z + 2, z});
  }
  const auto dynamic = [](const std::vector<double>& numbers) {
    const OnnxNode node{"DynamicQuantizeLinear",
                        {reals({static_cast<int64_t>(numbers.size())}, numbers)},
                        {DType::u8, DType::f32, DType::u8}};
    std::vector<double> all;
    for (const HostTensor& t : node.run())
      for (double number : numbers_of(t)) all.push_back(number);
    return all;
  };
  CHECK(dynamic({0, -0.0, 0}) == std::vector<double>{0, 0, 0, 1, 0});
  CHECK(dynamic({}) == std::vector<double>{1, 0});
  CHECK(dynamic({0, 255, 17}) == std::vector<double>{0, 255, 17, 1, 0});
  CHECK(dynamic({0, kInf, 1}) == std::vector<double>{0, 0, 0, kInf, 0});
  CHECK(same(dynamic({0, kNaN, 1}), {0, 0, 0, kNaN, 0}));  // onnxruntime takes NaN for no number at all
}

TEST_CASE("rounding and signs keep NaN, infinities and the sign of zeros", "[small]") {
  const std::vector<double> x{kNaN, kInf, -kInf, -0.0, 0.0, 0.5, -0.5, 1.5, 2.5, -2.5};
  const struct {
    const char* op;
    std::vector<double> y;
  } cases[] = {
      {"Sign", {kNaN, 1, -1, 0, 0, 1, -1, 1, 1, -1}},
      {"Round", {kNaN, kInf, -kInf, -0.0, 0, 0, -0.0, 2, 2, -2}},
      {"Floor", {kNaN, kInf, -kInf, -0.0, 0, 0, -1, 1, 2, -3}},
      {"Ceil", {kNaN, kInf, -kInf, -0.0, 0, 1, -0.0, 2, 3, -2}},
      {"Abs", {kNaN, kInf, kInf, 0, 0, 0.5, 0.5, 1.5, 2.5, 2.5}},
      {"Neg", {kNaN, -kInf, kInf, 0, -0.0, -0.5, 0.5, -1.5, -2.5, 2.5}},
      {"Shrink", {0, kInf, -kInf, 0, 0, 0, 0, 1.5, 2.5, -2.5}},
      {"ThresholdedRelu", {0, kInf, 0, 0, 0, 0, 0, 1.5, 2.5, 0}},
  };
  for (DType dtype : {DType::f32, DType::f16, DType::bf16})
    for (const auto& c : cases) {
      INFO(c.op << ' ' << name_of(dtype));
      const OnnxNode node{c.op, {reals({10}, x, dtype)}, {dtype}};
      CHECK(same(node.numbers(), c.y));
    }
  const OnnxNode whole{"Sign", {wholes({4}, {-7, 0, 9, INT64_MIN})}, {DType::i64}};
  CHECK(whole.numbers() == std::vector<double>{-1, 0, 1, -1});
}

TEST_CASE("gates, blocks and crops of younger opsets", "[small]") {
  const OnnxNode gate{"SwiGLU", {reals({3}, {0, 40, -40}), reals({3}, {5, 0.5, 1e9})}, {DType::f32}, {}, 28};
  const std::vector<double> y = gate.numbers();
  CHECK(y[0] == 0);
  CHECK(y[1] == 20);
  CHECK(y[2] < 0);
  const OnnxNode scaled{
      "SwiGLU", {reals({2}, {0, 40}), reals({2}, {5, 0.5})}, {DType::f32}, {attribute("alpha", 2.0F)}, 28};
  CHECK(scaled.numbers() == std::vector<double>{0, 20});

  // Two channels, one block of 2 x 2.
  OnnxNode blocks{"SpaceToDepth",
                  {reals({1, 2, 2, 2}, {0, 1, 2, 3, 4, 5, 6, 7})},
                  {DType::f32},
                  {attribute("blocksize", 2), attribute("mode", "CRD")},
                  28};
  CHECK(blocks.numbers() == std::vector<double>{0, 1, 2, 3, 4, 5, 6, 7});
  blocks.attributes[1] = attribute("mode", "DCR");
  CHECK(blocks.numbers() == std::vector<double>{0, 4, 1, 5, 2, 6, 3, 7});

  // The size is that of the whole image, as onnx's reference and onnxruntime have it.
  OnnxNode crop{
      "Resize",
      {reals({1, 1, 1, 5}, {0, 1, 2, 3, 4}), reals({8}, {0, 0, 0, 0.25, 1, 1, 1, 0.75}),
       reals({4}, {1, 1, 1, 1})},
      {DType::f32},
      {attribute("mode", "linear"), attribute("coordinate_transformation_mode", "tf_crop_and_resize"),
       attribute("extrapolation_value", -9.0F)},
      19};
  crop.constant = {false, true, true};
  CHECK(crop.numbers() == std::vector<double>{1, 1.5, 2, 2.5, 3});
  crop.inputs[1] = reals({8}, {0, 0, 0, -0.5, 1, 1, 1, 0.5});
  CHECK(crop.numbers() == std::vector<double>{-9, -9, 0, 1, 2});
}

TEST_CASE("global pooling of no images has no results", "[small]") {
  for (const char* op : {"GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"}) {
    INFO(op);
    const OnnxNode pool{op, {reals({0, 3, 4, 5}, {})}};
    CHECK(pool.run()[0].shape == Shape{0, 3, 1, 1});
    const OnnxNode one{op, {reals({1, 2, 1, 2}, {3, 3, 5, 5})}};
    CHECK(one.run()[0].shape == Shape{1, 2, 1, 1});
  }
}
