// Types of 8 bits and less that are no dtype: every code of every format and back, rounding at and beside
// each midpoint, packed numbers in files, and which operators take them.
#include <cmath>
#include <dlprim/onnx.hpp>
#include <optional>

#include "cases/onnx_writer.hpp"
#include "catch.hpp"
#include "onnx/constant.hpp"
#include "onnx/narrow.hpp"
#include "support.hpp"

using namespace dlprim;
using namespace dlprim::test;
using namespace dlprim::test::onnx_writer;
using onnx::ElementType;

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// What standards say of a format: sign, exponent and mantissa, and its last codes.
struct Format {
  const char* name;
  int bits, mantissa, bias;
  int largest;                  ///< code
  float largest_number, least;  ///< as the standards print them
  std::optional<int> infinity;  ///< code
  int nan;                      ///< code; that of the sign's bit alone is NaN in ..fnuz
  bool fnuz = false;
};
const Format kFormats[] = {
    {"f4e2m1", 4, 1, 1, 7, 6, 0.5F, {}, 8},
    {"f8e4m3fn", 8, 3, 7, 0x7e, 448, 0x1p-9F, {}, 0x7f},
    {"f8e4m3fnuz", 8, 3, 8, 0x7f, 240, 0x1p-10F, {}, 0x80, true},
    {"f8e5m2", 8, 2, 15, 0x7b, 57344, 0x1p-16F, 0x7c, 0x7e},
    {"f8e5m2fnuz", 8, 2, 16, 0x7f, 57344, 0x1p-17F, {}, 0x80, true},
};

/// Of a code without its sign, up to the largest.
float magnitude(const Format& f, int code) {
  const int exponent = code >> f.mantissa, low = code % (1 << f.mantissa);
  if (exponent == 0) return std::ldexp(static_cast<float>(low), 1 - f.bias - f.mantissa);
  return std::ldexp(1 + std::ldexp(static_cast<float>(low), -f.mantissa), exponent - f.bias);
}

template <class T>
std::vector<T> result_of(const std::string& kind, const Tensor& x, const Attributes& attributes) {
  NetGraph g;
  const int in = g.add_input("x", x.dtype(), {dlprim::Dimension()});
  g.add_output("y", g.add(kind, {in}, attributes));
  return read<T>(stream(), Model(std::move(g)).run(stream(), {{"x", x}}).at("y"));
}
std::vector<float> decoded(const std::string& format, const std::vector<float>& codes) {
  const Tensor x = device_tensor({static_cast<int64_t>(codes.size())}, codes, DType::u8);
  return result_of<float>("decode", x, {{"format", format}});
}
std::vector<uint8_t> encoded(const std::string& format, const std::vector<float>& x, bool saturate,
                             const std::string& rounding = "up") {
  return result_of<uint8_t>("encode", device_tensor({static_cast<int64_t>(x.size())}, x),
                            {{"format", format}, {"saturate", saturate}, {"rounding", rounding}});
}

/// The code of |x| by the definition: the nearest number, the even code of two.
int nearest(const Format& f, float x, bool saturate) {
  const int beyond = saturate || f.bits == 4 ? f.largest : f.infinity.value_or(f.nan);
  const double top = magnitude(f, f.largest), gap = top - static_cast<double>(magnitude(f, f.largest - 1));
  const double a = x;
  if (a > top + gap / 2 || (a == top + gap / 2 && f.largest % 2 != 0)) return beyond;
  int best = 0;
  for (int code = 1; code <= f.largest; code++) {
    const double to_best = std::fabs(a - static_cast<double>(magnitude(f, best))),
                 to_code = std::fabs(a - static_cast<double>(magnitude(f, code)));
    if (to_code < to_best || (to_code == to_best && code % 2 == 0)) best = code;
  }
  return best;
}
int expected_code(const Format& f, float x, bool saturate) {
  const int sign = 1 << (f.bits - 1), code = nearest(f, std::fabs(x), saturate);
  if (!std::signbit(x) || (f.fnuz && code == 0)) return code;
  return code | sign;
}

