// Products of quantised tensors as products of i8: results against integers that are summed up here, what is
// left of the graph, and where it stays as it was.
#include <dlprim/net_host.hpp>
#include <dlprim/onnx.hpp>

#include <cmath>
#include <functional>
#include <limits>

#include "cases/onnx_writer.hpp"
#include "cases/rewriting.hpp"
#include "catch.hpp"
#include "core/state.hpp"
#include "support.hpp"

using namespace dlprim;
using namespace dlprim::test;

namespace {

using Integers = std::vector<int64_t>;
constexpr int kNone = NetGraph::kNone;

/// Numbers of i8 or u8, the least and the largest among them.
HostTensor quantised(DType dtype, const Shape& shape, uint64_t seed) {
  const int64_t least = dtype == DType::i8 ? -128 : 0;
  Rng rng(seed);
  Integers numbers(static_cast<size_t>(element_count(shape)));
  for (int64_t& n : numbers)
    n = rng.integer(0, 4) == 0 ? least + 255 * rng.integer(0, 1) : rng.integer(least, least + 255);
  return host_tensor(dtype, shape, numbers);
}
HostTensor full(DType dtype, const Shape& shape, int64_t number) {
  return host_tensor(dtype, shape, Integers(static_cast<size_t>(element_count(shape)), number));
}

/// Where a zero is: left out, 0 of the i8, another number, one for each column, the same at run time.
enum class Zero : uint8_t { none, middle, other, columns, given, given_columns };
bool is_given(Zero z) {
  return z == Zero::given || z == Zero::given_columns;
}
bool is_zero(Zero z, DType dtype) {
  return z == Zero::middle || (z == Zero::none && dtype == DType::i8);
}

HostTensor zeros(Zero zero, DType dtype, int64_t columns) {
  const int64_t middle = dtype == DType::u8 ? 128 : 0;
  if (zero == Zero::columns || zero == Zero::given_columns) return quantised(dtype, {columns}, 77);
  return full(dtype, {}, zero == Zero::middle ? middle : dtype == DType::u8 ? 255 : -128);
}

struct QuantisedCase : RewriteCase {
  DType a = DType::u8, b = DType::i8;
  Zero zero_a = Zero::none, zero_b = Zero::none;
  Shape x_shape{3, 5}, w_shape{5, 4};
  bool weights = true;  ///< w is constant
  bool turned = false;  ///< as ONNX's Gemm: w's memory is [N, K], and a node turns it; with `alpha`
  double alpha = 1;
  HostTensor x, w, zx, zw;

  int given(const HostTensor& tensor, bool at_run_time) {
    if (!at_run_time) return constant(tensor);
    fed.push_back(tensor);
    std::vector<Dimension> sizes(tensor.shape.begin(), tensor.shape.end());
    return g.add_input("x" + std::to_string(fed.size()), tensor.dtype, sizes);
  }
  /// Without scales whole numbers, as ONNX's MatMulInteger.
  int product(int scale_x = kNone, int scale_w = kNone) {
    const int64_t columns = w_shape.back();
    x = quantised(a, x_shape, 1), w = quantised(b, w_shape, 2);
    zx = zeros(zero_a, a, columns), zw = zeros(zero_b, b, columns);
    const auto dequantised = [&](int value, int scale, Zero zero, const HostTensor& numbers, int64_t axis) {
      std::vector<int> inputs{value, scale};
      if (zero != Zero::none) inputs.push_back(given(numbers, is_given(zero)));
      Attributes attributes{{"axis", axis}};
      if (scale == kNone) attributes.emplace("dtype", "i32");
      return g.add("dequantize", inputs, attributes);
    };
    const int left = dequantised(given(x, true), scale_x, zero_a, zx, -2);
    if (!turned) return g.add("matmul", {left, dequantised(given(w, !weights), scale_w, zero_b, zw, -1)});
    const int right = dequantised(given(transposed(w), !weights), scale_w, zero_b, zw, 0);
    return g.add("matmul", {left, g.add("transpose", {right}, {{"axes", Integers{1, 0}}})},
                 {{"alpha", alpha}});
  }
  static HostTensor transposed(const HostTensor& matrix) {
    const Integers from = integers_of(matrix);
    const int64_t rows = matrix.shape[0], columns = matrix.shape[1];
    Integers to(from.size());
    for (int64_t i = 0; i < rows * columns; i++)
      to[static_cast<size_t>(i % columns * rows + i / columns)] = from[static_cast<size_t>(i)];
    return host_tensor(matrix.dtype, {columns, rows}, to);
  }

