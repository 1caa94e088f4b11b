// GEMM of infinities, NaN, tiny and huge numbers: what engines cannot hold that take numbers apart.
#include <cmath>
#include <cstring>
#include <limits>

#include "cases/gemm.hpp"
#include "catch.hpp"

using namespace dlprim;
using namespace dlprim::test;

namespace {

using Vector = GemmDesc::Vector;
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

}  // namespace

TEST_CASE("gemm: tiny, huge and denormal numbers lose no more than in a chain of multiply-adds", "[gemm]") {
  static constexpr std::pair<float, float> kScales[] = {
      {0x1p-110f, 1}, {0x1p-120f, 0x1p100f}, {0x1p-140f, 0x1p120f}, {0x1p-70f, 0x1p-62f},
      {1, 0x1p-126f}, {0x1p127f, 0x1p-20f},  {0x1p-64f, 0x1p-64f}};
  for (const std::string& engine : serving_gemm_engines())
    for (const auto& [a_scale, b_scale] : kScales) {
      const GemmCase x(70, 90, 100, false, true);
      GemmData data = real_data(x);
      for (float& v : data.a) v *= a_scale;
      for (float& v : data.b) v *= b_scale;
      data.a[5] = 0.25f;  // and an ordinary number among them
      const std::vector<float> values = run_gemm(x, data, gemm_engine(engine)).values;
      const std::vector<double> expected = gemm_reference(x, data);
      double worst = 0;  // of error / bound
      for (int64_t i = 0; i < x.m; i++)
        for (int64_t j = 0; j < x.n; j++) {
          double magnitude = 0;
          for (int64_t l = 0; l < x.k; l++)
            magnitude += std::abs(static_cast<double>(data.a[static_cast<size_t>(i * x.k + l)]) *
                                  data.b[static_cast<size_t>(l * x.n + j)]);
          // As below; and half a denormal for each product.
          const double bound = static_cast<double>(x.k + 3) * (0x1p-24 * magnitude + 0x1p-150);
          const auto at = static_cast<size_t>(i * x.n + j);
          worst = std::max(worst, std::abs(values[at] - expected[at]) / bound);
        }
      INFO("engine=" << engine << " a*" << a_scale << " b*" << b_scale << " error / bound " << worst);
      CHECK(worst <= 1);
    }
}

// Engines that take numbers apart compute what they cannot hold otherwise: single sums, strips of a tile, or
// all tiles.
TEST_CASE("gemm: tiny numbers in a row, a strip, a column, and everywhere", "[gemm]") {
  const auto is_tiny = [](const std::string& kind, int64_t i, int64_t j) {
    if (kind == "a row of A") return i == 141;
    if (kind == "rows of A") return i % 3 == 0;
    if (kind == "a strip of A") return i >= 20 && i < 37;
    if (kind == "a column of B") return j == 70;
    return kind == "A" || (kind == "B" && j >= 0);
  };
  for (const char* kind : {"a row of A", "rows of A", "a strip of A", "a column of B", "A", "B"})
    for (const bool transposed_a : {false, true})
      for (const bool transposed_b : {false, true}) {
        const GemmCase x(270, 210, 133, transposed_a, transposed_b);
        GemmData data = real_data(x);
        for (int64_t i = 0; i < x.m; i++)
          for (int64_t l = 0; l < x.k; l++)
            if (is_tiny(kind, i, -1)) data.a[static_cast<size_t>(i * x.k + l)] *= 0x1p-128f;
        for (int64_t l = 0; l < x.k; l++)
          for (int64_t j = 0; j < x.n; j++)
            if (is_tiny(kind, -1, j) && kind != std::string("A"))
              data.b[static_cast<size_t>(l * x.n + j)] *= 0x1p-128f;
        GemmData magnitudes = data;
        for (std::vector<float>* v : {&magnitudes.a, &magnitudes.b})
          for (float& number : *v) number = std::abs(number);
        const std::vector<double> expected = gemm_reference(x, data),
                                  magnitude = gemm_reference(x, magnitudes);
        for (const std::string& engine : serving_gemm_engines()) {
          const GemmResult result = run_gemm(x, data, gemm_engine(engine));
          double worst = 0;  // of error / bound
          for (size_t i = 0; i < expected.size(); i++)
            worst = std::max(worst, std::abs(result.values[i] - expected[i]) /
                                        (static_cast<double>(x.k + 3) * (0x1p-24 * magnitude[i] + 0x1p-150)));
          INFO("engine=" << engine << " " << x.text() << " tiny: " << kind << ", error / bound " << worst);
          CHECK(worst <= 1);
          CHECK(result.intact);
          CHECK(result.repeats);
        }
      }
}

