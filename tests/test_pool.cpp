// Pooling: every engine by name against the references, forward and backward.
#include <dlprim/pool.hpp>

#include <cmath>
#include <limits>

#include "cases/pool.hpp"
#include "catch.hpp"
#include "core/device_probe.hpp"

using namespace dlprim;
using namespace dlprim::test;

namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInf = std::numeric_limits<float>::infinity();
constexpr PoolMode kModes[] = {PoolMode::max, PoolMode::average, PoolMode::lp};
const char* const kEngines[] = {"generated", "wide",   "scatter",
                                "direct",    "planes", "cpu"};  // that need not be aligned

struct Case {
  Shape x;
  Dims kernel{}, stride{}, pad_begin{}, pad_end{}, dilation{}, output{};
  bool ceil_mode = false, count_include_pad = true;
  int64_t divisor = 0;
  double norm = 2;

  PoolParams params(PoolMode mode) const {
    PoolParams p{mode, kernel, stride, pad_begin, pad_end, dilation, output, ceil_mode, count_include_pad};
    if (mode == PoolMode::average) p.divisor = divisor;
    p.norm = norm;
    return p;
  }
  std::string text() const {
    std::string result = "x=" + to_string(x) + " kernel=" + to_string(kernel) +
                         " stride=" + to_string(stride) + " pad=" + to_string(pad_begin) +
                         to_string(pad_end) + " dilation=" + to_string(dilation);
    if (!output.empty()) result += " output=" + to_string(output);
    if (ceil_mode) result += " ceil";
    if (!count_include_pad) result += " without padding";
    if (divisor != 0) result += " divisor=" + std::to_string(divisor);
    if (norm != 2) result += " norm=" + std::to_string(norm);
    return result;
  }
};

Case adaptive(const Shape& x, const Dims& output) {
  Case c{x};
  c.output = output;
  return c;
}

const std::vector<Case>& odd_cases() {
  static const std::vector<Case> cases = {
      {{1, 1, 1, 1}, {1, 1}},
      {{2, 3, 7, 9}, {2, 2}},
      {{1, 2, 5, 5}, {5, 5}, {1, 1}},
      {{2, 2, 6, 5}, {3, 2}, {1, 3}},
      {{1, 2, 7, 6}, {3, 3}, {2, 2}, {1, 1}},
      {{1, 2, 9, 8}, {3, 2}, {2}, {1}, {}, {2}},  // one number for all axes
      {{1, 2, 7, 6}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {}, {}, false, false},
      {{1, 2, 7, 6}, {3, 3}, {2, 2}, {0, 2}, {1, 0}},
      {{1, 2, 7, 6}, {3, 3}, {2, 2}, {0, 2}, {1, 0}, {}, {}, true, false},
      {{1, 2, 7, 6}, {3, 3}, {2, 2}, {0, 2}, {1, 0}, {}, {}, true, true, 5},
      {{2, 1, 6, 6}, {3, 3}, {2, 2}, {0, 0}, {0, 0}, {}, {}, true},
      {{2, 1, 6, 6}, {2, 2}, {3, 3}, {1, 1}, {1, 1}, {}, {}, true},
      {{1, 1, 4, 4}, {2, 2}, {4, 4}, {1, 0}, {0, 1}, {}, {}, true},
      {{1, 1, 1, 2}, {3, 3}, {4, 4}, {0, 0}, {0, 0}, {}, {}, true},
      {{1, 3, 9, 11}, {2, 3}, {3, 5}},
      // Wide enough for vectors that meet no border, but windows clipped by the input's end.
      {{2, 2, 12, 19}, {3, 3}, {2, 2}, {0, 0}, {0, 0}, {}, {}, true},
      {{2, 2, 5, 22}, {3, 3}, {2, 2}, {0, 1}, {0, 1}, {}, {}, true, false},
      {{1, 2, 4, 23}, {3, 4}, {1, 1}},
      {{1, 2, 4, 43}, {1, 3}, {1, 3}, {0, 1}, {0, 2}, {}, {}, true},
      {{3, 5, 17, 3}, {9, 2}, {8, 1}, {4, 1}, {3, 0}},
      // Dilation; the last one has windows between whose taps the image lies.
      {{1, 2, 11, 21}, {3, 3}, {1, 2}, {2, 1}, {0, 2}, {2, 2}},
      {{2, 2, 9, 30}, {2, 3}, {1, 1}, {3, 2}, {1, 2}, {3, 2}, {}, true, false},
      {{1, 1, 2, 2}, {2, 2}, {1, 1}, {4, 4}, {4, 4}, {4, 4}, {}, false, false},
      // One and three dimensions, with a batch and without.
      {{2, 3, 29}, {3}, {2}, {1}},
      {{3, 17}, {4}, {1}, {}, {}, {}, {}, true},
      {{2, 3, 5, 6, 7}, {2, 2, 2}},
      {{1, 2, 5, 4, 21}, {3, 2, 3}, {2, 1, 1}, {1, 0, 1}, {0, 1, 2}, {}, {}, true, false},
      {{2, 5, 6, 9}, {2, 3, 3}, {1, 2, 2}, {1, 1, 1}, {}, {1, 2, 1}},
      // Global and adaptive windows; large ones.
      adaptive({2, 3, 5, 7}, {1, 1}),
      {{3, 2, 4, 9}, {4, 9}},
      adaptive({2, 3, 9, 24}, {3, 4}),
      adaptive({2, 2, 7, 11}, {3, 4}),
      adaptive({2, 2, 3, 4}, {5, 6}),
      adaptive({1, 2, 19}, {7}),
      adaptive({2, 5, 6, 13}, {2, 3, 5}),
      adaptive({1, 3, 40, 70}, {3, 4}),
      {{1, 2, 21, 40}, {11, 13}, {7, 9}, {5, 4}, {3, 2}, {}, {}, true, false},
      {{0, 3, 4, 4}, {2, 2}},
      {{2, 0, 4, 4}, {2, 2}},
  };
  return cases;
}

