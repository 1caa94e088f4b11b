// Counts of elements against plain loops.
#include <dlprim/copy.hpp>
#include <dlprim/histogram.hpp>

#include <cmath>
#include <limits>

#include "cases/indexing.hpp"
#include "catch.hpp"

using namespace dlprim;
using namespace dlprim::test;

namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInf = std::numeric_limits<float>::infinity();

Values counted(const Values& x, const Values& weights, int64_t bins) {
  Values result(static_cast<size_t>(bins));
  for (size_t i = 0; i < x.size(); i++)
    if (x[i] >= 0 && x[i] < static_cast<double>(bins))
      result[static_cast<size_t>(x[i])] += weights.empty() ? 1 : weights[i];
  return result;
}

/// Numbers from `low` to `high`, and weights that add up exactly.
void check(const Shape& shape, int64_t bins, DType dtype, DType y_dtype, Placing placing, int low, int high) {
  const std::string text = "x=" + to_string(shape) + " bins=" + std::to_string(bins) + " " + name_of(dtype) +
                           " " + name_of(y_dtype) + " " + name_of(placing);
  if (!is_selected(text)) return;
  INFO(again(text));
  Rng rng(21);
  std::vector<float> values;
  for (int64_t i = 0; i < element_count(shape); i++)
    values.push_back(static_cast<float>(rng.integer(low, high)));
  const Tensor x = placed(placing, shape, values, dtype),
               weights = placed(placing, shape, integers(element_count(shape), rng),
                                is_floating(y_dtype) ? y_dtype : DType::f32);
  for (const char* name : {"parts", "atomics"}) {
    INFO("engine " << name);
    const Guarded y({bins}, {2}, y_dtype);
    bincount(stream(), x, {}, y.tensor(), engine(name));
    CHECK(deviation(host_values(y.tensor()), counted(values_of(x), {}, bins)) == 0);
    CHECK(y.intact());
  }
  if (!is_floating(y_dtype)) return;
  for (const char* name : {"parts", "sorted", "exact", "exact:halves=1,narrow=1"}) {
    if (y_dtype == DType::f64 && name[0] == 'e') continue;
    INFO("engine " << name);
    const Guarded y({bins}, {2}, y_dtype), twice({bins}, y_dtype);
    bincount(stream(), x, weights, y.tensor(), engine(name));
    bincount(stream(), x, weights, twice.tensor(), engine(name));
    CHECK(deviation(host_values(y.tensor()), counted(values_of(x), values_of(weights), bins)) == 0);
    CHECK(host_bytes(y.tensor()) == host_bytes(twice.tensor()));
    CHECK((y.intact() && twice.intact()));
  }
}

/// As PyTorch's CPU counts: in x's precision.
template <class T>
Values parted(const Values& x, int64_t bins, T low, T high) {
  if (low == high) {
    low = std::numeric_limits<T>::infinity(), high = -low;
    for (double v : x) low = std::min(low, static_cast<T>(v)), high = std::max(high, static_cast<T>(v));
    if (low == high) low -= 1, high += 1;
  }
  Values result(static_cast<size_t>(bins));
  for (double wide : x) {
    const T v = static_cast<T>(wide);
    if (!(v >= low && v <= high)) continue;
    const auto bin = static_cast<int64_t>((v - low) * static_cast<T>(bins) / (high - low));
    result[static_cast<size_t>(std::min(bin, bins - 1))]++;
  }
  return result;
}

void check_range(const Shape& shape, int64_t bins, DType dtype, DType y_dtype, Placing placing,
                 HistogramRange range) {
  const std::string text = "histc x=" + to_string(shape) + " bins=" + std::to_string(bins) + " " +
                           name_of(dtype) + " " + name_of(y_dtype) + " " + name_of(placing) + " " +
                           std::to_string(range.low) + " " + std::to_string(range.high);
  if (!is_selected(text)) return;
  INFO(again(text));
  Rng rng(22);
  const Tensor x = placed(placing, shape, reals(element_count(shape), rng, -2, 2), dtype);
  const Values values = values_of(x);
  for (const char* name : {"parts", "atomics"}) {
    INFO("engine " << name);
    const Guarded y({bins}, y_dtype), twice({bins}, y_dtype);
    histc(stream(), x, range, y.tensor(), engine(name));
    histc(stream(), x, range, twice.tensor(), engine(name));
    CHECK(deviation(host_values(y.tensor()), dtype == DType::f64
                                                 ? parted<double>(values, bins, range.low, range.high)
                                                 : parted<float>(values, bins, static_cast<float>(range.low),
                                                                 static_cast<float>(range.high))) == 0);
    CHECK(host_bytes(y.tensor()) == host_bytes(twice.tensor()));
    CHECK(y.intact());
  }
}

}  // namespace