/// A model of one node from x, of this type, to y.
NetGraph one_node(const Message& node, ElementType from, ElementType to,
                  const std::vector<Message>& initializers = {}) {
  Graph g;
  g.nodes = {node};
  g.inputs = {value("x", from, {"n"})};
  g.outputs = {value("y", to, {"n"})};
  g.initializers = initializers;
  return onnx::parse_graph(model(graph(g), 25).bytes());
}
Tensor run(NetGraph graph, const Tensor& x) {
  return Model(std::move(graph)).run(stream(), {{"x", x}}).at("y");
}
Message cast(ElementType to, std::vector<Message> attributes = {}) {
  attributes.push_back(attribute("to", static_cast<int64_t>(to)));
  return node("Cast", {"x"}, {"y"}, attributes);
}

HostTensor constant(const Message& tensor) {
  onnx::ExternalFiles none;
  return onnx::constant_of(onnx::parse_tensor(tensor.bytes()), none);
}

}  // namespace

TEST_CASE("each code is the number that its standard gives it", "[small]") {
  for (const Format& f : kFormats) {
    INFO(f.name);
    const int sign = 1 << (f.bits - 1);
    std::vector<float> codes(static_cast<size_t>(2 * sign));
    for (size_t i = 0; i < codes.size(); i++) codes[i] = static_cast<float>(i);
    const std::vector<float> y = decoded(f.name, codes);
    CHECK(y[static_cast<size_t>(f.largest)] == f.largest_number);
    CHECK(y[1] == f.least);
    for (int code = 0; code < 2 * sign; code++) {
      const int low = code % sign;
      const float got = y[static_cast<size_t>(code)];
      INFO(code);
      if (f.infinity == low)
        CHECK(got == (code < sign ? kInfinity : -kInfinity));
      else if (low > f.largest || (f.fnuz && code == sign))
        CHECK(std::isnan(got));
      else
        CHECK(
            (got == (code < sign ? 1.0F : -1.0F) * magnitude(f, low) && std::signbit(got) == (code >= sign)));
    }
  }
  const std::vector<float> scales = decoded("f8e8m0", {0, 1, 127, 254, 255});
  const bool denormals = (context().device().cl().getInfo<CL_DEVICE_SINGLE_FP_CONFIG>() & CL_FP_DENORM) != 0;
  CHECK(std::vector<float>(scales.begin(), scales.end() - 1) ==
        std::vector<float>{denormals ? 0x1p-127F : 0, 0x1p-126F, 1, 0x1p127F});
  CHECK(std::isnan(scales.back()));
}

TEST_CASE("a number becomes the nearest code, the even one of two", "[small]") {
  for (const Format& f : kFormats) {
    std::vector<float> x{0, 1e-30F, 1e30F, kInfinity, 0x1p-149F, 3.4e38F};
    for (int code = 0; code <= f.largest; code++) {
      const float here = magnitude(f, code);
      const float middle =
          code < f.largest ? (here + magnitude(f, code + 1)) / 2 : here + (here - magnitude(f, code - 1)) / 2;
      x.insert(x.end(), {here, middle, std::nextafter(middle, 0.0F), std::nextafter(middle, kInfinity)});
    }
    for (size_t i = 0, positive = x.size(); i < positive; i++) x.push_back(-x[i]);
    for (const bool saturate : {true, false}) {
      const std::vector<uint8_t> y = encoded(f.name, x, saturate);
      for (size_t i = 0; i < x.size(); i++) {
        INFO(f.name << (saturate ? " saturated " : " ") << x[i]);
        CHECK(int{y[i]} == expected_code(f, x[i], saturate));
      }
    }
    CHECK(int{encoded(f.name, {std::nanf("")}, true)[0]} == f.nan);
  }
}

TEST_CASE("a scale is a power of two, by each rule of rounding", "[small]") {
  const float tiny = 0x1p-149F, subnormal = 0x1.8p-127F, huge = 0x1.8p127F;
  const std::vector<float> x{1, 1.25F, 1.5F, 1.75F, -2, 0, tiny, subnormal, huge, kInfinity};
  using Codes = std::vector<uint8_t>;
  CHECK(encoded("f8e8m0", x, true, "down") == Codes{127, 127, 127, 127, 128, 0, 0, 0, 254, 255});
  CHECK(encoded("f8e8m0", x, true, "up") == Codes{127, 128, 128, 128, 128, 0, 1, 1, 254, 255});
  CHECK(encoded("f8e8m0", x, true, "nearest") == Codes{127, 127, 128, 128, 128, 0, 0, 1, 254, 255});
  CHECK(encoded("f8e8m0", x, false, "nearest") == Codes{127, 127, 128, 128, 128, 0, 0, 1, 255, 255});
}