struct Form {
  Placing placing = Placing::row_major;
  DType dtype = DType::f32, indices = DType::i32;
  bool aligned = false;
};

bool serves(const char* name, const Case& c, PoolMode mode, bool backward, bool with_indices,
            const Form& form, std::string& text) {
  const Shape out = pool_output_shape(c.x, c.params(mode));
  const Strides x = strides_in(form.placing, c.x), y = strides_in(form.placing, out);
  text = error_of<ValidationError>([&] {
    const TensorDesc dx(c.x, x, form.dtype, form.aligned), dy(out, y, form.dtype, form.aligned);
    std::optional<TensorDesc> indices, saved_x, saved_y;
    if (with_indices) indices = TensorDesc(out, y, form.indices, false);
    if (backward && mode == PoolMode::lp) saved_x = dx, saved_y = dy;
    if (backward)
      PoolBackward(context(), {dy, dx, c.params(mode), indices, saved_x, saved_y}, engine(name));
    else
      Pool(context(), {dx, dy, c.params(mode), indices}, engine(name));
  });
  const bool served = text == "(nothing was thrown)";
  CHECK((served || text.find(" refused:") != std::string::npos));
  return served;
}

/// deviation() without going through float.
double deviation_of(const Tensor& t, const Values& expected) {
  if (t.dtype() != DType::f64) return deviation(host_values(t), expected);
  const std::vector<double> values = read<double>(stream(), t);
  if (values.size() != expected.size()) return kInf;
  double most = 0, largest = 0;
  for (size_t i = 0; i < values.size(); i++) {
    const double off = std::abs(values[i] - expected[i]);
    most = off <= most ? most : std::isnan(off) ? kInf : off;
    largest = std::max(largest, std::abs(expected[i]));
  }
  return largest > 0 ? most / largest : most;
}