TEST_CASE("bincount: shapes and numbers of bins", "[small]") {
  check({1}, 1, DType::i64, DType::i64, Placing::row_major, 0, 0);
  check({300}, 7, DType::i64, DType::f32, Placing::row_major, -2, 9);
  check({65, 3}, 1500, DType::i64, DType::f32, Placing::row_major, 0, 1600);
  check({2, 1, 2, 3, 1, 2, 2, 2}, 5, DType::i64, DType::f32, Placing::row_major, 0, 5);
  check({0}, 3, DType::i64, DType::f32, Placing::row_major, 0, 1);
  check({4}, 0, DType::i64, DType::i64, Placing::row_major, 0, 1);
}

TEST_CASE("bincount: dtypes, forms of memory, many elements and many bins") {
  for (DType dtype : {DType::i8, DType::i16}) check({300}, 17, dtype, DType::i32, Placing::row_major, -3, 20);
  check({300}, 17, DType::u8, DType::i64, Placing::row_major, 0, 255);
  check({300}, 2, DType::boolean, DType::i64, Placing::row_major, 0, 1);
  check({300}, 2, DType::i32, DType::i8, Placing::row_major, 0, 9);
  for (DType dtype : {DType::f16, DType::bf16, DType::f64})
    if (dtype != DType::f64 || has_doubles()) check({300}, 40, DType::i32, dtype, Placing::row_major, 0, 40);
  for (Placing placing : kPlacings) check({3, 5, 2, 7}, 9, DType::i32, DType::f32, placing, 0, 9);
  check({100003}, 40, DType::i32, DType::f32, Placing::row_major, 0, 39);
  check({100003}, 20000, DType::i64, DType::f32, Placing::row_major, 0, 19999);
}

TEST_CASE("bincount: exact sums are rounded once") {
  const auto sums = [&](const std::vector<float>& weights, const std::vector<int64_t>& x, int64_t bins) {
    const Guarded y({bins});
    const Shape shape{static_cast<int64_t>(x.size())};
    bincount(stream(), index_tensor(shape, x), device_tensor(shape, weights), y.tensor(), engine("exact"));
    const std::vector<float> result = host_values(y.tensor());
    bincount(stream(), index_tensor(shape, x), device_tensor(shape, weights), y.tensor(),
             engine("exact:halves=1,narrow=1"));
    CHECK(y.intact());
    const std::vector<float> narrow = host_values(y.tensor());
    for (size_t b = 0; b < result.size(); b++)
      CHECK((result[b] == narrow[b] || (std::isnan(result[b]) && std::isnan(narrow[b]))));
    return result;
  };
  // Few bins are in local memory, many are not.
  for (const int64_t bins : {int64_t{7}, int64_t{5000}}) {
    INFO(bins << " bins");
    // From the largest weights to the smallest, which cancel, and what a sum in f32 would lose.
    std::vector<float> found =
        sums({1e30f, 3e-40f, -1e30f, 1, 3e38f, 3e38f, kInf, -kInf, kInf, 1, kNan, -kInf, 2},
             {0, 0, 0, 1, 1, 1, 2, 3, 4, 4, 5, 4, 6}, bins);
    found.resize(7);
    CHECK(found[0] == 3e-40f);
    CHECK((found[1] == kInf && found[2] == kInf && found[3] == -kInf));
    CHECK((std::isnan(found[4]) && std::isnan(found[5]) && found[6] == 2));
    // Halves go to even numbers, unless the smallest weight of all is there too.
    const float half = std::ldexp(1.0f, -24), least = std::ldexp(1.0f, -149);
    found = sums({1, half, 1, half, least, -1, -half, -1, -half, -least, 1, half, -least},
                 {0, 0, 1, 1, 1, 2, 2, 3, 3, 3, 4, 4, 4}, bins);
    found.resize(5);
    const float next = std::nextafter(1.0f, 2.0f);
    CHECK(found == std::vector<float>{1, next, -1, -next, 1});
  }
  // Sums of whole multiples of 2^-40 below 2^13 are exact in f64.
  Rng rng(3);
  std::vector<int64_t> x;
  std::vector<float> weights;
  std::vector<double> expected(300, 0.0);
  for (int i = 0; i < 50001; i++) {
    x.push_back(rng.integer(0, 299));
    weights.push_back(std::ldexp(static_cast<float>(rng.integer(-(1 << 23), 1 << 23)),
                                 static_cast<int>(rng.integer(-40, -20))));
    expected[static_cast<size_t>(x.back())] += static_cast<double>(weights.back());
  }
  CHECK(sums(weights, x, 300) == std::vector<float>(expected.begin(), expected.end()));
}