  /// Its elements, and the sums of magnitudes that they are made of.
  Integers expected(Integers* magnitudes = nullptr) const {
    const int64_t m = x_shape[x_shape.size() - 2], k = x_shape.back(), n = w_shape.back();
    const auto batches = [](const Shape& s) {
      Shape front = s;
      front[s.size() - 1] = front[s.size() - 2] = 1;
      return front;
    };
    const Shape batch = broadcast_shapes(batches(x_shape), batches(w_shape));
    const Integers xs = integers_of(x), ws = integers_of(w), zxs = integers_of(zx), zws = integers_of(zw);
    const auto place = [&](const Shape& own, int64_t of) {  // of a matrix among those of an operand
      const Shape front = batches(own);
      int64_t at = 0, step = 1;
      for (int i = batch.size() - 1; i >= 0; of /= batch[i], i--) {
        const int axis = i - (batch.size() - front.size());
        if (axis < 0) continue;
        at += of % batch[i] % front[axis] * step, step *= front[axis];
      }
      return at;
    };
    const auto zero = [](Zero z, const Integers& all, int64_t column) {
      return z == Zero::none ? 0 : all[all.size() == 1 ? 0 : static_cast<size_t>(column)];
    };
    Integers y;
    for (int64_t i = 0; i < element_count(batch); i++)
      for (int64_t row = 0; row < m; row++)
        for (int64_t column = 0; column < n; column++) {
          int64_t sum = 0, magnitude = 0;
          for (int64_t j = 0; j < k; j++) {
            const auto at_x = static_cast<size_t>((place(x_shape, i) * m + row) * k + j),
                       at_w = static_cast<size_t>((place(w_shape, i) * k + j) * n + column);
            const int64_t term = (xs[at_x] - zero(zero_a, zxs, 0)) * (ws[at_w] - zero(zero_b, zws, column));
            sum += term, magnitude += std::abs(term);
          }
          y.push_back(sum);
          if (magnitudes) magnitudes->push_back(magnitude);
        }
    return y;
  }

  /// What the graph gives once the passes ran; `kinds` are left.
  HostTensor after_passes(bool prefers_i8, const std::vector<std::string>& without = {}) {
    g.check();
    detail::Rewritten r;
    r.integer_products = prefers_i8;
    before = run_whole(g, &r);
    detail::run_passes(r, without);
    r.graph.check();
    graph = r.graph;
    kinds = kinds_of(graph);
    return run_whole(graph, nullptr);
  }
  HostTensor run_whole(const NetGraph& of, detail::Rewritten* noted) {
    stream().state().logs = true;
    detail::Slot y = run_by_nodes(of, fed, noted).at(0);
    stream().state().logs = false;
    operators.clear();
    for (const detail::OperatorRecord& record : std::exchange(stream().state().records, {}))
      operators += record.text + "\n";
    return detail::to_host(stream(), y);
  }
  /// The last run multiplied i8, and nothing else.
  bool multiplied_i8() const {
    size_t products = 0, narrow = 0;
    for (size_t at = 0; (at = operators.find("op=gemm ", at)) != std::string::npos; at++) {
      const std::string line = operators.substr(at, operators.find('\n', at) - at);
      products++, narrow += line.find(" dtype=i8 ") != std::string::npos ? 1 : 0;
    }
    return products > 0 && products == narrow;
  }
  std::string kinds, operators;
  HostTensor before;
};

/// The first element that differs, of all; "" if none does.
std::string difference(const HostTensor& y, const Integers& expected) {
  const Integers got = integers_of(y);
  if (got.size() != expected.size()) return std::to_string(got.size()) + " elements";
  for (size_t i = 0; i < got.size(); i++)
    if (got[i] != expected[i])
      return "[" + std::to_string(i) + "] is " + std::to_string(got[i]) + ", not " +
             std::to_string(expected[i]);
  return "";
}

/// Each combination of dtypes and zeros.
void for_all(const std::function<void(QuantisedCase&)>& check) {
  for (DType a : {DType::u8, DType::i8})
    for (DType b : {DType::u8, DType::i8})
      for (Zero za : {Zero::none, Zero::middle, Zero::other, Zero::given})
        for (Zero zb :
             {Zero::none, Zero::middle, Zero::other, Zero::columns, Zero::given, Zero::given_columns}) {
          QuantisedCase c;
          c.a = a, c.b = b, c.zero_a = za, c.zero_b = zb;
          INFO(name_of(a) << " " << name_of(b) << ", zeros " << int(za) << " " << int(zb));
          check(c);
        }
}

HostTensor scale(const Shape& shape, double first) {
  std::vector<double> numbers;
  for (int64_t i = 0; i < element_count(shape); i++) numbers.push_back(first / static_cast<double>(i + 3));
  return host_tensor(DType::f32, shape, numbers);
}

}  // namespace