/// A window's terms in the longest sum, and what each rounds by.
double tolerance_of(const Case& c, PoolMode mode, DType dtype) {
  if (mode == PoolMode::max) return storage_roundoff(dtype);
  const double terms = static_cast<double>(c.output.empty() ? element_count(c.kernel) : element_count(c.x));
  const double roundoff = dtype == DType::f64 ? 0x1p-53 : 0x1p-24;
  // Sums of integers are exact; of a norm's root, or of quotients, each term rounds, the pow of PoCL by 16
  // ulp.
  return (terms + 40) * 2 * roundoff + storage_roundoff(dtype);
}

/// Runs the forward and the backward direction by one engine, twice, where it serves.
int check(const Case& c, PoolMode mode, const char* name, const Form& form = {}) {
  const bool max = mode == PoolMode::max;
  const std::string text = std::string(name) +
                           (max                    ? " max "
                            : mode == PoolMode::lp ? " lp "
                                                   : " average ") +
                           c.text() + " " + name_of(form.dtype) + " " + name_of(form.indices) + " " +
                           name_of(form.placing) + (form.aligned ? " aligned" : "");
  if (!is_selected(text)) return 0;
  INFO(again(text));
  const PoolParams params = c.params(mode);
  const Shape shape = pool_output_shape(c.x, params);
  const auto strides = [&](const Shape& s) { return strides_in(form.placing, s); };
  const int64_t padding = form.aligned ? 64 : 37;
  const auto input = [&](const Shape& s, const std::vector<float>& values) {
    if (!form.aligned) return placed(form.placing, s, values, form.dtype);
    const Guarded room(s, strides(s), form.dtype, padding);
    copy(stream(), device_tensor(s, values), room.tensor());
    return room.tensor();
  };
  // Small integers: many equal maxima, and sums without rounding. Norms want no negative numbers.
  Rng rng(19);
  std::vector<float> values = integers(element_count(c.x), rng, 9);
  if (mode == PoolMode::lp)
    for (float& v : values) v = std::abs(v);
  const Tensor x = input(c.x, values);
  const Pooled expected = pool_reference(values_of(x), c.x, params);
  const double tolerance = tolerance_of(c, mode, form.dtype);
  const Guarded y(shape, strides(shape), form.dtype, padding),
      indices(shape, strides(shape), form.indices, padding), twice(shape, form.dtype);
  Tensor wanted;
  std::string refusal;
  int ran = 0;
  if (serves(name, c, mode, false, false, form, refusal)) {
    ran++;
    pool(stream(), x, params, twice.tensor(), {}, engine(name));
    pool(stream(), x, params, y.tensor(), {}, engine(name));
    CHECK(deviation_of(y.tensor(), expected.y) <= tolerance);
    CHECK(host_bytes(y.tensor()) == host_bytes(twice.tensor()));
    CHECK(y.intact());
  }
  if (max) {
    wanted = indices.tensor();
    const bool forward = serves(name, c, mode, false, true, form, refusal);
    pool(stream(), x, params, y.tensor(), wanted, engine(forward ? name : "cpu"));
    CHECK(deviation_of(y.tensor(), expected.y) <= tolerance);
    CHECK(host_values(wanted) == std::vector<float>(expected.indices.begin(), expected.indices.end()));
    CHECK(indices.intact());
    CHECK(y.intact());
  }
  if (!serves(name, c, mode, true, max, form, refusal)) return ran;
  const Tensor dy = input(shape, integers(element_count(shape), rng, 9));
  PoolSaved saved{wanted, {}, {}};
  if (mode == PoolMode::lp) {
    pool(stream(), x, params, y.tensor());
    saved.x = x;
    saved.y = y.tensor();
  }
  const Values dx_expected = pool_backward_reference(values_of(dy), values_of(x), c.x, params);
  const Guarded dx(c.x, strides(c.x), form.dtype, padding), dx_twice(c.x, strides(c.x), form.dtype, padding);
  pool_backward(stream(), dy, saved, params, dx.tensor(), engine(name));
  pool_backward(stream(), dy, saved, params, dx_twice.tensor(), engine(name));
  // The slopes of norms come from y as it was stored.
  const double slope = mode == PoolMode::lp ? 2 * storage_roundoff(form.dtype) : 0;
  CHECK(deviation_of(dx.tensor(), dx_expected) <= tolerance + slope);
  CHECK(dx.intact());
  CHECK(host_bytes(dx.tensor()) == host_bytes(dx_twice.tensor()));
  return ran + 1;
}

}  // namespace

