// Gather, scatter and index_select against plain loops; every engine of scatter by name.
#include <dlprim/gather.hpp>

#include <cmath>
#include <limits>

#include "cases/indexing.hpp"
#include "catch.hpp"

using namespace dlprim;
using namespace dlprim::test;

namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInf = std::numeric_limits<float>::infinity();
/// Those that serve every reduction of f32 but the mean; `winners` reduces nothing.
constexpr const char* kEngines[] = {"columns", "sorted", "local"};
constexpr DType kDTypes[] = {DType::f32, DType::bf16, DType::u8, DType::i32, DType::i64, DType::boolean};

struct Case {
  Shape x, index;
  int axis = 0;
};

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {{1}, {1}, 0},
      {{7}, {13}, 0},
      {{5, 8}, {9, 8}, 0},
      {{5, 8}, {3, 11}, 1},
      {{3, 4, 5}, {3, 6, 5}, 1},
      {{3, 4, 5}, {2, 2, 3}, -1},
      {{2, 3, 2, 2, 1, 2, 2, 3}, {2, 5, 2, 1, 1, 2, 2, 3}, 1},
      {{4, 0}, {4, 0}, 1},
      {{4, 3}, {0, 3}, 0},
      {{0, 3}, {0, 3}, 1},
  };
  return all;
}

std::string text(const Case& c) {
  return "x=" + to_string(c.x) + " index=" + to_string(c.index) + " axis=" + std::to_string(c.axis);
}

int axis_of(const Case& c) {
  return c.axis < 0 ? c.axis + c.x.size() : c.axis;
}

/// Values that every dtype holds.
std::vector<float> numbers(const Shape& shape, DType dtype, Rng& rng) {
  std::vector<float> values = integers(element_count(shape), rng, 9);
  for (float& v : values) v = dtype == DType::boolean ? float(v > 0) : dtype == DType::u8 ? std::abs(v) : v;
  return values;
}

void check_gather(const Case& c, Placing placing, DType dtype, DType index_dtype) {
  INFO(again(text(c)) << " " << name_of(dtype) << " " << name_of(placing) << " " << name_of(index_dtype));
  if (!is_selected(text(c))) return;
  Rng rng(31);
  const Tensor x = placed(placing, c.x, numbers(c.x, dtype, rng), dtype);
  const std::vector<int64_t> numbers = random_indices(element_count(c.index), c.x[axis_of(c)], rng, 100);
  const Tensor index = index_tensor(c.index, numbers, index_dtype);
  const Guarded y(c.index, strides_in(placing, c.index), dtype, 37), again(c.index, dtype);
  gather(stream(), x, index, c.axis, y.tensor());
  const bool cpu = context().device().kind() == DeviceKind::cpu;
  gather(stream(), x, index, c.axis, again.tensor(), engine(cpu ? "direct" : "cpu"));
  CHECK(deviation(host_values(y.tensor()),
                  gather_reference(values_of(x), c.x, numbers, c.index, axis_of(c))) == 0);
  CHECK((y.intact() && again.intact()));
  CHECK(host_bytes(y.tensor()) == host_bytes(again.tensor()));
}