TEST_CASE("passes: products of whole numbers are of i8, in every dtype and with every zero") {
  for_all([](QuantisedCase& c) {
    c.g.add_output("y", c.product());
    const HostTensor y = c.after_passes(false);
    CHECK(y.dtype == DType::i32);
    CHECK(difference(y, c.expected()) == "");
    CHECK(difference(c.before, c.expected()) == "");
    CHECK(c.multiplied_i8());
    // Only what is asked for: nothing is added up for a zero that is 0.
    int sums = 0;
    for (size_t at = 0; (at = c.kinds.find("reduce", at)) != std::string::npos; at++) sums++;
    CHECK(sums == int(!is_zero(c.zero_a, c.a)) + int(!is_zero(c.zero_b, c.b)));
    c.after_passes(false, {"integers"});
    CHECK(!c.multiplied_i8());
  });
}

TEST_CASE("passes: products of i8 have odd sizes, several matrices, weights of run time") {
  struct Sizes {
    Shape x, w;
  };
  const Sizes all[] = {{{1, 1}, {1, 1}},       {{1, 37}, {37, 19}},    {{33, 70}, {70, 17}},
                       {{2, 3, 5}, {5, 7}},    {{2, 3, 5}, {2, 5, 7}}, {{2, 1, 3, 5}, {4, 5, 1}},
                       {{65, 300}, {300, 40}}, {{3, 4, 9}, {1, 9, 3}}, {{1, 3, 5}, {2, 2, 5, 3}}};
  for (const Sizes& sizes : all)
    for (bool weights : {true, false})
      for (Zero zero : {Zero::middle, Zero::other, Zero::given}) {
        QuantisedCase c;
        c.a = DType::u8, c.b = weights ? DType::i8 : DType::u8;
        c.x_shape = sizes.x, c.w_shape = sizes.w, c.weights = weights, c.zero_a = c.zero_b = zero;
        INFO(to_string(sizes.x) << " " << to_string(sizes.w) << " " << weights << " zero " << int(zero));
        c.g.add_output("y", c.product());
        CHECK(difference(c.after_passes(false), c.expected()) == "");
        CHECK(c.multiplied_i8());
      }
}

TEST_CASE("passes: products of i8 are as deep as i32 allows, and no deeper") {
  const auto deep = [](int64_t depth, Zero za, Zero zb, DType dtype, int64_t number) {
    QuantisedCase c;
    c.a = c.b = dtype, c.zero_a = za, c.zero_b = zb;
    c.x_shape = {1, depth}, c.w_shape = {depth, 1};
    c.g.add_output("y", c.product());
    c.fed[0] = c.x = full(dtype, c.x_shape, number);
    c.w = full(dtype, c.w_shape, number);
    for (auto& [value, constant] : c.g.constants)
      if (constant->shape == c.w_shape) constant = std::make_shared<const HostTensor>(c.w);
    CHECK(difference(c.after_passes(false), c.expected()) == "");
    return c.kinds.find("dequantize") == std::string::npos;
  };
  CHECK(deep(131071, Zero::none, Zero::none, DType::i8, -128));
  CHECK(!deep(131072, Zero::none, Zero::none, DType::i8, 127));
  CHECK(deep(65535, Zero::other, Zero::none, DType::i8, 127));
  CHECK(!deep(65536, Zero::none, Zero::other, DType::i8, 127));
  CHECK(deep(32767, Zero::other, Zero::other, DType::i8, 127));
  CHECK(deep(32767, Zero::none, Zero::none, DType::u8, 255));
  CHECK(!deep(32768, Zero::none, Zero::none, DType::u8, 255));
}