TEST_CASE("pooling of odd shapes, every engine", "[small]") {
  for (const char* name : kEngines) {
    int ran = 0;
    // Each case is a kernel or two to compile; what they do at a place does not depend on the mode.
    for (size_t i = 0; i < odd_cases().size(); i++)
      if (test::in_share(test::kShareOfShapes, i / 2))
        ran += check(odd_cases()[i], i % 2 ? PoolMode::average : PoolMode::max, name);
    if (is_selected("")) CHECK(ran > 0);
  }
}

TEST_CASE("norms of odd shapes", "[small]") {
  for (const char* name : kEngines)
    for (size_t i : {1, 15, 21, 27, 32}) check(odd_cases()[i], PoolMode::lp, name);
  // The powers that are products, and those that are not.
  for (double norm : {1.0, 3.0, 4.0, 1.5}) {
    Case c{{2, 3, 7, 23}, {2, 3}, {2, 2}, {1, 1}};
    c.norm = norm;
    for (const char* name : {"direct", "cpu"}) check(c, PoolMode::lp, name);
    Case all = adaptive({2, 3, 5, 7}, {1, 1});
    all.norm = norm;
    check(all, PoolMode::lp, "generated");
  }
}

TEST_CASE("pooling in every form of memory", "[small]") {
  const Case square{{2, 16, 6, 25}, {3, 3}, {2, 2}, {1, 1}};
  const Case odd{{2, 19, 5, 8}, {2, 3}, {1, 2}, {1, 0}, {0, 1}, {1, 2}, {}, true, false};
  const Case volume{{1, 8, 4, 5, 6}, {2, 2, 2}, {2, 2, 2}};
  for (const char* name : {"cpu", "direct"})
    for (PoolMode mode : kModes)
      for (Placing placing : {Placing::channels_last, Placing::gaps}) {
        check(odd, mode, name, {placing});
        check(square, mode, name, {placing, DType::f32, DType::i32, true});
        if (mode == PoolMode::max) check(adaptive({2, 5, 7, 6}, {3, 4}), mode, name, {placing});
        if (mode == PoolMode::max) check(volume, mode, name, {placing, DType::f32, DType::i64, true});
      }
  for (Placing placing : {Placing::channels_last, Placing::gaps})
    check(adaptive({2, 5, 13, 19}, {4, 5}), PoolMode::max, "scatter", {placing, DType::f32, DType::i64});
  // Halves at addresses that are no multiples of a vector's size.
  for (PoolMode mode : kModes)
    check({{1, 2, 6, 23}, {3, 3}, {1, 1}, {1, 1}}, mode, "cpu", {Placing::row_major, DType::f16});
  for (const Case& c : {square, odd, volume, adaptive({2, 5, 7, 6}, {3, 4})})
    for (DType dtype : {DType::f32, DType::bf16})
      check(c, PoolMode::max, "planes", {Placing::gaps, dtype, DType::i64});
  // Sums of planes that no work-item holds, and of which some work-groups have two.
  const int64_t planes = 4LL * context().device().facts().compute_units + 1;
  const Case large{{1, planes, 1, 130, 131}, {1, 5, 5}, {1, 4, 4}, {0, 2, 2}};
  const bool long_loops = detail::driver_limits(context().device()).long_loops;
  if (!long_loops) note_skipped("large planes for one work-item, whose loops the driver ends");
  for (DType dtype : {DType::f16, DType::bf16})
    for (Placing placing : {Placing::row_major, Placing::gaps})
      if (long_loops) CHECK(check(large, PoolMode::max, "planes", {placing, dtype}) > 0);
  const Case columns[] = {{{2, 3, 7, 24}, {3, 2}, {2, 3}, {1, 1}},
                          {{2, 3, 7, 24}, {3, 5}, {2, 2}, {1, 2}},  // overlaps: by name
                          {{2, 3, 5, 16}, {2, 3}, {1, 4}, {1, 0}, {0, 1}, {1, 2}, {}, true, false},
                          {{1, 2, 6, 8}, {2, 2}, {3, 3}},
                          {{2, 3, 4, 5, 16}, {2, 2, 2}, {2, 2, 2}},
                          adaptive({2, 3, 9, 24}, {3, 5}),
                          adaptive({2, 3, 3, 8}, {4, 11})};
  for (const Case& c : columns)
    for (DType dtype : {DType::f32, DType::bf16})
      CHECK(check(c, PoolMode::average, "columns", {Placing::row_major, dtype, DType::i32, true}) > 0);
  check(adaptive({2, 4, 9, 40}, {1, 1}), PoolMode::max, "wide", {Placing::gaps});
  check(adaptive({2, 4, 9, 4}, {1, 1}), PoolMode::average, "generated", {Placing::channels_last});
}