TEST_CASE("bincount: as many bins as are needed", "[small]") {
  const Tensor x = index_tensor({4}, {3, 1, 1, 0}), none(stream(), {0}, DType::i32),
               weights = device_tensor({4}, {0.5f, 1, 2, 4}, DType::f16);
  CHECK(read<int64_t>(stream(), bincount(stream(), x, {}, 0)) == std::vector<int64_t>{1, 2, 0, 1});
  CHECK(read<int64_t>(stream(), bincount(stream(), x, {}, 6)) == std::vector<int64_t>{1, 2, 0, 1, 0, 0});
  CHECK(read<float>(stream(), bincount(stream(), x, weights, 0)) == std::vector<float>{4, 3, 0, 0.5f});
  CHECK(bincount(stream(), none, {}, 0).shape() == Shape{0});
  CHECK(read<int64_t>(stream(), bincount(stream(), none, {}, 2)) == std::vector<int64_t>{0, 0});
  CHECK(error_of<ValidationError>([&] {
          bincount(stream(), index_tensor({2}, {1, -4}), {}, 0);
        }) == "x: the element -4 is below 0");
}

TEST_CASE("histc: ranges, given and from data", "[small]") {
  check_range({300}, 10, DType::f32, DType::f32, Placing::row_major, {-1, 1});
  check_range({300}, 7, DType::f32, DType::i64, Placing::row_major, {});
  check_range({1}, 4, DType::f32, DType::f32, Placing::row_major, {});
  check_range({5, 3, 7}, 1, DType::f32, DType::f32, Placing::row_major, {0.25, 9});
}

TEST_CASE("histc: dtypes, forms of memory, many elements and many bins") {
  for (DType dtype : {DType::f16, DType::bf16, DType::f64})
    if (dtype != DType::f64 || has_doubles())
      check_range({3, 501}, 33, dtype, dtype == DType::f64 ? DType::f64 : DType::f32, Placing::row_major,
                  {-1.5, 1.5});
  for (Placing placing : kPlacings) check_range({3, 5, 2, 7}, 9, DType::f32, DType::i32, placing, {});
  check_range({100003}, 100, DType::f32, DType::f32, Placing::row_major, {});
  check_range({100003}, 20000, DType::f32, DType::i64, Placing::row_major, {-1, 2});
}

TEST_CASE("histc: elements at the bins' ends, and special values", "[small]") {
  const Guarded y({4}, DType::i32);
  const auto counts = [&](const std::vector<float>& values, const HistogramRange& range) {
    const Tensor x = device_tensor({static_cast<int64_t>(values.size())}, values);
    histc(stream(), x, range, y.tensor(), engine("atomics"));
    const std::vector<float> found = host_values(y.tensor());
    histc(stream(), x, range, y.tensor(), engine("parts"));
    CHECK(host_values(y.tensor()) == found);
    CHECK(y.intact());
    return found;
  };
  using Floats = std::vector<float>;
  CHECK(counts({0, 3, 3, 6, 9, 12, 12.5f, -0.5f, kNan, kInf, -kInf, -0.0f}, {0, 12}) == Floats{2, 2, 1, 2});
  CHECK(counts({5, 5, 5}, {}) == Floats{0, 0, 3, 0});
  CHECK(counts({1, kNan, 2}, {}) == Floats{0, 0, 0, 0});
  CHECK(counts({1, kInf, 2}, {}) == Floats{0, 0, 0, 0});
  CHECK(counts({}, {}) == Floats{0, 0, 0, 0});
  CHECK(counts({3e38f, -3e38f, 0}, {0, 0}) == Floats{0, 0, 0, 0});  // wider than f32's numbers
}