TEST_CASE("small integers keep the lowest bits of larger ones", "[small]") {
  const Tensor x = device_tensor({7}, {0, 1, 7, 8, 15, -1, -9}, DType::i32);
  using Numbers = std::vector<int8_t>;
  CHECK(result_of<int8_t>("encode", x, {{"format", "i4"}}) == Numbers{0, 1, 7, -8, -1, -1, 7});
  CHECK(result_of<int8_t>("encode", x, {{"format", "i2"}}) == Numbers{0, 1, -1, 0, -1, -1, -1});
  CHECK(result_of<uint8_t>("encode", x, {{"format", "u4"}}) == std::vector<uint8_t>{0, 1, 7, 8, 15, 15, 7});
  CHECK(result_of<uint8_t>("encode", x, {{"format", "u2"}}) == std::vector<uint8_t>{0, 1, 3, 0, 3, 3, 3});
}

TEST_CASE("numbers of a file are unpacked from the lowest bits on", "[small]") {
  using Bytes = std::vector<unsigned char>;
  const std::string two = raw_bytes<uint8_t>({0x8f, 0xf7});
  CHECK(constant(tensor("w", ElementType::u4, {3}, two)).data == Bytes{15, 8, 7});
  CHECK(constant(tensor("w", ElementType::i4, {3}, two)).data == Bytes{0xff, 0xf8, 7});
  CHECK(constant(tensor("w", ElementType::f4e2m1, {2, 2}, two)).data == Bytes{15, 8, 7, 15});
  const HostTensor twos = constant(tensor("w", ElementType::i2, {5}, raw_bytes<uint8_t>({0xe4, 2})));
  CHECK(twos.data == Bytes{0, 1, 0xfe, 0xff, 0xfe});
  CHECK((twos.dtype == DType::i8 && twos.shape == Shape{5}));
  CHECK(constant(tensor("w", ElementType::u2, {4}, raw_bytes<uint8_t>({0xe4}))).data == Bytes{0, 1, 2, 3});
  const Message list = tensor("w", ElementType::u4, {3}).packed<int32_t>(5, {0x8f, 7});
  CHECK(constant(list).data == Bytes{15, 8, 7});
  CHECK(constant(tensor("w", ElementType::f8e5m2, {2}).packed<int32_t>(5, {0x3c, 0x80})).data ==
        Bytes{0x3c, 0x80});
  CHECK(constant(tensor("w", ElementType::u4, {0}, "")).data.empty());
  const auto refused = [](const Message& t) { return refusal([&] { constant(t); }); };
  CHECK_THAT(refused(tensor("w", ElementType::u4, {5}, two)),
             Catch::Contains("2 bytes") && Catch::Contains("3"));
  CHECK_THAT(refused(tensor("w", ElementType::u4, {5}).packed<int32_t>(5, {1, 2})), Catch::Contains("has 2"));
  CHECK_THAT(refused(tensor("w", ElementType::f8e5m2, {1}).packed<int32_t>(5, {256})),
             Catch::Contains("256"));
  CHECK_THAT(refused(tensor("w", ElementType::i4, {1}).packed<int64_t>(7, {1})),
             Catch::Contains("another type"));
}