TEST_CASE("pooling of every dtype", "[small]") {
  const Case c{{2, 8, 5, 21}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {}, {}, false, false};
  for (const char* name : {"cpu", "direct"})
    for (PoolMode mode : kModes)
      for (DType dtype : {DType::f16, DType::bf16, DType::f64}) {
        if (dtype == DType::f64 && !has_doubles()) continue;
        const DType indices = dtype == DType::f16 ? DType::i64 : DType::i32;
        check(c, mode, name, {Placing::row_major, dtype, indices});
        if (mode != PoolMode::lp) check(c, mode, name, {Placing::channels_last, dtype, indices, true});
      }
  const Case large = adaptive({1, 2, 9, 40}, {1, 1});
  for (DType dtype : {DType::f16, DType::bf16}) {
    check(large, PoolMode::max, "wide", {Placing::row_major, dtype, DType::i64});
    check(large, PoolMode::average, "generated", {Placing::row_major, dtype});
  }
}

TEST_CASE("pooling of larger shapes") {
  const std::vector<Case> cases = {
      {{2, 33, 57, 55}, {3, 3}, {2, 2}, {1, 1}},
      {{2, 70, 14, 14}, {3, 3}, {1, 1}, {1, 1}},
      {{1, 2, 131, 129}, {11, 9}, {3, 4}, {5, 4}, {5, 4}, {}, {}, true, false},
      adaptive({3, 40, 14, 14}, {7, 7}),
  };
  for (const char* name : {"cpu", "direct"})
    for (PoolMode mode : {PoolMode::max, PoolMode::average})
      for (const Case& c : cases)
        for (Placing placing : {Placing::row_major, Placing::channels_last}) check(c, mode, name, {placing});
}

TEST_CASE("the output's shape follows PyTorch's rules", "[small]") {
  const auto shape = [](const Case& c) { return pool_output_shape(c.x, c.params(PoolMode::max)); };
  CHECK(shape({{2, 3, 8, 7}, {2, 2}}) == Shape{2, 3, 4, 3});
  CHECK(shape({{2, 3, 8, 7}, {2, 2}, {2, 2}, {0, 0}, {0, 0}, {}, {}, true}) == Shape{2, 3, 4, 4});
  // A last window that would start in the padding behind does not count.
  CHECK(shape({{1, 1, 6, 6}, {2, 2}, {3, 3}, {1, 1}, {1, 1}, {}, {}, true}) == Shape{1, 1, 3, 3});
  CHECK(shape({{1, 1, 5, 5}, {2, 2}, {3, 3}, {1, 1}, {1, 1}, {}, {}, true}) == Shape{1, 1, 2, 2});
  CHECK(shape({{1, 7, 7}, {3, 3}, {2, 2}, {1, 1}}) == Shape{1, 4, 4});
  CHECK(shape({{1, 1, 1, 2}, {3, 3}, {4, 4}, {0, 0}, {0, 0}, {}, {}, true}) == Shape{1, 1, 1, 1});
  CHECK(shape({{4, 2, 20}, {3}, {2}, {1}, {1}, {4}}) == Shape{4, 2, 7});
  CHECK(shape(adaptive({4, 2, 20, 9, 9}, {3, 5, 20})) == Shape{4, 2, 3, 5, 20});
  CHECK(pool_output_shape({2, 3, 5, 6, 7}, global_pool(PoolMode::average, 3)) == Shape{2, 3, 1, 1, 1});
}