TEST_CASE("passes: floating products of quantised tensors are of i8 where that is faster") {
  for_all([](QuantisedCase& c) {
    c.x_shape = {7, 61}, c.w_shape = {61, 9};
    c.turned = c.zero_a == Zero::other;  // as linear layers are exported
    const HostTensor sx = scale({}, 0.0371), sw = scale({9}, 0.0113);
    c.g.add_output("y", c.product(c.given(sx, c.zero_a == Zero::given), c.constant(sw)));
    const std::vector<double> y = numbers_of(c.after_passes(true)), plain = numbers_of(c.before);
    Integers magnitudes;
    const Integers whole = c.expected(&magnitudes);
    const std::vector<double> columns = numbers_of(sw);
    REQUIRE(y.size() == whole.size());
    for (size_t i = 0; i < y.size(); i++) {
      const double step = numbers_of(sx)[0] * columns[i % 9], exact = static_cast<double>(whole[i]) * step;
      const double apart = 0x1p-24 * 63 * static_cast<double>(magnitudes[i]) * step;
      if (std::fabs(y[i] - exact) > 3.001 * 0x1p-24 * std::fabs(exact)) FAIL(y[i] << " is not " << exact);
      if (std::fabs(plain[i] - exact) > 1.001 * apart) FAIL("in f32 " << plain[i] << " is not " << exact);
    }
    CHECK(c.multiplied_i8());
    CHECK(c.kinds.find("dequantize") == std::string::npos);
    CHECK(numbers_of(c.after_passes(false)).size() == y.size());
    CHECK(!c.multiplied_i8());  // f32 is faster
  });
}

TEST_CASE("passes: what is around a product of i8 is one kernel, and quantises as nodes by themselves do") {
  for (DType dtype : {DType::u8, DType::i8})
    for (const bool whole : {false, true}) {
      // Of i8 with scales of one number each, all tensors but those are whole.
      const Shape columns = dtype == DType::u8 ? Shape{12} : Shape{};
      QuantisedCase c;
      c.x_shape = {11, 64}, c.w_shape = {64, 12};
      c.a = dtype, c.zero_a = Zero::other, c.zero_b = Zero::middle;
      const HostTensor sx = scale({}, 0.0371), sw = scale(columns, 0.0113), sy = scale({}, 0.9);
      int y = kNone;
      if (whole) {  // as QLinearMatMul is imported
        const int rows =
            c.g.add("dequantize", {c.product(), c.constant(sx)}, {{"axis", -2}, {"dtype", "f32"}});
        y = c.g.add("dequantize", {rows, c.constant(sw)}, {{"axis", -1}, {"dtype", "f32"}});
      } else {
        y = c.product(c.constant(sx), c.constant(sw));
        y = c.apply("relu", {c.apply("add", {y, c.constant(scale({12}, 3))})});
      }
      c.g.add_output("y", c.g.add("quantize", {y, c.constant(sy), c.constant(full(dtype, {}, 3))}));
      const Integers fused = integers_of(c.after_passes(true)), plain = integers_of(c.before);
      INFO(name_of(dtype) << " " << whole);
      CHECK(c.kinds.find("matmul pointwise") == c.kinds.size() - 16);
      CHECK(c.multiplied_i8());
      const Integers apart = integers_of(c.after_passes(true, {"pointwise"}));
      CHECK(fused == apart);
      int64_t different = 0;
      for (size_t i = 0; i < fused.size(); i++) {
        CHECK(std::abs(fused[i] - plain[i]) <= 1);  // a neighbour, where f32 rounded otherwise
        different += fused[i] != fused[0] ? 1 : 0;
      }
      CHECK(different > 20);
    }
}

