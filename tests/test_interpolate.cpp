// Interpolation, both engines, against dense matrices: along each axis y = A x with A built from the
// definition in double (nearest: in float, as it is defined), backward dx = A^T dy. Some numbers are
// PyTorch's.
#include <dlprim/interpolate.hpp>

#include <algorithm>
#include <cmath>
#include <limits>

#include "cases/nn.hpp"
#include "catch.hpp"

using namespace dlprim;
using namespace dlprim::test;

namespace {

using Mode = InterpolateMode;

const char* name_of(Mode mode) {
  const char* names[] = {"nearest", "nearest_exact", "linear", "cubic", "area"};
  return names[static_cast<int>(mode)];
}

struct Case {
  Shape x;
  std::vector<int64_t> size;  ///< of y behind N and C
  InterpolateParams params;

  Shape y() const {
    Shape shape{x[0], x[1]};
    for (int64_t s : size) shape.push_back(s);
    return shape;
  }
  std::string text() const {
    std::string scale;
    for (double s : params.scale) scale += " " + std::to_string(s);
    return name_of(params.mode) + (" x=" + to_string(x)) + " y=" + to_string(y()) +
           (params.align_corners ? " align_corners" : "") + (params.antialias ? " antialias" : "") +
           " scale" + scale;
  }
};

InterpolateParams params_of(Mode mode, bool align_corners = false, bool antialias = false,
                            std::array<double, 3> scale = {0, 0, 0}) {
  return {mode, align_corners, antialias, scale};
}

double keys(double d, double a) {
  d = std::abs(d);
  return d <= 1 ? ((a + 2) * d - (a + 3)) * d * d + 1 : d < 2 ? a * (((d - 5) * d + 8) * d - 4) : 0;
}

/// A, [size of y][size of x].
std::vector<Values> matrix(int64_t in, int64_t out, const InterpolateParams& p, double given) {
  std::vector<Values> a(static_cast<size_t>(out), Values(static_cast<size_t>(in), 0.0));
  const double step = p.align_corners ? (out > 1 ? double(in - 1) / double(out - 1) : 0)
                                      : (given > 0 ? 1 / given : double(in) / double(out));
  const auto float_step =
      given > 0 ? static_cast<float>(1 / given) : static_cast<float>(in) / static_cast<float>(out);
  for (int64_t o = 0; o < out; o++) {
    const auto add = [&](int64_t i, double w) {
      a[static_cast<size_t>(o)][static_cast<size_t>(std::min(std::max<int64_t>(i, 0), in - 1))] += w;
    };
    const double at = p.align_corners ? step * double(o) : step * (double(o) + 0.5) - 0.5;
    if (p.mode == Mode::nearest || p.mode == Mode::nearest_exact) {
      const float place = (static_cast<float>(o) + (p.mode == Mode::nearest ? 0.0f : 0.5f)) * float_step;
      add(in == out ? o : static_cast<int64_t>(std::floor(place)), 1);
    } else if (p.mode == Mode::area) {
      const int64_t begin = o * in / out, end = ((o + 1) * in + out - 1) / out;
      for (int64_t i = begin; i < end; i++) add(i, 1.0 / double(end - begin));
    } else if (p.antialias) {
      const bool cubic = p.mode == Mode::cubic;
      const double stretch = std::max(step, 1.0), center = step * (double(o) + 0.5),
                   support = (cubic ? 2 : 1) * stretch;
      double total = 0;
      Values weights;
      for (int64_t i = 0; i < in; i++) {
        const double d = (double(i) + 0.5 - center) / stretch;
        const bool inside =
            double(i) >= std::floor(center - support + 0.5) && double(i) < std::floor(center + support + 0.5);
        weights.push_back(!inside ? 0 : cubic ? keys(d, -0.5) : std::max(0.0, 1 - std::abs(d)));
        total += weights.back();
      }
      for (int64_t i = 0; i < in; i++) add(i, weights[static_cast<size_t>(i)] / total);
    } else if (p.mode == Mode::linear) {
      const double place = in == out ? double(o) : std::max(at, 0.0);
      const auto low = std::min(static_cast<int64_t>(place), in - 1);
      const double part = std::min(place - double(low), 1.0);
      add(low, 1 - part);
      add(low + 1, part);
    } else {
      const double low = std::min(std::floor(at), double(in - 1)), t = std::min(at - low, 1.0);
      for (int k = -1; k <= 2; k++) add(static_cast<int64_t>(low) + k, keys(double(k) - t, -0.75));
    }
  }
  return a;
}

/// A, or its transpose, along every axis behind C.
Values apply(const Values& from, Shape shape, const Case& c, bool transpose) {
  Values now = from;
  for (int axis = 2; axis < shape.size(); axis++) {
    const int64_t in = c.x[axis], out = c.size[static_cast<size_t>(axis - 2)];
    const auto a = matrix(in, out, c.params, c.params.scale[static_cast<size_t>(axis - 2)]);
    const AxisView v(shape, axis);
    shape[axis] = transpose ? in : out;
    Values next(static_cast<size_t>(element_count(shape)), 0.0);
    for (int64_t o = 0; o < v.outer; o++)
      for (int64_t i = 0; i < in; i++)
        for (int64_t j = 0; j < out; j++)
          for (int64_t inner = 0; inner < v.inner; inner++) {
            const double w = a[static_cast<size_t>(j)][static_cast<size_t>(i)];
            const int64_t to = transpose ? i : j, source = transpose ? j : i;
            next[static_cast<size_t>((o * shape[axis] + to) * v.inner + inner)] +=
                w == 0 ? 0 : w * now[static_cast<size_t>((o * v.size + source) * v.inner + inner)];
          }
    now = next;
  }
  return now;
}

/// Elements that one of the result is made of, at most.
double terms(const Case& c, bool backward) {
  double product = 1;
  for (size_t i = 0; i < c.size.size(); i++) {
    const auto in = static_cast<double>(c.x[static_cast<int>(i) + 2]), out = static_cast<double>(c.size[i]);
    product *= 4 * std::ceil(backward ? out / in + 1 : in / out + 1);
  }
  return product;
}

void check(const Case& c, Placing placing, DType x_dtype, DType y_dtype, const char* name) {
  const std::string text = c.text() + " " + dlprim::name_of(x_dtype) + " " + dlprim::name_of(y_dtype) + " " +
                           dlprim::test::name_of(placing) + " engine=" + name;
  if (!is_selected(text)) return;
  INFO(again(text));
  const Shape shape = c.y();
  Rng rng(7);
  const Tensor x = placed(placing, c.x, reals(element_count(c.x), rng), x_dtype);
  const Tensor dy = placed(placing, shape, reals(element_count(shape), rng), y_dtype);
  // Coordinates are rounded to f32, so weights are off by a few units of the largest one; sums by one for
  // each term. Nothing but the result is rounded where elements only move.
  int64_t largest = 1;
  for (int i = 2; i < shape.size(); i++) largest = std::max({largest, c.x[i], shape[i]});
  const bool moves = c.params.mode == Mode::nearest || c.params.mode == Mode::nearest_exact;
  const bool exact = x_dtype == DType::f64 || y_dtype == DType::f64;
  const double unit = exact ? 0x1p-50 : 0x1p-24,
               weights = moves ? 0 : 16.0 * static_cast<double>(largest) * unit;
  const auto round = [](DType dtype) {
    return dtype == DType::f64 ? 0.0 : dtype == DType::f32 ? 0x1p-24 : storage_roundoff(dtype);
  };

  const Guarded y(shape, strides_in(placing, shape), y_dtype, 37),
      y2(shape, strides_in(placing, shape), y_dtype, 37);
  interpolate(stream(), x, c.params, y.tensor(), engine(name));
  interpolate(stream(), x, c.params, y2.tensor(), engine(name));
  CHECK(deviation(host_values(y.tensor()), apply(values_of(x), c.x, c, false)) <=
        weights + (moves ? 0 : terms(c, false) * unit) +
            (moves && x_dtype == y_dtype ? 0 : round(y_dtype) + 0x1p-24));
  CHECK(y.intact());
  CHECK(host_bytes(y.tensor()) == host_bytes(y2.tensor()));

  const Guarded dx(c.x, strides_in(placing, c.x), x_dtype, 37),
      dx2(c.x, strides_in(placing, c.x), x_dtype, 37);
  interpolate_backward(stream(), dy, c.params, dx.tensor(), engine(name));
  interpolate_backward(stream(), dy, c.params, dx2.tensor(), engine(name));
  CHECK(deviation(host_values(dx.tensor()), apply(values_of(dy), shape, c, true)) <=
        terms(c, true) * (weights + unit) + round(x_dtype) + 0x1p-24);
  CHECK(dx.intact());
  CHECK(host_bytes(dx.tensor()) == host_bytes(dx2.tensor()));
}

const std::vector<Case>& odd_cases() {
  static const std::vector<Case> cases = {
      {{1, 1, 1}, {1}, params_of(Mode::nearest)},
      {{2, 3, 5}, {13}, params_of(Mode::nearest)},
      {{2, 3, 5, 7}, {10, 14}, params_of(Mode::nearest)},
      {{1, 3, 7, 9}, {3, 20}, params_of(Mode::nearest_exact)},
      {{1, 2, 9, 4}, {18, 9}, params_of(Mode::nearest, false, false, {2, 2.3, 0})},
      {{1, 2, 3, 4, 5}, {6, 2, 11}, params_of(Mode::nearest)},
      {{2, 3, 7}, {19}, params_of(Mode::linear)},
      {{2, 3, 7}, {3}, params_of(Mode::linear, true)},
      {{2, 3, 5, 7}, {10, 14}, params_of(Mode::linear)},
      {{2, 3, 5, 7}, {10, 14}, params_of(Mode::linear, true)},
      {{1, 2, 9, 11}, {4, 30}, params_of(Mode::linear)},
      {{1, 2, 9, 11}, {1, 1}, params_of(Mode::linear, true)},
      {{1, 2, 1, 1}, {4, 3}, params_of(Mode::linear)},
      {{1, 2, 5, 6}, {8, 9}, params_of(Mode::linear, false, false, {1.7, 1.6, 0})},
      {{1, 2, 3, 4, 5}, {6, 3, 7}, params_of(Mode::linear)},
      {{1, 2, 3, 4, 5}, {6, 3, 7}, params_of(Mode::linear, true)},
      {{2, 3, 5, 7}, {10, 14}, params_of(Mode::cubic)},
      {{1, 2, 9, 3}, {4, 8}, params_of(Mode::cubic, true)},
      {{1, 2, 1, 2}, {3, 5}, params_of(Mode::cubic)},
      {{1, 2, 5, 6}, {8, 9}, params_of(Mode::cubic, false, false, {1.7, 1.6, 0})},
      {{2, 3, 13, 17}, {5, 4}, params_of(Mode::linear, false, true)},
      {{1, 2, 13, 5}, {4, 11}, params_of(Mode::linear, true, true)},
      {{1, 2, 40, 33}, {5, 4}, params_of(Mode::cubic, false, true)},
      {{1, 2, 5, 4}, {10, 9}, params_of(Mode::cubic, false, true)},
      {{2, 3, 7}, {3}, params_of(Mode::area)},
      {{2, 3, 13, 17}, {5, 20}, params_of(Mode::area)},
      {{1, 2, 30, 40}, {1, 1}, params_of(Mode::area)},
      {{1, 2, 5, 6, 7}, {2, 3, 4}, params_of(Mode::area)},
      {{0, 3, 4, 4}, {8, 8}, params_of(Mode::linear)},
      {{2, 0, 4, 4}, {8, 8}, params_of(Mode::nearest)},
  };
  return cases;
}

}  // namespace