void check_scatter(const Case& c, Placing placing, DType dtype, ScatterParams params, const char* name) {
  INFO(again(text(c)) << " " << name_of(dtype) << " " << name_of(placing)
                      << " reduce=" << static_cast<int>(params.reduce) << " self=" << params.include_self
                      << " engine=" << name);
  if (!is_selected(text(c))) return;
  Rng rng(37);
  const bool product = params.reduce == ScatterReduce::prod;
  std::vector<float> from = numbers(c.index, dtype, rng), old = numbers(c.x, dtype, rng);
  if (product)  // so that products stay exact in every dtype
    for (std::vector<float>* v : {&from, &old})
      for (float& f : *v)
        f = dtype == DType::u8 || dtype == DType::boolean ? float(f != 0) : f > 0 ? 1.0f : -1.0f;
  const Tensor src = placed(placing, c.index, from, dtype), x = device_tensor(c.x, old, dtype);
  const std::vector<int64_t> numbers = random_indices(element_count(c.index), c.x[axis_of(c)], rng, 100);
  const Tensor index = index_tensor(c.index, numbers);
  const Guarded y(c.x, strides_in(placing, c.x), dtype, 37);
  scatter(stream(), x, index, src, c.axis, params, y.tensor(), engine(name));
  Values expected = scatter_reference(values_of(x), scatter_places(c.x, numbers, c.index, axis_of(c)),
                                      values_of(src), params, !is_floating(dtype));
  if (dtype == DType::boolean)
    for (double& v : expected) v = v != 0;
  // Sums are exact. A mean in 32 bits is rounded once.
  const double tolerance = params.reduce == ScatterReduce::mean ? 0x1p-23 + storage_roundoff(dtype) : 0;
  CHECK(deviation(host_values(y.tensor()), expected) <= tolerance);
  CHECK(y.intact());
  const Tensor in_place = device_tensor(c.x, old, dtype);
  scatter(stream(), in_place, index, src, c.axis, params, in_place, engine(name));
  CHECK(host_bytes(in_place) == host_bytes(y.tensor()));
}

}  // namespace

TEST_CASE("gather: all shapes", "[small]") {
  for (const Case& c : cases()) check_gather(c, Placing::row_major, DType::f32, DType::i64);
}

TEST_CASE("gather: dtypes, placings, 32-bit indices", "[small]") {
  for (DType dtype : kDTypes) check_gather(cases()[4], Placing::row_major, dtype, DType::i32);
  for (Placing placing : kPlacings) {
    check_gather(cases()[4], placing, DType::f32, DType::i64);
    check_gather(cases()[6], placing, DType::f16, DType::i32);
  }
}

TEST_CASE("gather: larger than a chunk or a group") {
  check_gather({{70, 33, 65}, {70, 20, 65}, 1}, Placing::row_major, DType::f32, DType::i64);
  check_gather({{300, 70}, {300, 111}, 1}, Placing::channels_last, DType::f16, DType::i32);
}

TEST_CASE("take_along broadcasts", "[small]") {
  Rng rng(5);
  const Tensor x = device_tensor({3, 1, 4}, integers(12, rng));
  const std::vector<int64_t> numbers = random_indices(10, 4, rng);
  const Guarded y({3, 2, 5}), expected({3, 2, 5});
  const Tensor index = index_tensor({1, 2, 5}, numbers);
  take_along(stream(), x, index, 2, y.tensor());
  gather(stream(), x.expand({3, 2, 4}), index.expand({3, 2, 5}), 2, expected.tensor());
  CHECK(host_bytes(y.tensor()) == host_bytes(expected.tensor()));
  const std::vector<float> values = host_values(x);
  std::vector<float> taken;
  for (size_t row = 0; row < 3; row++)
    for (int64_t number : numbers) taken.push_back(values[row * 4 + static_cast<size_t>((number + 4) % 4)]);
  CHECK(host_values(y.tensor()) == taken);
  CHECK(y.intact());
}

TEST_CASE("scatter: all shapes and reductions, each engine") {
  for (const Case& c : cases()) {
    for (const char* name : {"columns", "sorted"})
      check_scatter(c, Placing::row_major, DType::f32, {ScatterReduce::sum, true}, name);
    for (const char* name : {"columns", "sorted", "winners"})
      check_scatter(c, Placing::row_major, DType::f32, {}, name);
  }
  for (size_t i : {3, 4, 6})
    check_scatter(cases()[i], Placing::row_major, DType::f32, {}, "local:columns=4,parts=2");
  for (ScatterReduce reduce :
       {ScatterReduce::prod, ScatterReduce::min, ScatterReduce::max, ScatterReduce::sum})
    for (bool self : {false, true})
      for (const char* name : {"columns", "sorted"})
        check_scatter(cases()[4], Placing::row_major, DType::f32, {reduce, self}, name);
  for (size_t i : {0, 3, 4, 6, 9})
    check_scatter(cases()[i], Placing::row_major, DType::f32, {ScatterReduce::sum, true}, "local");
  for (ScatterReduce reduce : {ScatterReduce::prod, ScatterReduce::min, ScatterReduce::sum})
    check_scatter(cases()[4], Placing::row_major, DType::f32, {reduce, false}, "local");
  for (bool self : {false, true})
    for (const Case& c : {cases()[0], cases()[4], cases()[8]})
      check_scatter(c, Placing::row_major, DType::f32, {ScatterReduce::mean, self}, "sorted");
  for (bool self : {false, true})
    check_scatter(cases()[4], Placing::row_major, DType::f32, {ScatterReduce::mean, self}, "local");
}

