// Pooling: every engine by name against the references, forward and backward.
#include <dlprim/pool.hpp>

#include <cmath>
#include <limits>

#include "cases/pool.hpp"
#include "catch.hpp"

using namespace dlprim;
using namespace dlprim::test;

namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInf = std::numeric_limits<float>::infinity();
constexpr PoolMode kModes[] = {PoolMode::max, PoolMode::average, PoolMode::lp};
const char* const kEngines[] = {"generated", "wide", "direct", "cpu"};

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

bool serves(const char* name, const Case& c, PoolMode mode, bool backward, bool with_indices, Placing placing,
            std::string& text) {
  const Shape out = pool_output_shape(c.x, c.params(mode));
  const Strides x = strides_in(placing, c.x), y = strides_in(placing, out);
  text = error_of<ValidationError>([&] {
    const TensorDesc dx(c.x, x, DType::f32, false), dy(out, y, DType::f32, false);
    std::optional<TensorDesc> indices, saved_x, saved_y;
    if (with_indices) indices = TensorDesc(out, y, DType::i32, false);
    if (backward && mode == PoolMode::lp) saved_x = dx, saved_y = dy;
    if (backward)
      PoolBackward(context(), {dy, dx, c.params(mode), indices, saved_x, saved_y}, engine(name));
    else
      Pool(context(), {dx, dy, c.params(mode), indices}, engine(name));
  });
  return text == "(nothing was thrown)";
}

struct Form {
  Placing placing = Placing::row_major;
  DType dtype = DType::f32, indices = DType::i32;
  bool aligned = false;
};

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
  if (serves(name, c, mode, false, false, form.placing, refusal)) {
    ran++;
    pool(stream(), x, params, twice.tensor(), {}, engine(name));
    pool(stream(), x, params, y.tensor(), {}, engine(name));
    CHECK(deviation(host_values(y.tensor()), expected.y) <= tolerance);
    CHECK(host_bytes(y.tensor()) == host_bytes(twice.tensor()));
    CHECK(y.intact());
  }
  if (max) {
    wanted = indices.tensor();
    const bool forward = serves(name, c, mode, false, true, form.placing, refusal);
    pool(stream(), x, params, y.tensor(), wanted, engine(forward ? name : "cpu"));
    CHECK(deviation(host_values(y.tensor()), expected.y) <= tolerance);
    CHECK(host_values(wanted) == std::vector<float>(expected.indices.begin(), expected.indices.end()));
    CHECK(indices.intact());
    CHECK(y.intact());
  }
  if (!serves(name, c, mode, true, max, form.placing, refusal)) return ran;
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
  const double slope = mode == PoolMode::lp ? 40 * storage_roundoff(form.dtype) : 0;
  CHECK(deviation(host_values(dx.tensor()), dx_expected) <= 9 * tolerance + slope);
  CHECK(dx.intact());
  CHECK(host_bytes(dx.tensor()) == host_bytes(dx_twice.tensor()));
  return ran + 1;
}

}  // namespace

TEST_CASE("pooling of odd shapes, every engine", "[small]") {
  for (const char* name : kEngines) {
    int ran = 0;
    for (PoolMode mode : {PoolMode::max, PoolMode::average})
      for (const Case& c : odd_cases()) ran += check(c, mode, name);
    CHECK(ran > 0);
  }
}