TEST_CASE("max pooling of special values", "[small]") {
  // 2 x 2 windows: NaN wins, the last one is kept; all -infinity; -0 and 0 are equal, so the first stays.
  const std::vector<float> values = {1, kNan, -kInf, -kInf, -0.0f, 0,     kNan, 2,  //
                                     3, kNan, -kInf, -kInf, 0,     -0.0f, 5,    kInf};
  const Tensor x = device_tensor({1, 1, 2, 8}, values);
  const Case c{{1, 1, 2, 8}, {2, 2}};
  for (const char* name : {"cpu", "direct"}) {
    INFO("engine " << name);
    const Guarded y({1, 1, 1, 4}), indices({1, 1, 1, 4}, DType::i64);
    pool(stream(), x, c.params(PoolMode::max), y.tensor(), indices.tensor(), engine(name));
    CHECK(deviation(host_values(y.tensor()), {kNan, -kInf, 0, kNan}) == 0);
    CHECK(std::signbit(host_values(y.tensor())[2]));
    CHECK(host_values(indices.tensor()) == std::vector<float>{9, 2, 4, 6});
  }
}

TEST_CASE("large windows of special values", "[small]") {
  // Planes of 5 x 40: two NaNs, far apart; -infinities; equal maxima, the first of which counts; denormals.
  std::vector<float> values(4 * 200, -1.0f);
  values[17] = values[177] = kNan;
  values[30] = kInf;
  std::fill(values.begin() + 200, values.begin() + 400, -kInf);
  values[400 + 55] = values[400 + 54 + 80] = 7;
  for (size_t i = 600; i < 800; i++) values[i] = -1e-40f;
  values[600 + 199] = 1e-40f;
  const Tensor x = device_tensor({4, 5, 40}, values);
  for (const char* name : {"wide", "cpu", "direct"}) {
    INFO("engine " << name);
    const Guarded y({4, 1, 1}), indices({4, 1, 1}, DType::i32);
    pool(stream(), x, global_pool(PoolMode::max, 2), y.tensor(), indices.tensor(), engine(name));
    CHECK(deviation(host_values(y.tensor()), {kNan, -kInf, 7, 1e-40f}) == 0);
    CHECK(host_values(indices.tensor()) == std::vector<float>{177, 0, 55, 199});
  }
}

TEST_CASE("averages and norms of special values", "[small]") {
  const Tensor x = device_tensor({1, 6}, {kInf, 1, kInf, -kInf, kNan, 1});
  const Guarded y({1, 3});
  pool(stream(), x, {PoolMode::average, {2}}, y.tensor());
  CHECK(deviation(host_values(y.tensor()), {kInf, kNan, kNan}) == 0);
  pool(stream(), x, {PoolMode::lp, {2}}, y.tensor());
  CHECK(deviation(host_values(y.tensor()), {kInf, kInf, kNan}) == 0);
  // As PyTorch: no absolute value is taken, so odd powers of negative numbers have no root.
  PoolParams cubes{PoolMode::lp, {2}};
  cubes.norm = 3;
  pool(stream(), device_tensor({1, 6}, {2, 0, -2, 0, 0, 0}), cubes, y.tensor());
  CHECK(deviation(host_values(y.tensor()), {2, kNan, 0}) < 1e-6);
  // Where the norm is 0 the gradient is 0.
  const Tensor zeros = device_tensor({1, 4}, {0, 0, 3, 4}), root = device_tensor({1, 2}, {0, 5});
  const Guarded dx({1, 4});
  pool_backward(stream(), device_tensor({1, 2}, {1, 5}), {{}, zeros, root}, {PoolMode::lp, {2}}, dx.tensor());
  CHECK(deviation(host_values(dx.tensor()), {0, 0, 3, 4}) < 1e-6);
}

