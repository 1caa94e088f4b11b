// Sort and top-k: every engine by name against std::stable_sort, and their gradient.
#include <dlprim/recording.hpp>
#include <dlprim/rehearsal.hpp>
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
constexpr DType kEvery[] = {DType::f32, DType::f16, DType::bf16, DType::f64, DType::i8,
                            DType::u8,  DType::i16, DType::i32,  DType::i64, DType::boolean};

struct Case {
  Shape x;
  int axis = -1;
  std::string text() const { return "x=" + to_string(x) + " axis=" + std::to_string(axis); }
};

std::vector<int64_t> places_of(const Tensor& indices) {
  if (indices.dtype() == DType::i64) return read<int64_t>(stream(), indices);
  const std::vector<int32_t> narrow = read<int32_t>(stream(), indices);
  return {narrow.begin(), narrow.end()};
}

/// Whether the engine takes what `desc` says. `lanes` and `bitonic` are for short rows, and say so.
bool serves(const std::string& name, const SortDesc& desc) {
  const std::string refusal = error_of<ValidationError>([&] { Sort(context(), desc, engine(name)); });
  if (refusal == "(nothing was thrown)") return true;
  const Shape& x = desc.x.shape;
  const int64_t n = x[desc.axis < 0 ? desc.axis + x.size() : desc.axis];
  const bool wide = size_of(desc.x.dtype) == 8;
  INFO(refusal);
  REQUIRE(((name == "lanes" && (n > 128 || wide)) || (name == "bitonic" && n > (wide ? 1024 : 2048))));
  return false;
}

/// Few different numbers, so that many are equal; zeros of both signs, infinities and NaNs among the
/// floating.
std::vector<float> values_for(DType dtype, int64_t count, Rng& rng) {
  std::vector<float> values = integers(count, rng, dtype == DType::boolean ? 1 : 40);
  for (float& v : values) {
    if (dtype == DType::u8) v = std::abs(v);
    if (!is_floating(dtype)) continue;
    const int64_t kind = rng.integer(0, 30);
    v = kind == 0 ? kNan : kind == 1 ? -kNan : kind == 2 ? -0.0f : kind == 3 ? kInf : kind == 4 ? -kInf : v;
  }
  return values;
}

/// Bits of the values count too: signs of zeros.
void require_equal(const Tensor& y, const Values& expected) {
  const std::vector<float> values = host_values(y);
  CHECK(values.size() == expected.size());
  if (values.size() != expected.size()) return;
  for (size_t e = 0; e < values.size(); e++) {
    const bool same = std::isnan(expected[e]) ? std::isnan(values[e])
                                              : values[e] == static_cast<float>(expected[e]) &&
                                                    std::signbit(values[e]) == std::signbit(expected[e]);
    if (same) continue;
    FAIL_CHECK("element " << e << " is " << values[e] << ", not " << expected[e]);
    return;
  }
}

void check(const Case& c, bool descending, DType dtype, Placing placing, DType index,
           const std::string& name) {
  const std::string text = c.text() + (descending ? " descending " : " ascending ") + name_of(dtype) + " " +
                           name_of(placing) + " engine=" + name;
  if (!is_selected(text)) return;
  INFO(again(text));
  Rng rng(7);
  const int axis = c.axis < 0 ? c.axis + c.x.size() : c.axis;
  const Tensor x = placed(placing, c.x, values_for(dtype, element_count(c.x), rng), dtype);
  const Values values = values_of(x);
  const int64_t n = c.x[axis];
  const std::vector<int64_t> places = sorted_places(values, c.x, axis, descending, n);
  const Strides strides = strides_in(placing, c.x);
  const Guarded y(c.x, strides, dtype, 37), indices(c.x, strides, index, 37), twice(c.x, strides, dtype, 37),
      indices_twice(c.x, strides, index, 37);
  SortDesc desc;
  desc.x = x;
  desc.y = y.tensor();
  desc.indices = indices.tensor();
  desc.axis = c.axis;
  desc.descending = descending;
  if (!serves(name, desc)) return;
  const SortParams params{c.axis, descending};
  sort(stream(), x, params, y.tensor(), indices.tensor(), engine(name));
  CHECK(places_of(indices.tensor()) == places);
  require_equal(y.tensor(), taken_at(values, c.x, axis, places, n));
  CHECK(y.intact());
  CHECK(indices.intact());
  sort(stream(), x, params, twice.tensor(), indices_twice.tensor(), engine(name));
  CHECK(host_bytes(twice.tensor()) == host_bytes(y.tensor()));
  CHECK(host_bytes(indices_twice.tensor()) == host_bytes(indices.tensor()));
}