TEST_CASE("scatter: dtypes") {
  for (DType dtype : kDTypes) {
    check_scatter(cases()[3], Placing::row_major, dtype, {ScatterReduce::sum, true}, "sorted");
    check_scatter(cases()[3], Placing::row_major, dtype, {ScatterReduce::max, false}, "columns");
    check_scatter(cases()[3], Placing::row_major, dtype, {}, "winners");
  }
  for (DType dtype : {DType::bf16, DType::f16, DType::u8})
    check_scatter(cases()[3], Placing::row_major, dtype, {ScatterReduce::sum, true}, "local");
  for (DType dtype : {DType::bf16, DType::i32, DType::i64, DType::boolean})
    check_scatter(cases()[4], Placing::row_major, dtype, {ScatterReduce::max, false}, "local:columns=2");
  for (DType dtype : {DType::i8, DType::i32, DType::i64, DType::f16})
    check_scatter(cases()[3], Placing::row_major, dtype, {ScatterReduce::mean, false}, "auto");
  for (DType dtype : {DType::i8, DType::i64})
    check_scatter(cases()[3], Placing::row_major, dtype, {ScatterReduce::mean, false}, "local");
}

TEST_CASE("scatter: placings") {
  for (Placing placing : kPlacings)
    for (const Case& c : {cases()[3], cases()[4], cases()[6]}) {
      for (const char* name : kEngines)
        check_scatter(c, placing, DType::f32, {ScatterReduce::sum, true}, name);
      check_scatter(c, placing, DType::f32, {}, "winners");
    }
}

TEST_CASE("scatter: many elements in few places") {
  for (const char* name : kEngines) {
    check_scatter({{3}, {5000}, 0}, Placing::row_major, DType::f32, {ScatterReduce::sum, true}, name);
    check_scatter({{4, 70}, {400, 70}, 0}, Placing::row_major, DType::f32, {ScatterReduce::sum, true}, name);
    check_scatter({{70, 9}, {70, 300}, 1}, Placing::row_major, DType::f32, {ScatterReduce::none, true}, name);
  }
  check_scatter({{70, 9}, {70, 300}, 1}, Placing::row_major, DType::f32, {ScatterReduce::none, true},
                "winners");
  for (const char* name : {"sorted", "local"}) {
    check_scatter({{3}, {5000}, 0}, Placing::row_major, DType::f32, {ScatterReduce::mean, false}, name);
    check_scatter({{1}, {1000}, 0}, Placing::row_major, DType::f32, {ScatterReduce::mean, true}, name);
  }
}

TEST_CASE("scatter: more places than a group holds, more columns than a group has") {
  const ScatterParams params{ScatterReduce::sum, true}, mean{ScatterReduce::mean, false};
  check_scatter({{20001, 3}, {300, 3}, 0}, Placing::row_major, DType::f32, mean, "local");
  check_scatter({{3, 9001}, {3, 300}, 1}, Placing::row_major, DType::f16, params, "local");
  check_scatter({{5, 4101}, {33, 4101}, 0}, Placing::row_major, DType::f32, params, "local");
}

