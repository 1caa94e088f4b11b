// Distinct elements against plain loops over a stable sort.
#include <dlprim/unique.hpp>

#include <cmath>
#include <limits>
#include <numeric>

#include "cases/indexing.hpp"
#include "cases/sort.hpp"
#include "catch.hpp"

using namespace dlprim;
using namespace dlprim::test;

namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

struct Expected {
  Values y, inverse, counts;
};

Expected reference(const Values& x, bool sorts) {
  const auto n = static_cast<int64_t>(x.size());
  std::vector<int64_t> order(x.size());
  std::iota(order.begin(), order.end(), 0);
  if (sorts && n > 0) order = sorted_places(x, {n}, 0, false, n);
  Expected result;
  result.inverse.resize(x.size());
  for (int64_t at : order) {
    const double v = x[static_cast<size_t>(at)];
    if (result.y.empty() || v != result.y.back()) {
      result.y.push_back(v);
      result.counts.push_back(0);
    }
    result.counts.back()++;
    result.inverse[static_cast<size_t>(at)] = static_cast<double>(result.y.size() - 1);
  }
  return result;
}

/// Numbers, and signs of zeros.
bool same_bits(const Tensor& y, const Values& expected) {
  const std::vector<float> values = host_values(y);
  bool same = values.size() == expected.size();
  for (size_t i = 0; same && i < values.size(); i++)
    same = std::isnan(expected[i]) ? std::isnan(values[i])
                                   : values[i] == static_cast<float>(expected[i]) &&
                                         std::signbit(values[i]) == std::signbit(expected[i]);
  return same;
}

/// `limit`: how many different numbers there are.
void check(const Shape& shape, DType dtype, DType index, Placing placing, int limit) {
  for (const char* name : {"chunks", "tiles"})
    for (const bool sorts : {true, false}) {
      const std::string text = "x=" + to_string(shape) + " " + name_of(dtype) + " " + name_of(index) + " " +
                               name_of(placing) + " limit=" + std::to_string(limit) +
                               (sorts ? " sorted" : " consecutive") + " engine=" + name;
      if (!is_selected(text)) continue;
      INFO(again(text));
      Rng rng(31);
      std::vector<float> values = integers(element_count(shape), rng, limit);
      for (float& v : values) {
        if (dtype == DType::u8 || dtype == DType::boolean) v = std::abs(v);
        if (!is_floating(dtype)) continue;
        const int64_t kind = rng.integer(0, 40);
        v = kind == 0 ? kNan : kind == 1 ? -0.0f : kind == 2 ? std::numeric_limits<float>::infinity() : v;
      }
      const Tensor x = placed(placing, shape, values, dtype);
      const Expected expected = reference(values_of(x), sorts);
      const auto found = static_cast<int64_t>(expected.y.size());
      const Guarded y({x.numel()}, {2}, dtype), count({1}, index),
          inverse(shape, strides_in(placing, shape), index), counts({x.numel()}, index);
      const UniqueResults results{y.tensor(), count.tensor(), inverse.tensor(), counts.tensor()};
      if (sorts)
        unique(stream(), x, results, engine(name));
      else
        unique_consecutive(stream(), x, results, engine(name));
      CHECK(host_values(count.tensor())[0] == static_cast<float>(found));
      CHECK(same_bits(y.tensor().slice(0, 0, found), expected.y));
      CHECK(deviation(host_values(inverse.tensor()), expected.inverse) == 0);
      CHECK(deviation(host_values(counts.tensor().slice(0, 0, found)), expected.counts) == 0);
      CHECK((y.intact() && count.intact() && inverse.intact() && counts.intact()));
    }
}

}  // namespace

TEST_CASE("unique: shapes", "[small]") {
  for (const Shape& shape :
       {Shape{1}, Shape{2}, Shape{37}, Shape{3, 5, 7}, Shape{2, 1, 2, 3, 1, 2, 2, 2}, Shape{0, 4}, Shape{}})
    check(shape, DType::f32, DType::i64, Placing::row_major, 4);
}

TEST_CASE("unique: all equal, all different, and more than a chunk") {
  check({300}, DType::f32, DType::i64, Placing::row_major, 0);
  check({300}, DType::f32, DType::i64, Placing::row_major, 100000);
  for (int limit : {0, 50, 1000000}) check({40001}, DType::f32, DType::i64, Placing::row_major, limit);
}

TEST_CASE("unique: dtypes and forms of memory") {
  for (DType dtype : {DType::f16, DType::f64, DType::u8, DType::i64, DType::boolean})
    if (dtype != DType::f64 || has_doubles())
      check({3, 67}, dtype, DType::i32, Placing::row_major, dtype == DType::boolean ? 1 : 9);
  for (Placing placing : {Placing::channels_last, Placing::gaps})
    check({3, 5, 2, 7}, DType::f32, DType::i64, placing, 9);
}