const std::vector<std::string> kEngines = {"lanes", "rows", "pieces", "bitonic", "radix:group=32,each=4"};

}  // namespace

TEST_CASE("sort: odd shapes, every engine", "[small]") {
  const std::vector<Case> cases = {{{1}},     {{2}},          {{37}},       {{5, 1}}, {{3, 8}},
                                   {{9, 17}}, {{2, 3, 5}, 1}, {{33, 2}, 0}, {{0, 4}}, {{4, 0}}};
  for (const std::string& name : kEngines)
    for (const Case& c : cases)
      for (bool descending : {false, true})
        check(c, descending, DType::f32, Placing::row_major, DType::i64, name);
}

TEST_CASE("sort: every dtype") {
  // Every kernel takes a compiler up to a few seconds: engines that the device does not choose by itself have
  // the smallest and the largest keys, and so has `radix`, whose passes "long rows" has of other sizes.
  const bool cpu = context().device().kind() == DeviceKind::cpu;
  const std::vector<std::string> full =
      cpu ? std::vector<std::string>{"lanes", "rows", "pieces"} : std::vector<std::string>{"bitonic"};
  for (const std::string& name : kEngines) {
    const bool every = std::find(full.begin(), full.end(), name) != full.end();
    for (DType dtype : kEvery) {
      if (!every && dtype != DType::i8 && dtype != DType::f64) continue;
      // Narrow indices with one of them: their kernels are others, too.
      const DType index = dtype == DType::i8 ? DType::i32 : DType::i64;
      for (bool descending : {false, true})
        check({{5, 67}}, descending, dtype, Placing::row_major, index, name);
    }
  }
}

TEST_CASE("sort: Boost.Compute's, where the library has it") {
  SortDesc desc;
  desc.x = TensorDesc({1}, DType::f32);
  desc.y = desc.x;
  if (Sort(context(), desc).explain().find("without Boost.Compute") != std::string::npos)
    return note_skipped("the library is built without Boost.Compute");
  for (DType dtype : {DType::f32, DType::f16})
    check({{1, 3001}}, dtype == DType::f16, dtype, Placing::row_major, DType::i64, "boost_compute");
  check({{5}}, false, DType::f32, Placing::gaps, DType::i32, "boost_compute");
  const Tensor x = device_tensor({4}, {3, 1, 2, 0}), y = device_tensor({4}, {7, 7, 7, 7});
  const auto work = [&] { sort(stream(), x, {}, y, {}, engine("boost_compute")); };
  {
    const Rehearsal rehearsal;
    work();
  }
  CHECK(host_values(y) == std::vector<float>{7, 7, 7, 7});
  CHECK(error_of<ValidationError>([&] { Recording(stream(), work); }) ==
        "engine: boost_compute enqueues commands that a recording does not see");
  work();
  CHECK(host_values(y) == std::vector<float>{0, 1, 2, 3});
}

TEST_CASE("sort: values or indices alone") {
  Rng rng(2);
  const std::vector<float> values = integers(3 * 50, rng, 9);
  const Tensor x = device_tensor({3, 50}, values);
  const Values wide(values.begin(), values.end());
  const std::vector<int64_t> places = sorted_places(wide, {3, 50}, 1, true, 50);
  for (const char* name : {"auto", "pieces"}) {
    INFO("engine " << name);
    const Guarded y({3, 50}), indices({3, 50}, DType::i32);
    sort(stream(), x, {1, true}, y.tensor(), {}, engine(name));
    argsort(stream(), x, {1, true}, indices.tensor(), engine(name));
    require_equal(y.tensor(), taken_at(wide, {3, 50}, 1, places, 50));
    CHECK(places_of(indices.tensor()) == places);
    CHECK((y.intact() && indices.intact()));
  }
}

TEST_CASE("sort: every form of memory") {
  for (const std::string& name : kEngines)
    for (Placing placing : {Placing::channels_last, Placing::gaps})
      for (int axis : {1, 3}) check({{3, 5, 2, 7}, axis}, true, DType::f32, placing, DType::i64, name);
}