TEST_CASE("interpolation of odd shapes, both engines", "[small]") {
  for (const char* name : {"cpu", "direct"})
    for (const Case& c : odd_cases()) check(c, Placing::row_major, DType::f32, DType::f32, name);
}

TEST_CASE("interpolation in every form of memory", "[small]") {
  for (const char* name : {"cpu", "direct"})
    for (Placing placing : {Placing::channels_last, Placing::gaps})
      for (size_t i : {8u, 14u, 20u}) check(odd_cases()[i], placing, DType::f32, DType::f32, name);
}

TEST_CASE("interpolation of vectors of channels", "[small]") {
  for (const char* name : {"cpu", "direct"})
    for (Mode mode : {Mode::nearest, Mode::linear, Mode::area}) {
      const DType dtype = mode == Mode::area ? DType::f16 : DType::f32;
      check({{2, 40, 5, 7}, {10, 14}, params_of(mode)}, Placing::channels_last, dtype, dtype, name);
      check({{1, 16, 9, 8}, {4, 3}, params_of(mode)}, Placing::channels_last, dtype, dtype, name);
    }
}

TEST_CASE("interpolation of every dtype", "[small]") {
  for (const char* name : {"cpu", "direct"})
    for (size_t i : {3u, 22u}) {
      for (DType dtype : {DType::f16, DType::bf16})
        check(odd_cases()[i], Placing::row_major, dtype, dtype, name);
      if (i == 3) check(odd_cases()[i], Placing::row_major, DType::f16, DType::f32, name);
      if (!has_doubles()) continue;
      check(odd_cases()[i], Placing::row_major, DType::f64, DType::f64, name);
      if (i == 3) check(odd_cases()[i], Placing::channels_last, DType::f32, DType::f64, name);
    }
}