TEST_CASE("scatter: extremes of each place", "[small]") {
  for (size_t i : {0, 4, 6, 8})
    check_scatter(cases()[i], Placing::row_major, DType::f32, {ScatterReduce::max, true}, "extremes");
  for (ScatterReduce reduce : {ScatterReduce::min, ScatterReduce::max})
    check_scatter(cases()[4], Placing::row_major, DType::f16, {reduce, false}, "extremes");
  for (DType dtype : {DType::bf16, DType::u8, DType::boolean})
    check_scatter(cases()[4], Placing::row_major, dtype, {ScatterReduce::min, false}, "extremes");
  check_scatter(cases()[4], Placing::row_major, DType::i32, {ScatterReduce::min, true}, "extremes");
  check_scatter(cases()[4], Placing::channels_last, DType::f32, {ScatterReduce::min, true}, "extremes");
  const Tensor index = index_tensor({6}, {0, 0, 1, 1, 2, 2});
  const Tensor src = device_tensor({6}, {1, kNan, kInf, -kInf, -0.0f, 0});
  for (const char* name : {"extremes", "columns", "local"}) {
    INFO("engine=" << name);
    const auto values = [&](ScatterReduce reduce, bool self) {
      const Guarded y({4});
      scatter(stream(), {}, index, src, 0, {reduce, self}, y.tensor(), engine(name));
      CHECK(y.intact());
      return host_values(y.tensor());
    };
    CHECK(deviation(values(ScatterReduce::min, false), {kNan, -kInf, 0, 0}) == 0);
    CHECK(deviation(values(ScatterReduce::max, false), {kNan, kInf, 0, 0}) == 0);
    CHECK(deviation(values(ScatterReduce::min, true), {kNan, -kInf, 0, 0}) == 0);
  }
  const int32_t least = std::numeric_limits<int32_t>::min(), most = std::numeric_limits<int32_t>::max();
  const Tensor ends(context(), {4}, DType::i32), to(context(), {2}, DType::i32);
  write(stream(), ends, std::vector<int32_t>{least, most, most, least});
  for (ScatterReduce reduce : {ScatterReduce::min, ScatterReduce::max}) {
    write(stream(), to, std::vector<int32_t>{5, least});
    scatter(stream(), to, index_tensor({4}, {0, 0, 0, 1}), ends, 0, {reduce, true}, to, engine("extremes"));
    const int32_t first = reduce == ScatterReduce::min ? least : most;
    CHECK(read<int32_t>(stream(), to) == std::vector<int32_t>{first, least});
  }
}

TEST_CASE("local sums in the order of columns", "[small]") {
  // Real numbers, so that another order would be seen; 90 elements for 4 places, so that many meet in a step.
  Rng rng(47);
  for (int axis : {0, 1}) {
    const Shape shape = axis ? Shape{5, 4} : Shape{4, 5}, index_shape = axis ? Shape{5, 90} : Shape{90, 5};
    const Tensor x = device_tensor(shape, reals(20, rng)), src = device_tensor(index_shape, reals(450, rng));
    const Tensor index = index_tensor(index_shape, random_indices(450, 4, rng, 50), DType::i32);
    for (const char* name : {"local:columns=1", "local:columns=2,parts=2"}) {
      INFO("axis=" << axis << " " << name);
      const ScatterParams params{ScatterReduce::sum, axis == 0};
      const Guarded y(shape), expected(shape);
      scatter(stream(), x, index, src, axis, params, y.tensor(), engine(name));
      scatter(stream(), x, index, src, axis, params, expected.tensor(), engine("columns"));
      CHECK(host_bytes(y.tensor()) == host_bytes(expected.tensor()));
      CHECK(y.intact());
    }
  }
}

TEST_CASE("what is not written keeps its bits", "[small]") {
  // A NaN with a payload in f16, and numbers of i64 that no float holds where floats are written.
  const Tensor index = index_tensor({2, 1}, {0, 0}), src = device_tensor({2, 1}, {1, 2});
  const int64_t large = (int64_t{1} << 53) + 1;
  const Tensor halves(context(), {3, 1}, DType::f16), longs(context(), {3, 1}, DType::i64);
  for (const char* name : {"columns", "sorted", "local", "winners"}) {
    INFO("engine=" << name);
    write(stream(), longs, std::vector<int64_t>{large, large, large});
    const std::vector<uint16_t> bits{0x7e01, 0x7e01, 0x7e01}, expected{0x4000, 0x7e01, 0x7e01};
    write(stream(), halves, bits.data(), halves.bytes());
    scatter(stream(), halves, index, src, 0, {}, halves, engine(name));
    std::vector<uint16_t> after(3);
    read(stream(), halves, after.data(), halves.bytes());
    CHECK(after == expected);
    scatter(stream(), longs, index, src, 0, {}, longs, engine(name));
    CHECK(read<int64_t>(stream(), longs) == std::vector<int64_t>{2, large, large});
  }
}