TEST_CASE("histc: whole numbers, exactly", "[small]") {
  using Counts = std::vector<int64_t>;
  const auto counts = [&](const std::vector<int64_t>& values, int64_t bins, const HistogramRange& range,
                          DType dtype) {
    const Shape shape{static_cast<int64_t>(values.size())};
    const Tensor x(stream(), shape, dtype);
    if (!values.empty()) copy(stream(), index_tensor(shape, values), x);
    const Guarded y({bins}, DType::i64);
    histc(stream(), x, range, y.tensor(), engine("atomics"));
    const Counts found = read<int64_t>(stream(), y.tensor());
    histc(stream(), x, range, y.tensor(), engine("parts"));
    CHECK(read<int64_t>(stream(), y.tensor()) == found);
    CHECK(y.intact());
    return found;
  };
  for (DType dtype : {DType::i8, DType::i16, DType::i32, DType::i64, DType::u8}) {
    INFO(name_of(dtype));
    CHECK(counts({0, 1, 1, 3}, 4, {0, 3}, dtype) == Counts{1, 2, 0, 1});
    CHECK(counts({0, 1, 1, 3, 4, 100}, 4, {0, 3}, dtype) == Counts{1, 2, 0, 1});
    CHECK(counts({0, 2, 5, 7, 7, 9}, 3, {}, dtype) == Counts{2, 1, 3});
    CHECK(counts({5, 5}, 3, {}, dtype) == Counts{0, 2, 0});
    CHECK(counts({}, 2, {}, dtype) == Counts{0, 0});
  }
  CHECK(counts({-5, -4, 0, 4, 5}, 2, {-5, 5}, DType::i32) == Counts{2, 3});
  CHECK(counts({-5, -4, -2}, 3, {}, DType::i64) == Counts{1, 1, 1});
  CHECK(counts({0, 1, 1}, 2, {}, DType::boolean) == Counts{1, 2});
  // f32 has 24 bits: (2^24 + 1) * 2 / (2^25 + 2) is 1 exactly.
  CHECK(counts({16777216, 16777217}, 2, {0, 33554434}, DType::i32) == Counts{1, 1});
  CHECK(counts({INT32_MIN, -1, 0, INT32_MAX}, 4, {}, DType::i32) == Counts{1, 1, 1, 1});
  CHECK(counts({INT64_MIN, -1, 0, INT64_MAX}, 2, {}, DType::i64) == Counts{2, 2});
  // 2^62 / 3 is no whole number: bin 1 of 3 from 0 to 2^62 begins above it.
  const int64_t third = (int64_t{1} << 62) / 3;
  CHECK(counts({0, third, third + 1, 2 * third, 2 * third + 1, int64_t{1} << 62}, 3, {0, 0x1p62},
               DType::i64) == Counts{2, 2, 2});
}

TEST_CASE("histogram: refusals", "[small]") {
  const Tensor x = index_tensor({2, 3}, {1, 0, 3, 4, 5, 0}), y(stream(), {6}, DType::i64),
               real = device_tensor({2, 3}, {1, 2, 3, 4, 5, 6}), sums(stream(), {6});
  CHECK(refusal([&] { bincount(stream(), x, {}, Tensor()); }) == "y: is not defined");
  CHECK(refusal([&] { bincount(stream(), real, {}, y); }) == "x: dtype f32 must be an integer");
  CHECK(refusal([&] { bincount(stream(), x, {}, x); }) == "y: rank 2 must be 1, shape is [2, 3]");
  CHECK(refusal([&] { bincount(stream(), x, {}, x.reshape({6})); }) == "y: shares memory with x");
  CHECK(refusal([&] { bincount(stream(), x, real.reshape({6}), sums); }) ==
        "weights: shape [6] must be [2, 3]");
  CHECK(refusal([&] { bincount(stream(), x, real, y); }) == "y: dtype i64 must be f32, f16, bf16 or f64");
  CHECK(refusal([&] { bincount(stream(), x, {}, Tensor(stream(), {2}, DType::boolean)); }) ==
        "y: dtype bool counts nothing");
  CHECK(refusal([&] { bincount(stream(), x, real, Tensor(stream(), {(1 << 20) + 1}), engine("exact")); }) ==
        "engine: bincount: exact refused:\n  exact: 1048577 bins are more than 1048576");
  CHECK(refusal([&] { bincount(stream(), x, {}, -1); }) == "minlength: -1 is below 0");
  CHECK(refusal([&] { bincount(stream(), x, {}, y, engine("magic")); }) ==
        "engine: bincount has no engine 'magic'");
  CHECK(refusal([&] {
          histc(stream(), x, {0, 2.5}, y);
        }) == "range: from 0 to 2.5 must be two numbers of i64, as x has i64");
  CHECK(refusal([&] { histc(stream(), Tensor(stream(), {3}, DType::u64), {}, y); }) ==
        "x: dtype u64 has no ranges, i64 has");
  CHECK(refusal([&] { histc(stream(), real, {2, 1}, sums); }) == "range: from 2 to 1 is none");
}