TEST_CASE("interpolation of larger shapes") {
  for (const char* name : {"cpu", "direct"}) {
    check({{3, 17, 28, 31}, {56, 62}, params_of(Mode::linear)}, Placing::row_major, DType::f32, DType::f32,
          name);
    check({{3, 32, 28, 31}, {56, 62}, params_of(Mode::nearest)}, Placing::channels_last, DType::f32,
          DType::f32, name);
    check({{2, 3, 120, 97}, {33, 40}, params_of(Mode::cubic, false, true)}, Placing::row_major, DType::f32,
          DType::f32, name);
    check({{8, 64, 33, 40}, {40, 33}, params_of(Mode::linear)}, Placing::row_major, DType::f32, DType::f32,
          name);
    check({{2, 300, 14, 14}, {3, 3}, params_of(Mode::area)}, Placing::gaps, DType::f32, DType::f32, name);
  }
}

// Its numbers are sums of up to 16 terms in f32, written with seven digits.
TEST_CASE("interpolation gives PyTorch's numbers", "[small]") {
  const Tensor x = device_tensor({1, 1, 2, 3}, {1, 2, 4, 8, 16, 32});
  const auto result = [&](const Shape& size, const InterpolateParams& params) {
    const Guarded y({1, 1, size[0], size[1]});
    interpolate(stream(), x, params, y.tensor());
    return host_values(y.tensor());
  };
  CHECK(deviation(result({3, 5}, params_of(Mode::nearest)),
                  Values{1, 1, 2, 2, 4, 1, 1, 2, 2, 4, 8, 8, 16, 16, 32}) < 4e-6);
  CHECK(deviation(result({3, 5}, params_of(Mode::nearest_exact)),
                  Values{1, 1, 2, 4, 4, 8, 8, 16, 32, 32, 8, 8, 16, 32, 32}) < 4e-6);
  CHECK(deviation(result({3, 5}, params_of(Mode::linear)),
                  Values{1, 1.4, 2, 3.2, 4, 4.5, 6.3, 9, 14.4, 18, 8, 11.2, 16, 25.6, 32}) < 4e-6);
  CHECK(deviation(result({3, 5}, params_of(Mode::linear, true, false)),
                  Values{1, 1.5, 2, 3, 4, 4.5, 6.75, 9, 13.5, 18, 8, 12, 16, 24, 32}) < 4e-6);
  CHECK(deviation(result({3, 5}, params_of(Mode::cubic)),
                  Values{0.3546945, 0.4880975, 0.7847223, 1.293222, 1.644778, 4.068001, 5.598003, 9, 14.832,
                         18.864, 7.781307, 10.70791, 17.21528, 28.37078, 36.08322}) < 4e-6);
  CHECK(deviation(result({3, 2}, params_of(Mode::cubic, true, false)), Values{1, 4, 4.5, 18, 8, 32}) < 4e-6);
  CHECK(deviation(result({3, 2}, params_of(Mode::linear, false, true)),
                  Values{1.375, 3.25, 6.1875, 14.625, 11, 26}) < 4e-6);
  CHECK(deviation(result({1, 2}, params_of(Mode::cubic, false, true)), Values{5.713482, 15.0313}) < 4e-6);
  CHECK(deviation(result({1, 2}, params_of(Mode::area)), Values{6.75, 13.5}) < 4e-6);
  CHECK(deviation(result({3, 2}, params_of(Mode::area)), Values{1.5, 3, 6.75, 13.5, 12, 24}) < 4e-6);
  CHECK(deviation(result({3, 4}, params_of(Mode::linear, false, false, {1.6, 1.4, 0})),
                  Values{1, 1.571429, 2.571429, 4, 4.0625, 6.383928, 10.44643, 16.25, 8, 12.57143, 20.57143,
                         32}) < 4e-6);
  CHECK(deviation(result({3, 5}, params_of(Mode::nearest, false, false, {1.6, 1.9, 0})),
                  Values{1, 1, 2, 2, 4, 1, 1, 2, 2, 4, 8, 8, 16, 16, 32}) < 4e-6);
  CHECK(deviation(result({3, 4}, params_of(Mode::cubic, false, false, {1.6, 1.4, 0})),
                  Values{0.3225952, 0.4798094, 0.9233779, 1.400635, 3.693116, 5.492926, 10.57096, 16.03467,
                         7.635952, 11.35727, 21.85671, 33.15356}) < 4e-6);
  CHECK(deviation(result({3, 2}, params_of(Mode::linear, true, true)),
                  Values{1.857143, 3.5, 5.107143, 9.625, 11.60714, 21.875}) < 4e-6);
}