TEST_CASE("passes: products stay as they are where zeros or scales are of rows, and dtypes are others") {
  const auto left = [](const std::function<void(QuantisedCase&)>& build) {
    QuantisedCase c;
    build(c);
    c.after_passes(true);
    return !c.multiplied_i8();
  };
  const HostTensor rows = quantised(DType::i8, {3}, 5);
  const auto pair = [](QuantisedCase& c, std::vector<int> a, std::vector<int> b, const Attributes& of_a,
                       const Attributes& of_b) {
    const int x = c.g.add("dequantize", std::move(a), of_a), w = c.g.add("dequantize", std::move(b), of_b);
    c.g.add_output("y", c.g.add("matmul", {x, w}));
  };
  const Attributes i32_rows{{"axis", 0}, {"dtype", "i32"}}, i32_columns{{"axis", 1}, {"dtype", "i32"}};
  const HostTensor x = quantised(DType::i8, {3, 3}, 1), w = quantised(DType::i8, {3, 3}, 2);
  CHECK(!left([&](QuantisedCase& c) {
    pair(c, {c.given(x, true)}, {c.constant(w), kNone, c.constant(rows)}, i32_rows, i32_columns);
  }));
  CHECK(left([&](QuantisedCase& c) {
    pair(c, {c.given(x, true), kNone, c.constant(rows)}, {c.constant(w)}, i32_rows, i32_columns);
  }));
  CHECK(left([&](QuantisedCase& c) {
    pair(c, {c.given(x, true), kNone, c.constant(rows)}, {c.constant(w)}, i32_columns, i32_columns);
  }));
  CHECK(left([&](QuantisedCase& c) {
    pair(c, {c.given(x, true)}, {c.constant(w), kNone, c.constant(rows)}, i32_rows, i32_rows);
  }));
  CHECK(left([&](QuantisedCase& c) {
    pair(c, {c.given(x, true)}, {c.constant(quantised(DType::u8, {3, 3}, 2)), kNone, c.constant(rows)},
         i32_rows, i32_columns);
  }));
  CHECK(left([&](QuantisedCase& c) {
    c.turned = true, c.alpha = 2;
    c.g.add_output("y", c.product());
  }));
  CHECK(left([&](QuantisedCase& c) {
    const HostTensor wide = full(DType::i16, {3, 3}, 300);
    pair(c, {c.given(x, true)}, {c.constant(wide)}, i32_rows, i32_columns);
  }));
  CHECK(left([&](QuantisedCase& c) {
    const HostTensor blocks = scale({3, 3}, 1);
    pair(c, {c.given(x, true), c.constant(scale({}, 1))}, {c.constant(w), c.constant(blocks)}, {},
         {{"axis", 1}, {"block", 1}});
  }));
}

TEST_CASE("passes: what dequantises and quantises is part of the kernel between, if it broadcasts") {
  for (DType dtype : {DType::f32, DType::f16})
    for (int64_t axis : {-1, 0}) {
      QuantisedCase c;
      // Of powers of 2, so that nothing is rounded but by the quantize.
      const auto steps = [&](const Shape& shape, double first) {
        std::vector<double> numbers;
        for (int64_t i = 0; i < element_count(shape); i++) numbers.push_back(std::ldexp(first, i % 3));
        return c.constant(host_tensor(dtype, shape, numbers));
      };
      const HostTensor x = quantised(DType::i8, {10, 10}, 9);
      int y = c.g.add("dequantize",
                      {c.given(x, true), steps({10}, 0.0625), c.constant(quantised(DType::i8, {10}, 8))},
                      {{"axis", axis}});
      y = c.apply("add",
                  {y, c.apply("neg", {c.g.add("cast", {c.given(x, true)}, {{"dtype", name_of(dtype)}})})});
      c.g.add_output("y", c.g.add("quantize", {y, steps({}, 8)}, {{"dtype", "i8"}, {"bits", 4}}));
      const HostTensor fused = c.after_passes(false);
      INFO(name_of(dtype) << " axis " << axis);
      CHECK(c.kinds == (axis == -1 ? "pointwise" : "dequantize pointwise"));
      CHECK(difference(fused, integers_of(c.before)) == "");
      const Integers all = integers_of(fused);
      CHECK(*std::min_element(all.begin(), all.end()) == -8);
      CHECK(*std::max_element(all.begin(), all.end()) == 7);
    }
}