TEST_CASE("gemm: infinities and NaN in a row, a strip, a column, and everywhere", "[gemm]") {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const std::pair<const char*, float> kinds[] = {{"a row", kInfinity},     {"a strip", kInfinity},
                                                 {"a column", -kInfinity}, {"rows", -kInfinity},
                                                 {"everywhere", kNaN},     {"everywhere", kInfinity}};
  for (const auto& [kind, number] : kinds)
    for (const bool transposed : {false, true}) {
      GemmCase x(270, 210, 133, transposed, !transposed);
      x.beta = 2;
      x.bias = Vector::row;
      GemmData data = integer_data(x);
      const std::string where = kind;
      for (int64_t i = 0; i < x.m; i++) {
        if (where == "everywhere" ? i < x.m
            : where == "rows"     ? i % 5 == 0
            : where == "a strip"  ? i / 13 == 3
                                  : i == 141 && where == "a row")
          data.a[static_cast<size_t>(i * x.k + (i * 7) % x.k)] = number;
        if (where == "everywhere" && std::isnan(number))
          for (int64_t l = 0; l < x.k; l++) data.a[static_cast<size_t>(i * x.k + l)] = number;
      }
      if (where == "a column") data.b[static_cast<size_t>(5 * x.n + 70)] = number;
      const std::vector<float> expected = rounded(gemm_reference(x, data));
      for (const std::string& engine : serving_gemm_engines()) {
        INFO("engine=" << engine << " " << x.text() << " " << number << " in " << kind);
        const GemmResult result = run_gemm(x, data, gemm_engine(engine));
        CHECK(same(result.values, expected));
        CHECK(result.intact);
      }
    }
}

// gemv serves nothing but these, and so is in no list of engines above.
TEST_CASE("gemm: a matrix times a vector of tiny numbers, infinities and NaN", "[gemm]") {
  for (const bool row : {false, true})
    for (const bool transposed : {false, true})
      for (const char* kind : {"real", "tiny", "infinite", "NaN"}) {
        const GemmCase x(row ? 1 : 210, row ? 210 : 1, 133, transposed, transposed);
        const std::string what = kind;
        GemmData data = real_data(x);
        for (float& v : data.a)
          if (what == "tiny") v *= 0x1p-128f;
        if (what == "infinite") data.a[5] = data.b[5] = std::numeric_limits<float>::infinity();
        if (what == "NaN") data.a[7] = kNaN;
        const GemmResult result = run_gemm(x, data, gemm_engine("gemv"));
        INFO(x.text() << " " << kind);
        CHECK(gemm_differences(x, data, result.values) == 0);
        CHECK(result.intact);
      }
}

TEST_CASE("gemm: infinities and the largest numbers", "[gemm][small]") {
  constexpr float kMost = std::numeric_limits<float>::max(),
                  kInfinity = std::numeric_limits<float>::infinity();
  for (const std::string& engine : serving_gemm_engines()) {
    INFO("engine=" << engine);
    const GemmCase x(14, 37, 10);
    GemmData data = integer_data(x);
    for (int64_t l = 0; l < x.k; l++) data.a[static_cast<size_t>(2 * x.k + l)] = l == 3 ? kMost : 0;
    for (int64_t j = 0; j < x.n; j++) data.b[static_cast<size_t>(3 * x.n + j)] = j % 2 ? -1.0f : 0.5f;
    data.a[5 * 10 + 7] = kInfinity;
    const std::vector<float> values = run_gemm(x, data, gemm_engine(engine)).values;
    CHECK(same(values, rounded(gemm_reference(x, data))));
    CHECK(values[2 * 37 + 1] == -kMost);
    CHECK(!std::isfinite(values[5 * 37]));
  }
}

TEST_CASE("gemm: NaN spreads as far as it must and no further", "[gemm][small]") {
  for (const std::string& engine : serving_gemm_engines()) {
    INFO("engine=" << engine);
    GemmCase x(14, 37, 10);
    GemmData data = integer_data(x);
    data.a[3 * 10 + 4] = kNaN;              // row 3
    data.b[7 * 37 + 36] = kNaN;             // column 36
    const uint32_t every_bit = 0x7fffffff;  // the NaN that GPUs make
    std::memcpy(&data.a[9 * 10 + 1], &every_bit, sizeof every_bit);
    std::memcpy(&data.b[2 * 37 + 11], &every_bit, sizeof every_bit);
    const std::vector<float> values = run_gemm(x, data, gemm_engine(engine)).values;
    const std::vector<float> expected = rounded(gemm_reference(x, data));
    CHECK(same(values, expected));
    CHECK(std::isnan(values[3 * 37]));
    CHECK(!std::isnan(values[4 * 37]));

    x.beta = 1;  // and what C holds is read
    data.c[5 * 37 + 2] = kNaN;
    CHECK(same(run_gemm(x, data, gemm_engine(engine)).values, rounded(gemm_reference(x, data))));
    x.activation = Activation::relu6;  // which passes NaN on
    CHECK(same(run_gemm(x, data, gemm_engine(engine)).values, rounded(gemm_reference(x, data))));
    x.alpha = 0;  // A and B are not read
    CHECK(same(run_gemm(x, data, gemm_engine(engine)).values, rounded(gemm_reference(x, data))));
  }
}