TEST_CASE("scatter: NaN, infinities and zeros", "[small]") {
  const Tensor index = index_tensor({6}, {0, 0, 1, 1, 2, 2}), x = device_tensor({3}, {0, 0, 0});
  const Tensor src = device_tensor({6}, {1, kNan, kNan, 2, kInf, -kInf});
  for (const char* name : kEngines) {
    INFO("engine=" << name);
    const Guarded y({3});
    const auto values = [&](ScatterReduce reduce, bool self) {
      scatter(stream(), x, index, src, 0, {reduce, self}, y.tensor(), engine(name));
      return host_values(y.tensor());
    };
    CHECK(deviation(values(ScatterReduce::min, false), {kNan, kNan, -kInf}) == 0);
    CHECK(deviation(values(ScatterReduce::max, true), {kNan, kNan, kInf}) == 0);
    CHECK(deviation(values(ScatterReduce::sum, true), {kNan, kNan, kNan}) == 0);
    CHECK(deviation(values(ScatterReduce::none, true), {kNan, 2, -kInf}) == 0);
  }
}

TEST_CASE("sums of 16-bit floats are rounded once", "[small]") {
  // 1024 + 64 times 0.25: each by itself would be lost in bf16.
  std::vector<float> values(65, 0.25f);
  values[0] = 1024;
  const Tensor src = device_tensor({65}, values, DType::bf16);
  const Guarded y({1}, DType::bf16);
  scatter(stream(), {}, index_tensor({65}, std::vector<int64_t>(65, 0)), src, 0, {ScatterReduce::sum, true},
          y.tensor());
  CHECK(host_values(y.tensor()) == std::vector<float>{1040});
}

TEST_CASE("gather's gradient, twice the same and as by finite differences", "[small]") {
  const Shape shape{4, 5}, index_shape{4, 7};
  Rng rng(11);
  const std::vector<int64_t> numbers = random_indices(28, 5, rng, 50);
  const std::vector<float> weights = reals(28, rng);
  const Tensor index = index_tensor(index_shape, numbers), dy = device_tensor(index_shape, weights);
  const Guarded dx(shape), again(shape);
  gather_backward(stream(), dy, index, 1, dx.tensor());
  gather_backward(stream(), dy, index, 1, again.tensor());
  CHECK(host_bytes(dx.tensor()) == host_bytes(again.tensor()));
  CHECK(dx.intact());
  const auto loss = [&](const Values& x) {
    const Values y = gather_reference(x, shape, numbers, index_shape, 1);
    double sum = 0;
    for (size_t i = 0; i < y.size(); i++) sum += y[i] * weights[i];
    return sum;
  };
  const std::vector<float> gradient = host_values(dx.tensor());
  for (size_t i = 0; i < gradient.size(); i++)
    CHECK(gradient[i] == Approx(numeric_gradient(loss, Values(20, 0.5), i)).margin(1e-6));
}