TEST_CASE("casts, quantisation and what moves numbers take narrow types", "[small]") {
  const Tensor x = device_tensor({3}, {1.5F, -500, 0.3F});
  using Codes = std::vector<uint8_t>;
  CHECK(read<uint8_t>(stream(),
                      run(one_node(cast(ElementType::f8e4m3fn), ElementType::f32, ElementType::f8e4m3fn),
                          x)) == Codes{0x3c, 0xfe, 0x2a});
  CHECK(read<uint8_t>(stream(), run(one_node(cast(ElementType::f8e4m3fn, {attribute("saturate", 0)}),
                                             ElementType::f32, ElementType::f8e4m3fn),
                                    x)) == Codes{0x3c, 0xff, 0x2a});
  const Tensor codes = device_tensor({3}, {0x3c, 0xfe, 0x2a}, DType::u8);
  CHECK(read<int32_t>(stream(), run(one_node(cast(ElementType::i32), ElementType::f8e4m3fn, ElementType::i32),
                                    codes)) == std::vector<int32_t>{1, -448, 0});
  // From one to another, behind what moves it.
  Graph g;
  g.inputs = {value("x", ElementType::f8e4m3fn, {3})};
  g.outputs = {value("y", ElementType::f8e5m2, {2, 3})};
  g.initializers = {tensor("s", ElementType::i64, {2}, raw_bytes<int64_t>({1, 3}))};
  g.nodes = {node("Reshape", {"x", "s"}, {"r"}), node("Concat", {"r", "r"}, {"c"}, {attribute("axis", 0)}),
             node("Cast", {"c"}, {"y"}, {attribute("to", static_cast<int64_t>(ElementType::f8e5m2))})};
  CHECK(read<uint8_t>(stream(), run(onnx::parse_graph(model(graph(g), 25).bytes()), codes)) ==
        Codes{0x3e, 0xdf, 0x35, 0x3e, 0xdf, 0x35});

  const std::vector<Message> zero{tensor("s", ElementType::f32, {}, raw_bytes<float>({0.5F})),
                                  tensor("z", ElementType::i4, {}, raw_bytes<uint8_t>({1}))};
  const Message quantized = node("QuantizeLinear", {"x", "s", "z"}, {"y"});
  CHECK(read<int8_t>(stream(), run(one_node(quantized, ElementType::f32, ElementType::i4, zero), x)) ==
        std::vector<int8_t>{4, -8, 2});
  const Message numbers = node("DequantizeLinear", {"x", "s", "z"}, {"y"});
  CHECK(host_values(run(one_node(numbers, ElementType::i4, ElementType::f32, zero),
                        device_tensor({3}, {4, -8, 2}, DType::i8))) == std::vector<float>{1.5F, -4.5F, 0.5F});
}

TEST_CASE("a branch reads narrow types, and gives none", "[small]") {
  const auto graph_with = [](ElementType given) {
    Graph branch, g;
    branch.nodes = {node("Cast", {"x"}, {"t"}, {attribute("to", static_cast<int64_t>(given))})};
    branch.outputs = {value("t", given, {"n"})};
    g.inputs = {value("x", ElementType::f8e5m2, {"n"}), value("c", ElementType::boolean, {})};
    g.outputs = {value("y", given, {"n"})};
    g.nodes = {
        node("If", {"c"}, {"y"},
             {graph_attribute("then_branch", graph(branch)), graph_attribute("else_branch", graph(branch))})};
    return onnx::parse_graph(model(graph(g), 25).bytes());
  };
  const Model made(graph_with(ElementType::f32));
  const Model::Tensors y = made.run(stream(), {{"x", device_tensor({2}, {0x3c, 0xc1}, DType::u8)},
                                               {"c", device_tensor({}, {1}, DType::boolean)}});
  CHECK(host_values(y.at("y")) == std::vector<float>{1, -2.5F});
  CHECK_THAT(refusal([&] { graph_with(ElementType::f8e4m3fn); }),
             Catch::Contains("'t' of a body is float8e4m3fn"));
}

TEST_CASE("what would compute with narrow types is refused by name", "[small]") {
  const auto complaint = [](const Message& node, ElementType from, ElementType to) {
    return refusal([&] { one_node(node, from, to); });
  };
  CHECK_THAT(complaint(node("Add", {"x", "x"}, {"y"}), ElementType::u4, ElementType::u4),
             Catch::Contains("Add, opset 25") && Catch::Contains("input 0 as uint4"));
  CHECK_THAT(complaint(node("Identity", {"x"}, {"y"}), ElementType::u4, ElementType::u8),
             Catch::Contains("'y' is declared as uint8 and is uint4"));
  CHECK_THAT(complaint(cast(ElementType::u8), ElementType::f32, ElementType::f8e5m2),
             Catch::Contains("'y' is declared as float8e5m2 and is another type"));
  const Tensor x = device_tensor({1}, {1});
  const auto refused = [&](const Attributes& attributes) {
    return refusal([&] { result_of<uint8_t>("encode", x, attributes); });
  };
  CHECK_THAT(refused({{"format", "f9"}}), Catch::Contains("'f9' is not one of f4e2m1"));
  CHECK_THAT(refused({{"format", "i4"}}), Catch::Contains("x is f32, i4 is made of integers"));
  CHECK_THAT(refused({{"format", "f8e8m0"}, {"rounding", "sideways"}}), Catch::Contains("'sideways'"));
  CHECK_THAT(refusal([&] {
               result_of<float>("decode", x, {{"format", "f8e5m2"}});
             }),
             Catch::Contains("codes are f32, must be u8"));
}