TEST_CASE("sort: eight dimensions that do not merge") {
  // Gaps along each axis: seven steps besides the axis.
  Shape shape{2, 2, 2, 5, 2, 2, 2, 2}, wide;
  for (int64_t size : shape) wide.push_back(size + 1);
  Rng rng(3);
  const std::vector<float> all = integers(element_count(wide), rng, 9);
  const Tensor x = device_tensor(wide, all).as_strided(shape, contiguous_strides(wide), 1);
  const Values values = values_of(x);
  const std::vector<int64_t> places = sorted_places(values, shape, 3, false, 5);
  for (const std::string& name : kEngines) {
    INFO("engine " << name);
    const Guarded y(shape), indices(shape, contiguous_strides(wide), DType::i64);
    sort(stream(), x, {3, false}, y.tensor(), indices.tensor(), engine(name));
    CHECK(places_of(indices.tensor()) == places);
    require_equal(y.tensor(), taken_at(values, shape, 3, places, 5));
    CHECK(indices.intact());
  }
}

TEST_CASE("sort: rows of every length around the engines' limits") {
  for (const char* name : {"lanes", "rows", "pieces"})
    for (int64_t n : {7, 8, 9, 31, 33, 64, 100, 128, 129, 513, 2049, 4096})
      check({{3, n}}, false, DType::f32, Placing::row_major, DType::i64, name);
  for (int64_t n : {9, 100, 1024, 2049})
    check({{3, n}}, false, DType::f32, Placing::row_major, DType::i32, "bitonic");
}

TEST_CASE("sort: long rows") {
  for (const char* name : {"rows", "pieces", "radix:group=32,each=4"})
    for (DType dtype : {DType::f32, DType::f16, DType::f64}) {
      check({{4097}}, true, dtype, Placing::row_major, DType::i64, name);
      check({{3, 40001}}, true, dtype, Placing::row_major, DType::i64, name);
    }
}

TEST_CASE("sort: values alone have the bits that they have beside their places") {
  Rng rng(9);
  std::vector<float> values = integers(3 * 1001, rng, 6);
  for (float& v : values) {
    const int64_t kind = rng.integer(0, 9);
    const float nan = std::numeric_limits<float>::quiet_NaN();
    v = kind == 0 ? nan : kind == 1 ? -nan : kind == 2 ? -0.0f : kind == 3 ? 0.0f : v;
  }
  for (DType dtype : {DType::i8, DType::u8, DType::bf16, DType::f32, DType::i64})
    for (bool descending : {false, true}) {
      INFO(name_of(dtype) << " descending=" << descending);
      std::vector<float> usable = values;
      if (!is_floating(dtype))
        for (float& v : usable) v = std::isnan(v) ? 1 : dtype == DType::u8 ? std::abs(v) : v;
      const Tensor x = placed(Placing::row_major, {3, 1001}, usable, dtype);
      const Guarded y({3, 1001}, dtype), alone({3, 1001}, dtype), indices({3, 1001}, DType::i64);
      const Options options = engine("radix:group=32,each=4");
      sort(stream(), x, {1, descending}, y.tensor(), indices.tensor(), options);
      sort(stream(), x, {1, descending}, alone.tensor(), {}, options);
      CHECK(host_bytes(alone.tensor()) == host_bytes(y.tensor()));
      CHECK((alone.intact() && y.intact()));
    }
}

TEST_CASE("sort: all 32 and all 64 bits of integers count") {
  Rng rng(5);
  std::vector<int64_t> x(3000);
  for (int64_t& v : x) v = static_cast<int64_t>(rng.next());
  x[17] = std::numeric_limits<int64_t>::min();
  x[4] = std::numeric_limits<int64_t>::max();
  std::vector<int64_t> expected = x;
  std::sort(expected.begin(), expected.end());
  std::vector<float> floats(3000);
  for (float& v : floats)
    v = static_cast<float>(std::ldexp(rng.real(-1, 1), static_cast<int>(rng.integer(-149, 127))));
  std::vector<float> floats_expected = floats;
  std::sort(floats_expected.begin(), floats_expected.end());
  const Tensor wide(context(), {3000}, DType::i64);
  write(stream(), wide, x);
  for (const char* name : {"rows", "pieces", "radix:group=32,each=4", "bitonic"}) {
    INFO("engine " << name);
    const Guarded y_wide({3000}, DType::i64), indices({3000}, DType::i64);
    SortDesc desc;
    desc.x = wide;
    desc.y = y_wide.tensor();
    desc.indices = indices.tensor();
    if (serves(name, desc)) {
      sort(stream(), wide, {}, y_wide.tensor(), indices.tensor(), engine(name));
      CHECK(read<int64_t>(stream(), y_wide.tensor()) == expected);
    }
    const Guarded y({3000});
    sort(stream(), device_tensor({3000}, floats), {}, y.tensor(), {}, engine(name));
    CHECK(host_values(y.tensor()) == floats_expected);
  }
}