TEST_CASE("interpolation moves special values as they are", "[small]") {
  constexpr float kInf = std::numeric_limits<float>::infinity(),
                  kNan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> values = {-0.0f, kInf, -kInf, kNan, 1e-40f, 3e38f};
  for (const char* name : {"cpu", "direct"}) {
    const Tensor x = device_tensor({1, 1, 6}, values);
    const Guarded y({1, 1, 12});
    interpolate(stream(), x, params_of(Mode::nearest), y.tensor(), engine(name));
    const std::vector<float> moved = host_values(y.tensor());
    for (size_t i = 0; i < moved.size(); i++) {
      INFO(name << " " << i);
      CHECK(((std::isnan(moved[i]) && std::isnan(values[i / 2])) || moved[i] == values[i / 2]));
      CHECK((std::isnan(moved[i]) || std::signbit(moved[i]) == std::signbit(values[i / 2])));
    }
    // A weight of 0 makes NaN of an infinity.
    const Tensor finite = device_tensor({1, 1, 3}, {1, kInf, 3});
    const Guarded same({1, 1, 5});
    interpolate(stream(), finite, params_of(Mode::linear, true), same.tensor(), engine(name));
    CHECK(deviation(host_values(same.tensor()), {kNan, kInf, kInf, kInf, 3}) == 0);
  }
}

