// k-th values and medians: every engine by name against std::stable_sort, and their gradient.
#include <dlprim/sort.hpp>

#include <algorithm>
#include <cmath>
#include <limits>

#include "cases/sort.hpp"
#include "catch.hpp"

using namespace dlprim;
using namespace dlprim::test;

namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInf = std::numeric_limits<float>::infinity();
const std::vector<std::string> kEngines = {"rows", "select:group=32", "select:group=32,parts=1", "bitonic"};

struct Case {
  Shape x;
  int axis = -1;
  int64_t k = 1;
  Median median = Median::none;
};

/// Of each row the place of the first element that equals the wanted one.
std::vector<int64_t> reference(const Values& x, const Case& c, int axis) {
  const AxisView view(c.x, axis);
  const std::vector<int64_t> sorted = sorted_places(x, c.x, axis, false, view.size);
  std::vector<int64_t> result;
  for (int64_t o = 0; o < view.outer; o++)
    for (int64_t i = 0; i < view.inner; i++) {
      const auto at = [&](int64_t e) { return static_cast<size_t>((o * view.size + e) * view.inner + i); };
      int64_t nans = 0, k = c.k;
      for (int64_t e = 0; e < view.size; e++) nans += std::isnan(x[at(e)]);
      if (c.median == Median::median) k = nans ? view.size - nans + 1 : (view.size + 1) / 2;
      if (c.median == Median::nan_median) k = nans == view.size ? 1 : (view.size - nans + 1) / 2;
      const double wanted = x[at(sorted[at(k - 1)])];
      int64_t first = 0;
      while (std::isnan(wanted) ? !std::isnan(x[at(first)]) : x[at(first)] != wanted) first++;
      result.push_back(first);
    }
  return result;
}

void run(const Case& c, const Tensor& x, const Tensor& y, const Tensor& indices, const Options& options) {
  if (c.median == Median::none)
    kth_value(stream(), x, c.k, c.axis, y, indices, options);
  else if (c.median == Median::median)
    median(stream(), x, c.axis, y, indices, options);
  else
    nan_median(stream(), x, c.axis, y, indices, options);
}

void check(const Case& c, DType dtype, Placing placing, const std::string& name, int limit = 40) {
  const std::string text = "x=" + to_string(c.x) + " axis=" + std::to_string(c.axis) +
                           " k=" + std::to_string(c.k) +
                           " median=" + std::to_string(static_cast<int>(c.median)) + " " + name_of(dtype) +
                           " " + name_of(placing) + " engine=" + name;
  if (!is_selected(text)) return;
  INFO(again(text));
  Rng rng(41);
  std::vector<float> values = integers(element_count(c.x), rng, dtype == DType::boolean ? 1 : limit);
  for (float& v : values) {
    if (dtype == DType::u8 || dtype == DType::boolean) v = std::abs(v);
    if (!is_floating(dtype)) continue;
    const int64_t kind = rng.integer(0, 60);
    v = kind == 0 ? kNan : kind == 1 ? -kNan : kind == 2 ? -0.0f : kind == 3 ? kInf : kind == 4 ? -kInf : v;
  }
  const Tensor x = placed(placing, c.x, values, dtype);
  const Values all = values_of(x);
  const int axis = c.axis < 0 ? c.axis + c.x.size() : c.axis;
  Shape shape = c.x;
  shape[axis] = 1;
  const std::vector<int64_t> places = reference(all, c, axis);
  const Guarded y(shape, strides_in(placing, shape), dtype),
      indices(shape, strides_in(placing, shape), DType::i64), twice(shape, dtype);
  run(c, x, y.tensor(), indices.tensor(), engine(name));
  run(c, x, twice.tensor(), indices.tensor(), engine(name));
  CHECK(read<int64_t>(stream(), indices.tensor()) == places);
  const Values expected = taken_at(all, c.x, axis, places, 1);
  const std::vector<float> found = host_values(y.tensor());
  for (size_t e = 0; e < expected.size(); e++)
    CHECK((std::isnan(expected[e]) ? std::isnan(found[e])
                                   : found[e] == static_cast<float>(expected[e]) &&
                                         std::signbit(found[e]) == std::signbit(expected[e])));
  CHECK(host_bytes(y.tensor()) == host_bytes(twice.tensor()));
  CHECK((y.intact() && indices.intact()));
}

}  // namespace