TEST_CASE("an index that no window holds hands nothing back", "[small]") {
  const Tensor dy = device_tensor({1, 1, 1, 3}, {1, 2, 3});
  const Tensor indices = device_tensor({1, 1, 1, 3}, {-1, 99, 0}, DType::i32);
  for (const char* name : {"cpu", "direct", "scatter", "planes"}) {
    const Guarded dx({1, 1, 2, 24});
    pool_backward(stream(), dy, {indices}, {PoolMode::max, {2, 8}}, dx.tensor(), engine(name));
    CHECK(host_values(dx.tensor()) == std::vector<float>(48, 0.0f));
  }
}

TEST_CASE("pooling gradients agree with finite differences", "[small]") {
  const Shape shape{1, 2, 5, 6};
  for (PoolMode mode : kModes) {
    PoolParams params{mode, {3, 2}, {2, 1}, {1, 1}, {1, 0}, {}, {}, true, false};
    params.norm = 3;
    Rng rng(23);
    std::vector<float> at(60);  // all different, farther apart than the step
    for (size_t i = 0; i < at.size(); i++) at[i] = static_cast<float>(i * 37 % 60 + 1) * 0.1f;
    const Shape out = pool_output_shape(shape, params);
    const std::vector<float> weights = reals(element_count(out), rng);
    const Tensor x = device_tensor(shape, at), dy = device_tensor(out, weights);
    const Guarded y(out), indices(out, DType::i32), dx(shape);
    PoolSaved saved;
    if (mode == PoolMode::max) saved.indices = indices.tensor();
    pool(stream(), x, params, y.tensor(), saved.indices);
    if (mode == PoolMode::lp) saved.x = x, saved.y = y.tensor();
    pool_backward(stream(), dy, saved, params, dx.tensor());
    const auto loss = [&](const Values& v) {
      const Values pooled = pool_reference(v, shape, params).y;
      double sum = 0;
      for (size_t i = 0; i < pooled.size(); i++) sum += pooled[i] * weights[i];
      return sum;
    };
    const std::vector<float> gradient = host_values(dx.tensor());
    for (size_t i = 0; i < at.size(); i++)
      CHECK(gradient[i] == Approx(numeric_gradient(loss, values_of(x), i)).margin(2e-6));
  }
}

TEST_CASE("pooling plans list their engines", "[small]") {
  const Pool plan(context(), {TensorDesc({1, 1, 4, 4}), TensorDesc({1, 1, 2, 2}), {PoolMode::max, {2, 2}}});
  const bool cpu = context().device().kind() == DeviceKind::cpu;
  CHECK(plan.engine() == (cpu ? "cpu" : "direct"));
  for (const char* line : {"cpu: ", "direct: ", "generated: refused, for one window over the whole plane",
                           "wide: avoided, a window has 4 elements, fewer than 32"})
    CHECK(plan.explain().find(line) != std::string::npos);
  const Pool global(context(),
                    {TensorDesc({1, 1, 4, 4}), TensorDesc({1, 1, 1, 1}), global_pool(PoolMode::average, 2)});
  CHECK(global.engine() == "generated");
}