TEST_CASE("matmul and reduce of whole numbers have results of another dtype") {
  for (DType dtype : {DType::i8, DType::u8}) {
    QuantisedCase c;
    const HostTensor a = quantised(dtype, {3, 200}, 1), b = quantised(dtype, {200, 2}, 2),
                     bias = host_tensor(DType::i32, {2}, Integers{-1000000, 7});
    const int x = c.given(a, true);
    const int y = c.g.add("matmul", {x, c.given(b, true), c.constant(bias)},
                          {{"dtype", "i32"}, {"activation", "relu"}});
    const int sums = c.g.add(
        "reduce", {x}, {{"function", "sum"}, {"axes", Integers{1}}, {"keep_dims", 1}, {"dtype", "i32"}});
    c.g.add_output("y", c.g.add("concat", {y, sums}, {{"axis", 1}}));
    const Integers as = integers_of(a), bs = integers_of(b);
    Integers expected;
    for (size_t m = 0; m < 3; m++)
      for (size_t n = 0; n < 3; n++) {
        int64_t sum = n == 0 ? -1000000 : n == 1 ? 7 : 0;
        for (size_t k = 0; k < 200; k++) sum += as[m * 200 + k] * (n < 2 ? bs[k * 2 + n] : 1);
        expected.push_back(n < 2 ? std::max<int64_t>(0, sum) : sum);
      }
    CHECK(difference(c.run_whole(c.g, nullptr), expected) == "");
    CHECK(c.multiplied_i8() == (dtype == DType::i8));
  }
}

TEST_CASE("a linear layer that was quantised dynamically is imported, and multiplies i8") {
  using namespace onnx_writer;
  constexpr int64_t kRows = 5, kDepth = 40, kColumns = 6;
  const HostTensor w = quantised(DType::i8, {kDepth, kColumns}, 3);
  const Integers ws = integers_of(w);
  const std::vector<float> bias{1, -2, 3, -4, 5, -6};
  Graph graph_of;
  graph_of.nodes = {node("DynamicQuantizeLinear", {"x"}, {"q", "sx", "zx"}),
                    node("MatMulInteger", {"q", "w", "zx", "zw"}, {"whole"}),
                    node("Cast", {"whole"}, {"real"}, {onnx_writer::attribute("to", 1)}),
                    node("Mul", {"sx", "sw"}, {"scale"}),
                    node("Mul", {"real", "scale"}, {"product"}),
                    node("Add", {"product", "bias"}, {"y"})};
  graph_of.initializers = {
      tensor("w", ElementType::i8, {kDepth, kColumns}, raw_bytes(std::vector<int8_t>(ws.begin(), ws.end()))),
      tensor("zw", ElementType::i8, {}, raw_bytes(std::vector<int8_t>{0})),
      tensor("sw", ElementType::f32, {}, raw_bytes(std::vector<float>{0.5F})),
      tensor("bias", ElementType::f32, {kColumns}, raw_bytes(bias))};
  graph_of.inputs = {value("x", ElementType::f32, {kRows, kDepth})};
  graph_of.outputs = {value("y", ElementType::f32, {kRows, kColumns})};
  const Message bytes = model(graph(graph_of));

  // From -100 to 155, both there: whole numbers, with a scale of 1 and a zero of 100.
  Rng rng(4);
  std::vector<float> x;
  for (int64_t i = 0; i < kRows * kDepth; i++) x.push_back(static_cast<float>(rng.integer(-100, 155)));
  x[3] = -100, x[77] = 155;
  std::vector<float> expected;
  for (size_t m = 0; m < kRows; m++)
    for (size_t n = 0; n < kColumns; n++) {
      double sum = 0;
      for (size_t k = 0; k < kDepth; k++)
        sum += x[m * kDepth + k] * static_cast<double>(ws[k * kColumns + n]);
      expected.push_back(static_cast<float>(sum * 0.5 + bias[n]));
    }
  const Tensor given = device_tensor({kRows, kDepth}, x);
  for (bool with : {true, false}) {
    Model made(onnx::parse_graph(bytes.bytes()),
               with ? std::vector<std::string>{} : std::vector<std::string>{"integers"});
    for (int i = 0; i < 4; i++) CHECK(host_values(made.run(stream(), {{"x", given}}).at("y")) == expected);
    std::string plan;
    for (const Model::Plan::Step& step : made.explain(stream(), {{"x", given}}).steps)
      plan += (plan.empty() ? "" : " ") + step.node.kind;
    CHECK(plan == (with ? "dynamic_quantize pointwise pointwise matmul pointwise identity"
                        : "dynamic_quantize dequantize matmul pointwise identity"));
  }
}