TEST_CASE("kth value: shapes, every engine", "[small]") {
  for (const std::string& name : kEngines)
    for (const Case& c : std::vector<Case>{{{1}},
                                           {{2}, 0, 2},
                                           {{37}, 0, 17},
                                           {{5, 1}},
                                           {{3, 70}, 1, 70},
                                           {{2, 9, 5}, 1, 4},
                                           {{2, 1, 2, 3, 1, 2, 2, 2}, 3, 2},
                                           {{0, 4}, 1, 2}})
      check(c, DType::f32, Placing::row_major, name);
}

TEST_CASE("kth value: medians, every engine", "[small]") {
  for (const std::string& name : kEngines)
    for (const Median kind : {Median::median, Median::nan_median})
      for (const Shape& shape : {Shape{1}, Shape{2}, Shape{7, 40}, Shape{40, 9}})
        check({shape, -1, 1, kind}, DType::f32, Placing::row_major, name);
}

TEST_CASE("kth value: long rows, many equal, all different") {
  for (const std::string& name : kEngines)
    for (int limit : {0, 3, 1000000}) {
      if (name == "bitonic") continue;  // not for long rows
      check({{2, 5000}, 1, 2501}, DType::f32, Placing::row_major, name, limit);
      check({{2, 5001}, 1, 1, Median::nan_median}, DType::f32, Placing::row_major, name, limit);
    }
  check({{300, 40}, 1, 1, Median::median}, DType::f32, Placing::row_major, "rows");
  check({{40, 300}, 1, 1, Median::median}, DType::f32, Placing::row_major, "select:group=64");
  check({{1, 40001}, 1, 20000}, DType::f32, Placing::row_major, "auto", 1000000);
}

TEST_CASE("kth value: short rows, along memory and across") {
  for (int n : {1, 8, 9, 16, 64, 128}) {
    check({{301, n}, 1, (n + 1) / 2}, DType::f32, Placing::row_major, "bitonic", 9);
    check({{2, n, 301}, 1, 1, Median::nan_median}, DType::f32, Placing::row_major, "bitonic", 9);
  }
  check({{70, 130}, 0, 1, Median::median}, DType::bf16, Placing::row_major, "bitonic", 9);
}

TEST_CASE("kth value: dtypes and forms of memory") {
  for (DType dtype : {DType::f16, DType::bf16, DType::f64, DType::i8, DType::u8, DType::i16, DType::i32,
                      DType::i64, DType::boolean})
    for (const char* name : {"rows", "bitonic"})
      check({{3, 77}, 1, 1, Median::median}, dtype, Placing::row_major, name);
  check({{3, 77}, 1, 1, Median::nan_median}, DType::f64, Placing::row_major, "select:group=32");
  check({{3, 77}, 1, 1, Median::nan_median}, DType::u8, Placing::row_major, "select:group=32,parts=1");
  for (Placing placing : {Placing::channels_last, Placing::gaps}) {
    check({{3, 50, 2, 3}, 1, 7}, DType::f32, placing, "rows");
    if (placing == Placing::gaps) check({{3, 50, 2, 3}, 1, 7}, DType::f32, placing, "select:group=32");
    check({{3, 50, 2, 3}, 1, 7}, DType::f32, placing, "bitonic");
  }
}

TEST_CASE("kth value: NaNs", "[small]") {
  const Tensor x = device_tensor(
      {4, 5}, {1, kNan, 2, kNan, 3, kNan, kNan, kNan, kNan, kNan, 5, 4, 3, 2, -1, 1, 2, kNan, 4, 3});
  const auto found = [&](Median kind, const std::string& name) {
    const Tensor y(stream(), {4, 1}), indices(stream(), {4, 1}, DType::i64);
    run({{4, 5}, 1, 4, kind}, x, y, indices, engine(name));
    std::vector<float> all = host_values(y), places = host_values(indices);
    all.insert(all.end(), places.begin(), places.end());
    return all;
  };
  for (const std::string& name : kEngines) {
    INFO("engine " << name);
    CHECK(deviation(found(Median::none, name), Values{kNan, kNan, 4, 4, 1, 0, 1, 3}) == 0);
    CHECK(deviation(found(Median::median, name), Values{kNan, kNan, 3, kNan, 1, 0, 2, 2}) == 0);
    CHECK(deviation(found(Median::nan_median, name), Values{2, kNan, 3, 2, 2, 0, 2, 1}) == 0);
  }
}