namespace {

void check_top(const Case& c, int64_t k, bool largest, DType dtype, Placing placing,
               const std::string& name) {
  const std::string text = c.text() + " k=" + std::to_string(k) + (largest ? " largest " : " smallest ") +
                           name_of(dtype) + " " + name_of(placing) + " engine=" + name;
  if (!is_selected(text)) return;
  INFO(again(text));
  Rng rng(11);
  const int axis = c.axis < 0 ? c.axis + c.x.size() : c.axis;
  const Tensor x = placed(placing, c.x, values_for(dtype, element_count(c.x), rng), dtype);
  const Values values = values_of(x);
  Shape shape = c.x;
  shape[axis] = k;
  const std::vector<int64_t> places = sorted_places(values, c.x, axis, largest, k);
  const Strides strides = strides_in(placing, shape);
  const Guarded y(shape, strides, dtype, 37), indices(shape, strides, DType::i64, 37),
      twice(shape, strides, dtype, 37);
  const TopKParams params{c.axis, largest, true};
  top_k(stream(), x, params, y.tensor(), indices.tensor(), engine(name));
  top_k(stream(), x, params, twice.tensor(), indices.tensor(), engine(name));
  CHECK(places_of(indices.tensor()) == places);
  require_equal(y.tensor(), taken_at(values, c.x, axis, places, k));
  CHECK(host_bytes(twice.tensor()) == host_bytes(y.tensor()));
  CHECK((y.intact() && indices.intact()));
}

}  // namespace

TEST_CASE("top-k: every engine, of short and long rows") {
  for (const Case& c : std::vector<Case>{{{1}}, {{3, 40}}, {{2, 3001}}, {{70000}}})
    for (int64_t k : {1, 7, 300}) {
      if (k > c.x.back()) continue;
      check_top(c, k, true, DType::f32, Placing::row_major, "filter");
      check_top(c, k, true, DType::f32, Placing::row_major, "select:group=32");
    }
  for (const char* name : {"lanes", "rows", "pieces"})
    check_top({{3, 40}}, 7, true, DType::f32, Placing::row_major, name);
  check_top({{2, 9000}}, 9000, true, DType::f32, Placing::row_major, "auto");
  check_top({{2, 9000}}, 8000, true, DType::f32, Placing::row_major, "filter");
}

TEST_CASE("top-k: dtypes, and every form of memory") {
  for (DType dtype : kEvery) check_top({{2, 2000}}, 40, false, dtype, Placing::row_major, "filter");
  check_top({{2, 2000}}, 40, false, DType::i64, Placing::row_major, "select:group=32");
  for (Placing placing : {Placing::channels_last, Placing::gaps})
    check_top({{3, 500, 2, 3}, 1}, 5, true, DType::f32, placing, "filter");
  check_top({{3, 500, 2, 3}, 1}, 5, true, DType::f32, Placing::channels_last, "select:group=32");
}

TEST_CASE("top-k: unsorted it has the same elements") {
  Rng rng(8);
  const std::vector<float> values = reals(20000, rng);
  const Tensor x = device_tensor({20000}, values), y(context(), {100});
  for (const char* name : {"filter", "select:group=32"}) {
    INFO("engine " << name);
    const Tensor indices(context(), {100}, DType::i32);
    top_k(stream(), x, {-1, false, false}, y, indices, engine(name));
    std::vector<float> found = host_values(y), expected = values;
    const std::vector<int64_t> places = places_of(indices);
    for (size_t e = 0; e < found.size(); e++) CHECK(values[static_cast<size_t>(places[e])] == found[e]);
    std::sort(found.begin(), found.end());
    std::sort(expected.begin(), expected.end());
    expected.resize(100);
    CHECK(found == expected);
  }
}

TEST_CASE("top-k: none of a row, or of no rows", "[small]") {
  const Guarded nothing({3, 0}), no_rows({0, 2});
  top_k(stream(), device_tensor({3, 5}, std::vector<float>(15)), {}, nothing.tensor());
  top_k(stream(), Tensor(context(), {0, 5}), {}, no_rows.tensor());
  CHECK((nothing.intact() && no_rows.intact()));
}