TEST_CASE("interpolation gradients agree with finite differences", "[small]") {
  for (const Case& c : {odd_cases()[10], odd_cases()[17], odd_cases()[21], odd_cases()[24]}) {
    INFO(c.text());
    Rng rng(3);
    const std::vector<float> weights = reals(element_count(c.y()), rng);
    const Values at(static_cast<size_t>(element_count(c.x)), 0.5);
    const Guarded dx(c.x);
    interpolate_backward(stream(), device_tensor(c.y(), weights), c.params, dx.tensor());
    const auto loss = [&](const Values& v) {
      const Values y = apply(v, c.x, c, false);
      double sum = 0;
      for (size_t i = 0; i < y.size(); i++) sum += y[i] * weights[i];
      return sum;
    };
    const std::vector<float> gradient = host_values(dx.tensor());
    for (size_t i = 0; i < at.size(); i += 3)
      CHECK(gradient[i] == Approx(numeric_gradient(loss, at, i)).margin(1e-5));
  }
}

TEST_CASE("interpolation: the output's shape", "[small]") {
  CHECK(interpolate_output_shape({2, 3, 5, 7}, {2, 1.5}) == Shape{2, 3, 10, 10});
  CHECK(error_of<ValidationError>([] {
          interpolate_output_shape({2, 3, 5, 7}, {2});
        }) == "scale: 1 factors for 2 axes");
  CHECK(error_of<ValidationError>([] {
          interpolate_output_shape({2, 3, 5}, {0.1});
        }) == "scale: 0.1 makes size 0 of 5");
}