TEST_CASE("kth value: values or indices alone", "[small]") {
  const Tensor x = device_tensor({2, 5}, {3, 1, 4, 1, 5, 9, 2, 6, 5, 3});
  for (const char* name : {"rows", "select:group=32", "bitonic"}) {
    INFO("engine " << name);
    const Guarded y({2, 1}), indices({2, 1}, DType::i32);
    kth_value(stream(), x, 2, 1, y.tensor(), {}, engine(name));
    median(stream(), x, 1, {}, indices.tensor(), engine(name));
    CHECK(host_values(y.tensor()) == std::vector<float>{1, 3});
    CHECK(host_values(indices.tensor()) == std::vector<float>{0, 3});
    CHECK((y.intact() && indices.intact()));
  }
}

TEST_CASE("kth value: all bits of 64-bit integers count", "[small]") {
  Rng rng(5);
  std::vector<int64_t> x(200);
  for (int64_t& v : x) v = static_cast<int64_t>(rng.next());
  x[17] = std::numeric_limits<int64_t>::min();
  const Tensor wide(context(), {200}, DType::i64), y(context(), {1}, DType::i64);
  write(stream(), wide, x);
  std::vector<int64_t> sorted = x;
  std::sort(sorted.begin(), sorted.end());
  for (int64_t k : {1, 77, 200}) {
    kth_value(stream(), wide, k, 0, y);
    CHECK(read<int64_t>(stream(), y)[0] == sorted[static_cast<size_t>(k - 1)]);
  }
}

TEST_CASE("kth value: the gradient is sort's", "[small]") {
  Rng rng(17);
  std::vector<float> at(30);  // all different, farther apart than the step
  for (size_t e = 0; e < at.size(); e++) at[e] = static_cast<float>(e * 7 % 30) * 0.1f;
  const std::vector<float> weights = reals(3, rng);
  const Tensor x = device_tensor({3, 10}, at), y(context(), {3, 1}), indices(context(), {3, 1}, DType::i64);
  const Guarded dx({3, 10});
  median(stream(), x, 1, y, indices);
  sort_backward(stream(), device_tensor({3, 1}, weights), indices, 1, dx.tensor());
  const auto loss = [&](const Values& v) {
    const Values medians = taken_at(v, {3, 10}, 1, reference(v, {{3, 10}, 1, 1, Median::median}, 1), 1);
    return medians[0] * weights[0] + medians[1] * weights[1] + medians[2] * weights[2];
  };
  const std::vector<float> gradient = host_values(dx.tensor());
  for (size_t e = 0; e < at.size(); e++)
    CHECK(gradient[e] == Approx(numeric_gradient(loss, values_of(x), e)).margin(1e-6));
}

TEST_CASE("kth value: refusals", "[small]") {
  const Tensor x(context(), {2, 6}), y(context(), {2, 1}), indices(context(), {2, 1}, DType::i32);
  const auto refused = [&](const Tensor& from, int64_t k, const Tensor& to, const Tensor& places,
                           const std::string& name = "auto") {
    return error_of<ValidationError>([&] { kth_value(stream(), from, k, 1, to, places, engine(name)); });
  };
  CHECK(refused({}, 1, y, {}) == "x: is not defined");
  CHECK(refused(x, 1, {}, {}) == "y: neither values nor indices are wanted");
  CHECK(refused(x, 0, y, {}) == "k: 0 is below 1");
  CHECK(refused(x, 7, y, {}) == "k: 7 does not lie in [1, 6]");
  CHECK(refused(x, 1, Tensor(context(), {2, 2}), {}) == "y: size 2 along axis 1 must be 1");
  CHECK(refused(x, 1, y, y) == "indices: dtype f32 must be i32 or i64");
  CHECK(refused(Tensor(context(), {2, 0}), 1, y, {}) == "k: 1 is more than the 0 elements along axis 1");
  CHECK(refused(x, 1, x.slice(1, 0, 1), {}) == "y: shares memory with x");
  CHECK(refused(Tensor(context(), {2, 5000}), 1, y, {}, "bitonic")
            .find("engine: kth_value: bitonic refused:\n  bitonic: rows of 5000 are longer than ") == 0);
  CHECK(refused(x, 1, y, {}, "magic") == "engine: kth_value has no engine 'magic'");
}