TEST_CASE("sort's gradient goes where the elements came from") {
  for (DType dtype : {DType::f32, DType::bf16, DType::f64})
    for (Placing placing : kPlacings)
      for (int64_t k : {1, 3, 6}) {
        const Shape shape{3, 6, 2, 2};
        Shape part = shape;
        part[1] = k;
        INFO(name_of(dtype) << " " << name_of(placing) << " k=" << k);
        Rng rng(13);
        const Tensor x = device_tensor(shape, reals(72, rng)), y(context(), part);
        const Tensor indices(context(), part, DType::i32);
        top_k(stream(), x, {1}, y, indices);
        const Tensor dy = placed(placing, part, integers(12 * k, rng), dtype);
        const Guarded dx(shape, strides_in(placing, shape), DType::f32, 37), twice(shape);
        sort_backward(stream(), dy, indices, 1, dx.tensor());
        sort_backward(stream(), dy, indices, 1, twice.tensor());
        const Values expected = put_at(values_of(dy), shape, 1, places_of(indices), k);
        CHECK(deviation(host_values(dx.tensor()), expected) == 0);
        CHECK(host_bytes(dx.tensor()) == host_bytes(twice.tensor()));
        CHECK(dx.intact());
      }
}

TEST_CASE("sort's gradient agrees with finite differences", "[small]") {
  Rng rng(17);
  std::vector<float> at(30);  // all different, farther apart than the step
  for (size_t e = 0; e < at.size(); e++) at[e] = static_cast<float>(e * 7 % 30) * 0.1f;
  const std::vector<float> weights = reals(30, rng);
  const Tensor x = device_tensor({3, 10}, at), y(context(), {3, 10});
  const Tensor indices(context(), {3, 10}, DType::i64);
  const Guarded dx({3, 10});
  sort(stream(), x, {1, true}, y, indices);
  sort_backward(stream(), device_tensor({3, 10}, weights), indices, 1, dx.tensor());
  const auto loss = [&](const Values& v) {
    const Values sorted = taken_at(v, {3, 10}, 1, sorted_places(v, {3, 10}, 1, true, 10), 10);
    double sum = 0;
    for (size_t e = 0; e < sorted.size(); e++) sum += sorted[e] * weights[e];
    return sum;
  };
  const std::vector<float> gradient = host_values(dx.tensor());
  for (size_t e = 0; e < at.size(); e++)
    CHECK(gradient[e] == Approx(numeric_gradient(loss, values_of(x), e)).margin(1e-6));
}

TEST_CASE("sort: what does not fit is refused by name", "[small]") {
  const Tensor x(context(), {2, 6}), y(context(), {2, 6}), indices(context(), {2, 6}, DType::i32);
  const auto refused = [&](const Tensor& from, int axis, const Tensor& to, const Tensor& places,
                           const std::string& name = "auto") {
    return error_of<ValidationError>([&] { sort(stream(), from, {axis}, to, places, engine(name)); });
  };
  CHECK(refused({}, 0, y, {}) == "x: is not defined");
  CHECK(refused(x, 0, {}, {}) == "y: neither values nor indices are wanted");
  CHECK(refused(x, 2, y, {}) == "axis: axis 2 of a tensor of rank 2");
  CHECK(refused(x, 0, y.slice(0, 0, 1), {}) == "y: shape [1, 6] must be [2, 6]");
  CHECK(refused(x, 0, {}, y) == "indices: dtype f32 must be i32 or i64");
  CHECK(refused(x, 0, indices, {}) == "y: dtype i32 must be f32");
  CHECK(refused(x, 0, x, {}) == "y: shares memory with x");
  CHECK(refused(x, 0, y, {}, "magic") == "engine: sort has no engine 'magic'");
  CHECK(refused(Tensor(context(), {2, 200}), 1, Tensor(context(), {2, 200}), {}, "lanes")
            .find("rows of 200 are longer than 128") != std::string::npos);
  CHECK(error_of<ValidationError>([&] { top_k(stream(), x.slice(1, 0, 3), {}, y); }) ==
        "k: 6 is more than the 3 elements along axis 1");
  CHECK(error_of<ValidationError>([&] { sort_backward(stream(), y, y, 1, x); }) ==
        "indices: dtype f32 must be i32 or i64");
  CHECK(error_of<ValidationError>([&] { sort_backward(stream(), y, indices, 1, x.slice(1, 0, 3)); }) ==
        "dx: size 3 along axis 1 must lie in [6, 2147483647)");
  CHECK(error_of<ValidationError>([&] { sort_backward(stream(), y, indices, 1, y); }) ==
        "dx: shares memory with dy");
}