TEST_CASE("interpolation refuses bad input", "[small]") {
  const Tensor x(context(), {1, 2, 4, 4}), y(context(), {1, 2, 8, 8});
  const auto refused = [&](const Tensor& from, const InterpolateParams& params, const Tensor& to) {
    return error_of<ValidationError>([&] { interpolate(stream(), from, params, to); });
  };
  CHECK(refused({}, {}, y) == "x: is not defined");
  CHECK(refused(x.reshape({2, 16}), {}, y) == "x: rank 2 must be 3 to 5, [N, C, ...]");
  CHECK(refused(x, {}, y.reshape({1, 2, 64})) == "y: rank 3 must be 4, shape is [1, 2, 64]");
  CHECK(refused(x, {}, y.reshape({1, 4, 4, 8})) == "y: size 4 of axis 1 must be 2");
  CHECK(refused(x.slice(2, 0, 0), {}, y) == "x: size 0 of axis 2 must be 1 or more");
  CHECK(refused(x, params_of(Mode::nearest, true), y) == "align_corners: does not go with mode nearest");
  CHECK(refused(x, params_of(Mode::area, false, true), y) ==
        "antialias: does not go with mode area of rank 4");
  CHECK(refused(x.reshape({1, 2, 16}), params_of(Mode::cubic), y.reshape({1, 2, 64})) ==
        "mode: cubic is for rank 4, not 3");
  CHECK(refused(x, params_of(static_cast<Mode>(9)), y) == "mode: number 9 does not exist");
  CHECK(refused(x, params_of(Mode::linear, false, false, {-1, 0, 0}), y) ==
        "scale: -1 must be positive, or 0 for the ratio of shapes");
  CHECK(refused(x, {}, x) == "y: shares memory with x");
  CHECK(refused(Tensor(context(), {1, 2, 4, 4}, DType::i32), {}, y).find("x: dtype i32") == 0);
  CHECK(error_of<ValidationError>([&] { interpolate(stream(), x, {}, y, engine("magic")); }) ==
        "engine: interpolate has no engine 'magic'");
}

TEST_CASE("interpolate: what it keeps meanwhile is in its workspace", "[small]") {
  const Shape from{2, 3, 13, 11}, to{2, 3, 5, 29};
  Rng rng(31);
  const Tensor x = device_tensor(from, reals(element_count(from), rng));
  for (const char* name : {"cpu", "direct"}) {
    INFO("engine " << name);
    InterpolateParams params;
    params.mode = InterpolateMode::cubic;
    params.antialias = true;
    const Guarded y(to), other(to);
    interpolate(stream(), x, params, other.tensor(), engine(name == std::string("cpu") ? "direct" : "cpu"));
    const std::vector<float> expected = host_values(other.tensor());
    const Interpolate plan(context(), {x, y.tensor(), params}, engine(name));
    const Guarded workspace({std::max<int64_t>(static_cast<int64_t>(plan.workspace_size()), 16)}, DType::u8,
                            64);
    plan.run(stream(), x, y.tensor(), workspace.tensor());
    CHECK(workspace.intact());
    const std::vector<unsigned char> bytes = host_bytes(workspace.tensor());
    CHECK(std::any_of(bytes.begin(), bytes.end(), [](unsigned char b) { return b != 0xff; }));
    CHECK(deviation(host_values(y.tensor()), expected) < 1e-6);
  }
}

TEST_CASE("interpolation of doubles from a place that is a multiple of 16 bytes, not of 32", "[small]") {
  if (!has_doubles()) return;
  const Strides strides{5 * 5 * 8, 1, 5 * 8, 8};  // channels last
  Rng rng(8);
  const std::vector<float> memory = integers(200, rng);
  std::vector<float> shifted = memory;
  shifted.insert(shifted.begin(), 2, 100.0f);
  const Shape shape{1, 8, 5, 5}, y_shape{1, 8, 3, 3};
  const Strides y_strides{3 * 3 * 8, 1, 3 * 8, 8};
  const Tensor there = device_tensor({200}, memory, DType::f64).as_strided(shape, strides, 0),
               between = device_tensor({202}, shifted, DType::f64).as_strided(shape, strides, 2);
  const Guarded a(y_shape, y_strides, DType::f64, 64), b(y_shape, y_strides, DType::f64, 66);
  for (const auto& [x, y] : {std::pair(&there, &a), std::pair(&between, &b)}) {
    interpolate(stream(), *x, {Mode::linear}, y->tensor(), engine("direct"));
    CHECK(y->intact());
  }
  const Values expected = apply(values_of(there), shape, {shape, {3, 3}, {Mode::linear}}, false);
  CHECK(deviation(host_values(a.tensor()), expected) <= 0x1p-23);
  CHECK(host_bytes(b.tensor()) == host_bytes(a.tensor()));
}