TEST_CASE("index_select, its gradient, and writing slices", "[small]") {
  const Shape shape{3, 6, 4};
  Rng rng(12);
  for (DType dtype : {DType::f32, DType::f16, DType::i8})
    for (int axis : {0, 1, 2}) {
      INFO(name_of(dtype) << " axis=" << axis);
      const std::vector<int64_t> numbers = random_indices(9, shape[axis], rng, 100);
      Shape y_shape = shape, broadcast{1, 1, 1};
      y_shape[axis] = broadcast[axis] = 9;
      const Tensor x = device_tensor(shape, integers(72, rng), dtype);
      const Tensor index = index_tensor({9}, numbers);
      const Tensor all = contiguous(stream(), index.reshape(broadcast).expand(y_shape));
      const std::vector<int64_t> full = read<int64_t>(stream(), all);
      const Guarded y(y_shape, dtype), dx(shape, dtype);
      index_select(stream(), x, index, axis, y.tensor());
      CHECK(deviation(host_values(y.tensor()), gather_reference(values_of(x), shape, full, y_shape, axis)) ==
            0);
      index_select_backward(stream(), y.tensor(), index, axis, dx.tensor());
      const std::vector<int64_t> places = scatter_places(shape, full, y_shape, axis);
      CHECK(
          deviation(host_values(dx.tensor()), scatter_reference(Values(72, 0), places, values_of(y.tensor()),
                                                                {ScatterReduce::sum, true})) == 0);
      index_write(stream(), x, index, y.tensor(), axis, {ScatterReduce::max, true}, dx.tensor());
      CHECK(deviation(host_values(dx.tensor()), scatter_reference(values_of(x), places, values_of(y.tensor()),
                                                                  {ScatterReduce::max, true})) == 0);
      CHECK((y.intact() && dx.intact()));
    }
}

TEST_CASE("gather and scatter refuse what does not fit", "[small]") {
  const Tensor x = device_tensor({2, 3}, std::vector<float>(6, 1)),
               y = device_tensor({2, 3}, std::vector<float>(6, 1));
  const Tensor index = index_tensor({2, 3}, std::vector<int64_t>(6, 0));
  CHECK(refusal([&] { gather(stream(), x, x, 0, y); }) == "index: dtype f32 must be i32 or i64");
  CHECK(refusal([&] { gather(stream(), x, index, 2, y); }) == "axis: axis 2 of a tensor of rank 2");
  CHECK(refusal([&] {
          gather(stream(), x, index.reshape({3, 2}), 1, y);
        }) == "y: shape [2, 3] must be [3, 2]");
  CHECK(refusal([&] {
          gather(stream(), x, index.reshape({3, 2}), 1, y.reshape({3, 2}));
        }) == "index: shape [3, 2] is larger than x's [2, 3] along another axis than 1");
  CHECK(refusal([&] { gather(stream(), x, index, 0, x); }) == "y: shares memory with x");
  CHECK(refusal([&] { gather(stream(), x, index, 0, index); }) == "y: dtype i64 must be f32");
  CHECK(refusal([&] { scatter(stream(), {}, index, y, 0, {}, y); }) == "y: shares memory with src");
  CHECK(refusal([&] {
          scatter(stream(), x.reshape({3, 2}), index, x, 0, {}, y);
        }) == "x: shape [3, 2] must be [2, 3]");
  const auto of_engine = [&](const char* name, ScatterReduce reduce, const Tensor& to) {
    return refusal([&] { scatter(stream(), {}, index, x, 0, {reduce, true}, to, engine(name)); });
  };
  const auto says = [](const std::string& text, const char* part) { return text.find(part) != text.npos; };
  CHECK(says(of_engine("columns", ScatterReduce::mean, y), "columns: a mean needs counts"));
  CHECK(says(of_engine("winners", ScatterReduce::max, y), "winners: there is a reduction"));
  CHECK(says(of_engine("extremes", ScatterReduce::sum, y), "extremes: it finds minima and maxima only"));
  CHECK(of_engine("local:columns=3", ScatterReduce::sum, y) ==
        "engine: local has 1, 2, 4 or 8 columns, not 3");
  CHECK(of_engine("best", ScatterReduce::none, y) == "engine: scatter has no engine 'best'");
  const Tensor tall(context(), {100000, 3}, DType::f32);
  CHECK(says(of_engine("local", ScatterReduce::sum, tall),
             "local: 100000 places of a column are more than 8 groups hold in local memory"));
  CHECK(refusal([&] { index_select(stream(), x, index, 0, y); }) ==
        "index: rank 2 must be 1, shape is [2, 3]");
  CHECK(host_values(y) == std::vector<float>(6, 1));
}
