// Places in sorted sequences against counting.
#include <dlprim/searchsorted.hpp>

#include <algorithm>
#include <cmath>
#include <limits>

#include "cases/indexing.hpp"
#include "cases/sort.hpp"
#include "catch.hpp"

using namespace dlprim;
using namespace dlprim::test;

namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInf = std::numeric_limits<float>::infinity();

/// How many of the n elements from `begin` on are below v, or equal where `right`; of a NaN all are.
double place_of(const Values& sorted, size_t begin, int64_t n, double v, bool right) {
  double count = 0;
  for (int64_t i = 0; i < n; i++) {
    const double s = sorted[begin + static_cast<size_t>(i)];
    count += std::isnan(v) || s < v || (right && s == v);
  }
  return count;
}

struct Case {
  Shape x;
  int64_t n;
  bool own = false;  ///< a sequence for each row
};

void check(const Case& c, DType dtype, DType index, Placing placing) {
  const std::string text = "x=" + to_string(c.x) + " n=" + std::to_string(c.n) + (c.own ? " own " : " one ") +
                           name_of(dtype) + " " + name_of(index) + " " + name_of(placing);
  if (!is_selected(text)) return;
  INFO(again(text));
  Rng rng(3);
  Shape shape = c.own ? c.x : Shape{c.n};
  shape[shape.size() - 1] = c.n;
  const int limit = dtype == DType::boolean ? 1 : 40;
  std::vector<float> elements = integers(element_count(shape), rng, limit),
                     wanted = integers(element_count(c.x), rng, limit + 2);
  for (auto* values : {&elements, &wanted})
    for (float& v : *values) {
      if (dtype == DType::u8 || dtype == DType::boolean) v = std::abs(v);
      const int64_t kind = is_floating(dtype) ? rng.integer(0, 40) : 40;
      v = kind == 0 ? kNan : kind == 1 ? kInf : kind == 2 ? -kInf : kind == 3 ? -0.0f : v;
    }
  for (size_t row = 0; row < elements.size(); row += static_cast<size_t>(c.n))
    std::sort(elements.begin() + static_cast<std::ptrdiff_t>(row),
              elements.begin() + static_cast<std::ptrdiff_t>(row + static_cast<size_t>(c.n)), sorts_before);
  const Tensor sorted = placed(c.own ? placing : Placing::row_major, shape, elements, dtype),
               x = placed(placing, c.x, wanted, dtype);
  const Values s = values_of(sorted), v = values_of(x);
  const int64_t row_size = c.x.size() ? c.x[c.x.size() - 1] : 1;
  for (const bool right : {false, true}) {
    Values expected;
    for (size_t i = 0; i < v.size(); i++)
      expected.push_back(place_of(s, c.own ? i / static_cast<size_t>(row_size) * static_cast<size_t>(c.n) : 0,
                                  c.n, v[i], right));
    const Guarded y(c.x, strides_in(placing, c.x), index, 37);
    searchsorted(stream(), sorted, x, right, y.tensor());
    CHECK(deviation(host_values(y.tensor()), expected) == 0);
    CHECK(y.intact());
  }
}

}  // namespace

TEST_CASE("searchsorted: shapes", "[small]") {
  for (const Case& c : std::vector<Case>{{{1}, 1},
                                         {{17}, 2},
                                         {{100}, 37},
                                         {{3, 5, 7}, 64},
                                         {{40}, 1},
                                         {{4, 9}, 0},
                                         {{0, 3}, 5},
                                         {{}, 6},
                                         {{3, 21}, 33, true},
                                         {{2, 3, 5}, 1, true},
                                         {{4, 1}, 9, true},
                                         {{5, 2}, 0, true},
                                         {{2, 1, 2, 3, 1, 2, 2, 3}, 5, true}})
    check(c, DType::f32, DType::i64, Placing::row_major);
}