TEST_CASE("unique: of the right size, and only what is wanted", "[small]") {
  const Tensor x = device_tensor({2, 4}, {3, 3, 1, -0.0f, 0, 3, kNan, kNan});
  const UniqueResults all = unique(stream(), x, true, true),
                      row = unique_consecutive(stream(), x, true, true);
  CHECK(same_bits(all.y, {-0.0, 1, 3, kNan, kNan}));
  CHECK(read<int64_t>(stream(), all.inverse) == std::vector<int64_t>{2, 2, 1, 0, 0, 2, 3, 4});
  CHECK(read<int64_t>(stream(), all.counts) == std::vector<int64_t>{2, 1, 3, 1, 1});
  CHECK(all.inverse.shape() == x.shape());
  CHECK(same_bits(row.y, {3, 1, -0.0, 3, kNan, kNan}));
  CHECK(read<int64_t>(stream(), row.inverse) == std::vector<int64_t>{0, 0, 1, 2, 2, 3, 4, 5});
  CHECK(read<int64_t>(stream(), row.counts) == std::vector<int64_t>{2, 1, 2, 1, 1, 1});
  const UniqueResults values = unique(stream(), x);
  CHECK(same_bits(values.y, {-0.0, 1, 3, kNan, kNan}));
  CHECK((!values.inverse.defined() && !values.counts.defined()));
  CHECK(unique(stream(), Tensor(stream(), {0}), true, true).y.shape() == Shape{0});
}

TEST_CASE("unique: what does not fit is dropped but counted, and the same bits twice", "[small]") {
  const Tensor x = device_tensor({6}, {5, 1, 5, 4, 2, 1});
  for (const char* name : {"chunks", "tiles"}) {
    INFO("engine " << name);
    const Guarded y({3}), count({1}, DType::i32), inverse({6}, DType::i32), counts({3}, DType::i32);
    for (int round = 0; round < 2; round++) {
      unique(stream(), x, {y.tensor(), count.tensor(), inverse.tensor(), counts.tensor()}, engine(name));
      CHECK(host_values(y.tensor()) == std::vector<float>{1, 2, 4});
      CHECK(host_values(count.tensor()) == std::vector<float>{4});
      CHECK(host_values(counts.tensor()) == std::vector<float>{2, 1, 1});
      CHECK(host_values(inverse.tensor()) == std::vector<float>{3, 0, 3, 2, 1, 0});
    }
    CHECK((y.intact() && count.intact() && inverse.intact() && counts.intact()));
  }
  // What is behind the results stays.
  const Tensor wide = device_tensor({6}, {9, 9, 9, 9, 9, 9}), count(stream(), {1}, DType::i64);
  unique(stream(), x, {wide, count, {}, {}});
  CHECK(host_values(wide) == std::vector<float>{1, 2, 4, 5, 9, 9});
}

TEST_CASE("unique: refusals", "[small]") {
  const Tensor x = device_tensor({2, 3}, {1, 0, 3, 4, 5, 0}), y(stream(), {6}),
               count = index_tensor({1}, {0}), six = index_tensor({6}, {0, 0, 0, 0, 0, 0});
  const auto refused = [&](const Tensor& from, const UniqueResults& results, const char* name = "auto") {
    return error_of<ValidationError>([&] { unique(stream(), from, results, engine(name)); });
  };
  CHECK(refused({}, {y, count, {}, {}}) == "x: is not defined");
  CHECK(refused(x, {y, {}, {}, {}}) == "count: is not defined");
  CHECK(refused(x, {six, count, {}, {}}) == "y: dtype i64 must be f32");
  CHECK(refused(x, {x, count, {}, {}}) == "y: rank 2 must be 1, shape is [2, 3]");
  CHECK(refused(x, {y, y, {}, {}}) == "count: dtype f32 must be i32 or i64");
  CHECK(refused(x, {y, six, {}, {}}) == "count: shape [6] must be [1]");
  CHECK(refused(x, {y, count, six, {}}) == "inverse: shape [6] must be [2, 3]");
  CHECK(refused(x, {y, count, {}, Tensor(stream(), {6}, DType::i32)}) == "counts: dtype i32 must be i64");
  CHECK(refused(x, {x.reshape({6}), count, {}, {}}) == "y: shares memory with x");
  CHECK(refused(x, {y, count, {}, {}}, "magic") == "engine: there is no engine 'magic'");
}