TEST_CASE("pooling refuses bad input", "[small]") {
  const Tensor x = device_tensor({1, 1, 4, 4}, std::vector<float>(16, 1)),
               y = device_tensor({1, 1, 2, 2}, {0, 0, 0, 0});
  const Tensor indices = device_tensor({1, 1, 2, 2}, {0, 0, 0, 0}, DType::i32);
  const PoolParams halves{PoolMode::max, {2, 2}};
  const auto refused = [&](const Tensor& from, const PoolParams& params, const Tensor& to,
                           const Tensor& places = {}, const char* name = "auto") {
    return error_of<ValidationError>([&] { pool(stream(), from, params, to, places, engine(name)); });
  };
  const auto bad = [&](auto change) {
    PoolParams params = halves;
    change(params);
    return refused(x, params, y);
  };
  CHECK(refused({}, halves, y) == "x: is not defined");
  CHECK(refused(x.reshape({4, 4}), halves, y) == "x: rank 2 must be 3 or 4, 2 of them spatial");
  CHECK(refused(x, halves, x.slice(2, 0, 2)) == "y: shape [1, 1, 2, 4] must be [1, 1, 2, 2]");
  CHECK(refused(x, halves, x.slice(2, 0, 2).slice(3, 0, 2)) == "y: shares memory with x");
  CHECK(refused(x, halves, y, y) == "indices: dtype f32 must be i32 or i64");
  CHECK(refused(x, halves, y, indices.slice(2, 0, 1)) == "indices: shape [1, 1, 1, 2] must be [1, 1, 2, 2]");
  CHECK(refused(x, halves, y, y.reinterpret(DType::i32).reshape({1, 1, 2, 2})) ==
        "indices: shares memory with y");
  CHECK(refused(x, halves, y, {}, "magic") == "engine: pool has no engine 'magic'");
  CHECK(refused(x, halves, y, {}, "generated").find("for one window over the whole plane") !=
        std::string::npos);
  CHECK(refused(x, {}, y) == "kernel: 0 numbers, must be 1 to 3");
  CHECK(bad([](PoolParams& p) { p.kernel[1] = 0; }) == "kernel: 0 along W must be 1 or more");
  CHECK(bad([](PoolParams& p) { p.stride = {-1, 1}; }) == "stride: -1 along H must be 1 or more");
  CHECK(bad([](PoolParams& p) { p.stride = {1, 1, 1}; }) == "stride: 3 numbers, kernel has 2");
  CHECK(bad([](PoolParams& p) { p.dilation = {1, 0}; }) == "dilation: 0 along W must be 1 or more");
  CHECK(bad([](PoolParams& p) {
          p.pad_begin = {2, 0};
        }) == "pad_begin: 2 along H must lie in [0, 2), the window's reach");
  CHECK(bad([](PoolParams& p) {
          p.pad_end = {0, -1};
        }) == "pad_end: -1 along W must lie in [0, 2), the window's reach");
  CHECK(bad([](PoolParams& p) {
          p.kernel = {5, 5};
        }) == "x: size 4 along H with padding 0 and 0 has no room for a window of 5");
  CHECK(bad([](PoolParams& p) { p.kernel[0] = int64_t{1} << 40; }).find("does not fit in 32 bits") !=
        std::string::npos);
  CHECK(bad([](PoolParams& p) { p.mode = static_cast<PoolMode>(7); }) == "mode: number 7 does not exist");
  CHECK(bad([](PoolParams& p) { p.divisor = 3; }) == "divisor: is for averages");
  CHECK(bad([](PoolParams& p) { p.norm = 0; }) == "norm: 0 must be finite and not 0");
  CHECK(bad([](PoolParams& p) { p.output = {2, 2}; }) == "kernel: is given for adaptive windows");
  CHECK(refused(x, adaptive_pool(PoolMode::max, {0, 2}), y) == "output: 0 along H must be 1 or more");
  CHECK(refused(x, {PoolMode::average, {2, 2}}, y, indices) == "indices: are of maxima");
  const auto backward = [&](const PoolSaved& saved, PoolMode mode) {
    return error_of<ValidationError>([&] { pool_backward(stream(), y, saved, {mode, {2, 2}}, x); });
  };
  CHECK(backward({}, PoolMode::max) == "indices: the backward direction of maxima needs them");
  CHECK(backward({indices}, PoolMode::average) == "indices: are of maxima");
  CHECK(backward({}, PoolMode::lp) == "x: the backward direction of norms needs it");
  CHECK(backward({{}, x, {}}, PoolMode::lp) == "y: the backward direction of norms needs it");
  CHECK(backward({{}, x, {}}, PoolMode::average) == "x: is for the backward direction of norms");
  CHECK(backward({{}, x, y}, PoolMode::lp) == "dx: shares memory with x");
  const Tensor empty(context(), {1, 1, 0, 4});
  CHECK(refused(empty, halves, y) == "x: size 0 along H must be 1 or more");
  CHECK(host_values(y) == std::vector<float>(4, 0.0f));
}