TEST_CASE("searchsorted: dtypes and forms of memory") {
  for (DType dtype : {DType::f16, DType::bf16, DType::f64, DType::i8, DType::u8, DType::i16, DType::i32,
                      DType::i64, DType::boolean})
    if (dtype != DType::f64 || has_doubles()) check({{3, 21}, 33}, dtype, DType::i32, Placing::row_major);
  for (Placing placing : kPlacings)
    for (bool own : {false, true}) check({{3, 5, 2, 7}, 19, own}, DType::f32, DType::i64, placing);
}

TEST_CASE("searchsorted: many values, long sequences, the same bits twice") {
  check({{20011}, 300}, DType::f32, DType::i64, Placing::row_major);
  check({{4003, 3}, 7, true}, DType::f32, DType::i32, Placing::row_major);
  // All bits of 64-bit integers count.
  Rng rng(6);
  std::vector<int64_t> elements(1000), wanted(500);
  for (auto* values : {&elements, &wanted})
    for (int64_t& v : *values) v = static_cast<int64_t>(rng.next());
  std::copy_n(elements.begin(), 100, wanted.begin());
  elements[3] = wanted[200] = std::numeric_limits<int64_t>::min();
  elements[4] = wanted[201] = std::numeric_limits<int64_t>::max();
  std::sort(elements.begin(), elements.end());
  const Tensor sorted = index_tensor({1000}, elements), x = index_tensor({500}, wanted);
  for (const bool right : {false, true}) {
    std::vector<int64_t> expected;
    for (int64_t v : wanted)
      expected.push_back((right ? std::upper_bound(elements.begin(), elements.end(), v)
                                : std::lower_bound(elements.begin(), elements.end(), v)) -
                         elements.begin());
    const Guarded y({500}, DType::i64), twice({500}, DType::i64);
    searchsorted(stream(), sorted, x, right, y.tensor());
    bucketize(stream(), x, sorted, right, twice.tensor());
    CHECK(read<int64_t>(stream(), y.tensor()) == expected);
    CHECK(host_bytes(y.tensor()) == host_bytes(twice.tensor()));
    CHECK((y.intact() && twice.intact()));
  }
}

TEST_CASE("searchsorted: NaNs, infinities, zeros of both signs", "[small]") {
  const Tensor sorted = device_tensor({6}, {-kInf, -0.0f, 1, 1, kInf, kNan}),
               x = device_tensor({7}, {-kInf, 0, 0.5f, 1, kInf, kNan, std::numeric_limits<float>::max()}),
               y(stream(), {7}, DType::i32);
  searchsorted(stream(), sorted, x, false, y);
  CHECK(host_values(y) == std::vector<float>{0, 1, 2, 2, 4, 6, 4});
  searchsorted(stream(), sorted, x, true, y);
  CHECK(host_values(y) == std::vector<float>{1, 2, 2, 4, 5, 6, 4});
}

TEST_CASE("searchsorted: refusals", "[small]") {
  const Tensor x = device_tensor({2, 3}, {1, 0, 3, 4, 5, 0}), sorted = device_tensor({3}, {0, 1, 2}),
               y = index_tensor({2, 3}, {0, 0, 0, 0, 0, 0});
  CHECK(refusal([&] { searchsorted(stream(), {}, x, false, y); }) == "sorted: is not defined");
  CHECK(refusal([&] { searchsorted(stream(), sorted, x, false, x); }) == "y: dtype f32 must be i32 or i64");
  CHECK(refusal([&] { searchsorted(stream(), sorted, y, false, y); }) == "x: dtype i64 must be f32");
  CHECK(refusal([&] { searchsorted(stream(), sorted, x, false, y.reshape({6})); }) ==
        "y: shape [6] must be [2, 3]");
  CHECK(refusal([&] {
          searchsorted(stream(), device_tensor({1, 3}, {0, 1, 2}), x, false, y);
        }) == "sorted: shape [1, 3] must be [2, 3]");
  CHECK(refusal([&] { searchsorted(stream(), y, y, false, y); }) == "y: shares memory with sorted");
  CHECK(refusal([&] {
          Options other = engine("magic");
          Searchsorted(context(), {sorted, x, y}, other);
        }) == "engine: searchsorted has no engine 'magic', only 'halving'");
}
