// Elementwise functions: every one of the list against its reference, gradients against finite differences.
#include "cases/elementwise.hpp"

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <limits>

#include "cases/nn.hpp"
#include "catch.hpp"

using namespace dlprim;
using namespace dlprim::test;

namespace {

using Function = ElementwiseFunction;
using Domain = ElementwiseFunction::Domain;

/// OpenCL allows pow 16 units in the last place, all others less; results are compared relative to 1 + |y|.
constexpr double kTolerance = 2e-6;
constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInf = std::numeric_limits<float>::infinity();

std::vector<double> standard_parameters(const Function& f) {
  std::vector<double> values;
  for (const Function::Parameter& p : f.parameters) values.push_back(p.standard);
  return values;
}
std::vector<double> other_parameters(const Function& f) {
  std::vector<double> values = standard_parameters(f);
  for (double& value : values) value = std::isinf(value) ? std::copysign(1.5, value) : value + 0.25;
  return values;
}

/// Numbers for input `i` that are no nearer than 0.05 to a multiple of 1/4, where functions have kinks and
/// steps, nor to those of another input; whole ones for integers.
std::vector<float> numbers(const Function& f, size_t i, int64_t count, Rng& rng) {
  const ElementwiseReference& r = elementwise_reference(f.name);
  std::vector<float> values;
  while (static_cast<int64_t>(values.size()) < count) {
    double v = rng.real(r.low, r.high);
    if (f.domain == Domain::integers)
      v = std::round(v);
    else
      v = std::floor(v * 4) / 4 + 0.06 + 0.04 * static_cast<double>(i) + rng.real(0, 0.03);
    if (v > r.low && v < r.high) values.push_back(static_cast<float>(v));
  }
  return values;
}

/// The value at `index` of a row-major array of shape `from` broadcast to `to`.
template <class T>
T broadcast_value(const std::vector<T>& values, const Shape& from, const Shape& to, int64_t index) {
  int64_t at = 0, step = 1;
  for (int d = to.size() - 1, e = from.size() - 1; d >= 0; d--, e--) {
    if (e >= 0) at += (from[e] == 1 ? 0 : index % to[d]) * step, step *= from[e];
    index /= to[d];
  }
  return values[static_cast<size_t>(at)];
}

struct Input {
  Shape shape;
  Values values;
};

Values reference(const Function& f, const std::vector<Input>& inputs, const Shape& shape,
                 const std::vector<double>& parameters) {
  Values result;
  for (int64_t i = 0; i < element_count(shape); i++) {
    double x[3] = {};
    for (size_t j = 0; j < inputs.size(); j++)
      x[j] = broadcast_value(inputs[j].values, inputs[j].shape, shape, i);
    result.push_back(elementwise_reference(f.name).f(x, parameters.data()));
  }
  return result;
}

DType natural_dtype(const Function& f) {
  return f.domain == Domain::integers ? DType::i32 : DType::f32;
}

void check_forward(const Function& f, const Shape& shape, Placing placing, DType dtype,
                   const std::vector<double>& parameters) {
  INFO(f.name << " of " << name_of(dtype) << to_string(shape) << " " << name_of(placing));
  Rng rng(5);
  std::vector<Tensor> xs;
  std::vector<Input> inputs;
  for (size_t i = 0; i < f.inputs.size(); i++) {
    xs.push_back(placed(placing, shape, numbers(f, i, element_count(shape), rng), dtype));
    inputs.push_back({shape, values_of(xs.back())});
  }
  const DType to = f.truth ? DType::boolean : dtype;
  const Guarded y(shape, strides_in(placing, shape), to, 37),
      again(shape, strides_in(placing, shape), to, 37);
  elementwise(stream(), f.name, xs, scalars(parameters), y.tensor());
  elementwise(stream(), f.name, xs, scalars(parameters), again.tensor());
  const std::vector<double> all = parameters.empty() ? standard_parameters(f) : parameters;
  CHECK(deviation(host_values(y.tensor()), reference(f, inputs, shape, all)) <=
        kTolerance + storage_roundoff(dtype));
  CHECK(y.intact());
  CHECK(host_bytes(y.tensor()) == host_bytes(again.tensor()));
}

bool has_gradients(const Function& f) {
  for (const std::string& gradient : f.gradients)
    if (!gradient.empty()) return true;
  return false;
}

/// df/dx_i of the reference by a central difference; a NaN where it has a kink or a step nearby.
double slope(const Function& f, const double* at, size_t i, const std::vector<double>& parameters) {
  const auto difference = [&](double step) {
    double x[3] = {at[0], at[1], at[2]};
    x[i] = at[i] + step;
    const double high = elementwise_reference(f.name).f(x, parameters.data());
    x[i] = at[i] - step;
    return (high - elementwise_reference(f.name).f(x, parameters.data())) / (2 * step);
  };
  const double wide = difference(1e-3), narrow = difference(1e-4);
  return std::fabs(wide - narrow) > 1e-3 * (1 + std::fabs(narrow)) ? kNan : narrow;
}

/// Gradients of inputs of these shapes, for which dy is added up where they were broadcast.
void check_gradients(const Function& f, const std::vector<Shape>& shapes, const Shape& shape,
                     const std::vector<double>& parameters) {
  INFO("gradients of " << f.name << ", result " << to_string(shape));
  Rng rng(9);
  std::vector<Tensor> xs, gradients;
  std::vector<Input> inputs;
  std::vector<Guarded> results;
  for (size_t i = 0; i < f.inputs.size(); i++) {
    const std::vector<float> values = numbers(f, i, element_count(shapes[i]), rng);
    xs.push_back(device_tensor(shapes[i], values));
    inputs.push_back({shapes[i], {values.begin(), values.end()}});
    results.emplace_back(shapes[i], DType::f32, 37);
    gradients.push_back(f.gradients[i].empty() ? Tensor() : results.back().tensor());
  }
  const std::vector<float> dy = reals(element_count(shape), rng, -2, 2);
  elementwise_backward(stream(), f.name, device_tensor(shape, dy), xs, scalars(parameters), gradients);
  const std::vector<double> all = parameters.empty() ? standard_parameters(f) : parameters;
  for (size_t i = 0; i < inputs.size(); i++) {
    if (f.gradients[i].empty()) continue;
    INFO("of " << f.inputs[i]);
    Values expected(inputs[i].values.size()), numbered(expected.size());
    for (size_t j = 0; j < numbered.size(); j++) numbered[j] = static_cast<double>(j);
    for (int64_t e = 0; e < element_count(shape); e++) {
      double x[3] = {};
      for (size_t j = 0; j < inputs.size(); j++)
        x[j] = broadcast_value(inputs[j].values, inputs[j].shape, shape, e);
      const auto to = static_cast<size_t>(broadcast_value(numbered, shapes[i], shape, e));
      expected[to] += slope(f, x, i, all) * dy[static_cast<size_t>(e)];
    }
    const std::vector<float> got = host_values(gradients[i]);
    size_t compared = 0;
    for (size_t j = 0; j < expected.size(); j++) {
      if (std::isnan(expected[j])) continue;
      compared++;
      CHECK(got[j] == Approx(expected[j]).epsilon(1e-4).margin(1e-4));
    }
    CHECK(compared * 2 > expected.size());
    CHECK(results[i].intact());
  }
}

const std::vector<float> kSpecial = {kNan,   kInf,   -kInf,   -0.0f, 0.0f,  1e30f,
                                     -1e30f, 1e-42f, -1e-42f, 0.5f,  89.0f, -89.0f};

}  // namespace

TEST_CASE("elementwise: every function agrees with its reference") {
  for (const Function& f : elementwise_functions()) {
    check_forward(f, {3, 5, 17}, Placing::row_major, natural_dtype(f), {});
    if (!f.parameters.empty())
      check_forward(f, {67}, Placing::row_major, natural_dtype(f), other_parameters(f));
  }
}

TEST_CASE("elementwise: other dtypes and places in memory") {
  size_t turn = 0;
  for (const Function& f : elementwise_functions()) {
    constexpr DType kFloats[] = {DType::f16, DType::bf16, DType::f64};
    constexpr DType kIntegers[] = {DType::u8, DType::i64, DType::i16};
    DType dtype = f.domain == Domain::integers ? kIntegers[turn % 3] : kFloats[turn % 3];
    if (dtype == DType::u8) dtype = DType::i8;  // the numbers have both signs
    if (dtype == DType::f64 && !has_doubles()) dtype = DType::f16;
    check_forward(f, {3, 4, 2, 5}, kPlacings[turn / 3 % std::size(kPlacings)], dtype, {});
    turn++;
  }
}

TEST_CASE("elementwise: gradients agree with finite differences") {
  for (const Function& f : elementwise_functions()) {
    if (!has_gradients(f)) continue;
    const Shape shape{7, 9};
    const std::vector<Shape> shapes(f.inputs.size(), shape);
    check_gradients(f, shapes, shape, {});
    if (!f.parameters.empty() && f.name != "softshrink" && f.name != "hardshrink")
      check_gradients(f, shapes, shape, other_parameters(f));
  }
}

TEST_CASE("elementwise: gradients of inputs that were broadcast are sums", "[small]") {
  const Shape shape{4, 5, 3};
  for (const char* name : {"prelu", "mul", "atan2", "addcmul", "lerp", "where"}) {
    const Function& f = elementwise_function(name);
    std::vector<Shape> shapes = {shape, {5, 1}, {}};
    if (std::string(name) == "mul") shapes = {{4, 1, 3}, {1, 5, 1}};
    shapes.resize(f.inputs.size());
    check_gradients(f, shapes, shape, {});
  }
}

TEST_CASE("elementwise: special values") {
  for (const Function& f : elementwise_functions()) {
    if (f.domain == Domain::integers || f.inputs.size() > 2) continue;
    if (f.name == "glu") continue;  // infinity times a probability that f32 rounds to 0 is NaN, as in PyTorch
    const auto n = static_cast<int64_t>(kSpecial.size());
    std::vector<Input> inputs = {{{n, 1}, {kSpecial.begin(), kSpecial.end()}}};
    std::vector<Tensor> xs = {device_tensor({n, 1}, kSpecial)};
    Shape shape{n, 1};
    if (f.inputs.size() == 2) {
      shape = {n, n};
      inputs.push_back({{n}, {kSpecial.begin(), kSpecial.end()}});
      xs.push_back(device_tensor({n}, kSpecial));
    }
    const Guarded y(shape);
    elementwise(stream(), f.name, xs, {}, y.tensor());
    const Values expected = reference(f, inputs, shape, standard_parameters(f));
    const std::vector<float> got = host_values(y.tensor());
    for (size_t i = 0; i < got.size(); i++) {
      INFO(f.name << " of " << kSpecial[f.inputs.size() == 2 ? i / kSpecial.size() : i] << " and "
                  << kSpecial[i % kSpecial.size()] << ": " << got[i] << ", must be " << expected[i]);
      // exp(89) is beyond f32: what is divided by it may be 0, as in PyTorch.
      const bool tiny = std::fabs(expected[i]) < 1e-36 && std::fabs(got[i]) < 1e-36f;
      CHECK((tiny || deviation({got[i]}, Values{static_cast<double>(static_cast<float>(expected[i]))}) <=
                         2 * kTolerance));
    }
  }
}

namespace {

template <class T>
std::vector<T> whole_results(const char* f, DType dtype, const std::vector<T>& a, const std::vector<T>& b) {
  const Shape shape{static_cast<int64_t>(a.size())};
  const Tensor x(context(), shape, dtype), z(context(), shape, dtype);
  write(stream(), x, a);
  write(stream(), z, b);
  const Guarded y(shape, dtype);
  elementwise(stream(), f, {x, z}, {}, y.tensor());
  CHECK(y.intact());
  return read<T>(stream(), y.tensor());
}

/// As Python's, within T, in 128 bits; 0 by zero.
template <class T>
void check_whole_numbers(DType dtype) {
  using Wide = __int128;
  constexpr T kLeast = std::numeric_limits<T>::min(), kMost = std::numeric_limits<T>::max();
  constexpr int kBits = 8 * sizeof(T);
  const std::vector<T> all = {0,
                              1,
                              2,
                              3,
                              7,
                              static_cast<T>(-1),
                              static_cast<T>(-2),
                              static_cast<T>(-7),
                              10,
                              100,
                              kLeast,
                              kMost,
                              static_cast<T>(kLeast + 1),
                              static_cast<T>(kMost - 1),
                              static_cast<T>(kMost / 3),
                              63,
                              64,
                              31,
                              32,
                              5};
  std::vector<T> a, b;
  for (T x : all)
    for (T y : all) a.push_back(x), b.push_back(y);
  const auto check = [&](const char* f, auto&& exact) {
    const std::vector<T> got = whole_results(f, dtype, a, b);
    size_t wrong = 0, where = 0;
    for (size_t i = 0; i < a.size(); i++)
      if (got[i] != static_cast<T>(exact(Wide{a[i]}, Wide{b[i]}))) wrong++, where = i;
    INFO(f << " of " << name_of(dtype) << ", such as " << +a[where] << " and " << +b[where] << ": "
           << +got[where]);
    CHECK(wrong == 0);
  };
  const auto floor_rest = [](Wide x, Wide y) { return y == 0 ? 0 : (x % y + y) % y; };
  check("trunc_divide", [](Wide x, Wide y) { return y == 0 ? 0 : x / y; });
  check("floor_divide", [&](Wide x, Wide y) { return y == 0 ? 0 : (x - floor_rest(x, y)) / y; });
  check("fmod", [](Wide x, Wide y) { return y == 0 ? 0 : x % y; });
  check("remainder", floor_rest);
  check("bitwise_left_shift",
        [&](Wide x, Wide y) { return y < 0 || y >= kBits ? 0 : x << static_cast<int>(y); });
  check("bitwise_right_shift",
        [&](Wide x, Wide y) { return x >> (y < 0 || y > 63 ? 64 : static_cast<int>(y)); });
  check("pow", [](Wide x, Wide y) {
    if (y < 0) return x == 1 ? Wide{1} : x == -1 ? Wide{y % 2 == 0 ? 1 : -1} : Wide{0};
    uint64_t power = 1;  // step by step, where kernels square
    for (Wide i = 0; i < y && i < 256; i++) power *= static_cast<uint64_t>(x);
    if (y >= 256) {
      power = 1;
      uint64_t factor = static_cast<uint64_t>(x);
      for (auto rest = static_cast<uint64_t>(y); rest > 0; rest /= 2, factor *= factor)
        if (rest % 2) power *= factor;
    }
    return static_cast<Wide>(power);
  });
}

}  // namespace

TEST_CASE("elementwise: powers that have kernels of their own, and others between them", "[small]") {
  const Function& f = elementwise_function("power");
  for (double exponent : {2.0, 3.0, 2.5, -1.0, 3.0, 2.0, 0.0}) {
    INFO("exponent " << exponent);
    check_forward(f, {3, 37}, Placing::row_major, DType::f32, {exponent});
    check_gradients(f, {{3, 37}}, {3, 37}, {exponent});
    check_gradients(f, {{37}}, {3, 37}, {exponent});
  }
}

TEST_CASE("elementwise: quotients, rests, powers and shifts of whole numbers", "[small]") {
  check_whole_numbers<int8_t>(DType::i8);
  check_whole_numbers<uint8_t>(DType::u8);
  check_whole_numbers<int16_t>(DType::i16);
  check_whole_numbers<int32_t>(DType::i32);
  check_whole_numbers<int64_t>(DType::i64);
  check_whole_numbers<uint32_t>(DType::u32);
  check_whole_numbers<uint64_t>(DType::u64);
  const Tensor a = device_tensor({3}, {7, -7, 1}, DType::i32), b = device_tensor({3}, {2, 2, 0}, DType::i64);
  const Guarded y({3}), whole({3}, DType::i64);
  elementwise(stream(), "div", {a, b}, {}, y.tensor());
  CHECK(host_values(y.tensor()) == std::vector<float>{3.5f, -3.5f, kInf});
  elementwise(stream(), "floor_divide", {a, b}, {}, whole.tensor());
  CHECK(host_values(whole.tensor()) == std::vector<float>{3, -4, 0});
  CHECK(error_of<ValidationError>([&] {
          elementwise(stream(), "div", {a, b}, {}, whole.tensor());
        }) == "y: dtype i64 must be f32, f16, bf16 or f64");
}

namespace {

struct Special {
  const char* name;
  long double (*f)(long double);
  std::vector<double> low_high;  ///< pairs
  bool relative;                 ///< the error is measured relative to |y|, not to 1 + |y|
  double units;
};

template <class Real>
void check_special(const Special& c, DType dtype) {
  Rng rng(4);
  std::vector<Real> x;
  for (size_t pair = 0; pair < c.low_high.size(); pair += 2)
    for (int i = 0; i < 3000; i++)
      x.push_back(static_cast<Real>(rng.real(c.low_high[pair], c.low_high[pair + 1])));
  const Shape shape{static_cast<int64_t>(x.size())};
  const Tensor at(context(), shape, dtype), y(context(), shape, dtype);
  write(stream(), at, x);
  elementwise(stream(), c.name, {at}, {}, y);
  const std::vector<Real> got = read<Real>(stream(), y);
  double worst = 0;
  Real where = 0;
  for (size_t i = 0; i < x.size(); i++) {
    const long double exact = c.f(x[i]), scale = c.relative ? std::fabs(exact) : 1 + std::fabs(exact);
    const auto error =
        static_cast<double>(std::fabs(got[i] - exact) / scale / std::numeric_limits<Real>::epsilon());
    if (!(error <= worst)) worst = error, where = x[i];
  }
  INFO(c.name << " of " << name_of(dtype) << " errs most at " << where << ", by " << worst);
  CHECK(worst <= c.units);
}

}  // namespace

TEST_CASE("elementwise: errors of the gamma functions and of erf's inverse") {
  const auto gamma = [](long double x) { return std::lgamma(x); };
  for (const Special& c :
       {Special{"lgamma", gamma, {1e-6, 0.9, 0.9, 1.1, 1.9, 2.1, 1, 30, 30, 1e6}, true, 6},
        Special{"lgamma", gamma, {-20, 0, -3, -2}, false, 8},
        Special{"digamma", digamma_reference, {1e-3, 3, 3, 30, 30, 1e6, -0.9, -0.1, -5.4, -5.1}, false, 6},
        Special{"erfinv",
                erfinv_reference,
                {-1e-3, 1e-3, -0.9, 0.9, 0.99, 1, 0.9999, 1, -1, -0.999999},
                true,
                6}}) {
    check_special<float>(c, DType::f32);
    if (context().device().probes().fp64) check_special<double>(c, DType::f64);
  }
}

TEST_CASE("elementwise: gradients at special places are PyTorch's", "[small]") {
  const auto slopes = [](const char* f, const std::vector<std::vector<float>>& inputs, size_t of,
                         DType dtype) {
    std::vector<Tensor> xs, dxs(inputs.size());
    const auto n = static_cast<int64_t>(inputs[0].size());
    for (const std::vector<float>& x : inputs) xs.push_back(device_tensor({n}, x, dtype));
    dxs[of] = Tensor(context(), {n}, dtype);
    elementwise_backward(stream(), f, device_tensor({n}, std::vector<float>(inputs[0].size(), 1), dtype), xs,
                         {}, dxs);
    return host_values(dxs[of]);
  };
  const auto same = [](const std::vector<float>& got, const std::vector<float>& expected) {
    for (size_t i = 0; i < got.size(); i++)
      if (!(got[i] == expected[i] || (std::isnan(got[i]) && std::isnan(expected[i])))) return false;
    return true;
  };
  for (DType dtype : {DType::f32, DType::f64}) {
    if (dtype == DType::f64 && !context().device().probes().fp64) continue;
    INFO(name_of(dtype));
    CHECK(same(slopes("softsign", {{kInf, -kInf, kNan, 1}}, 0, dtype), {kNan, kNan, kNan, 0.25f}));
    CHECK(same(slopes("rsqrt", {{0, -0.0f, 4}}, 0, dtype), {-kInf, kInf, -0.0625f}));
    CHECK(same(slopes("atan2", {{0, 0, 1}, {0, -0.0f, 0}}, 0, dtype), {0, 0, 0}));
    CHECK(same(slopes("atan2", {{0, 0, 1}, {0, -0.0f, 0}}, 1, dtype), {0, 0, -1}));
    CHECK(same(slopes("remainder", {{-1, 3, -5}, {kInf, -kInf, 3}}, 1, dtype), {1, 1, 2}));
    CHECK(same(slopes("copysign", {{kInf, kNan, -2, 0}, {1, 1, 3, 1}}, 0, dtype), {kNan, kNan, -1, 0}));
    CHECK(same(slopes("acosh", {{-1, 1}}, 0, dtype), {kInf, kInf}));
    CHECK(same(slopes("lgamma", {{0, -1, kInf}}, 0, dtype), {-kInf, kNan, kInf}));
    CHECK(same(slopes("erfinv", {{1, -1, 2}}, 0, dtype), {kInf, kInf, kNan}));
    const Tensor a = device_tensor({2}, {1, 0}, dtype), b = device_tensor({2}, {kInf, -kInf}, dtype),
                 weight = device_tensor({2}, {-kInf, -kInf}, dtype), y(context(), {2}, dtype);
    elementwise(stream(), "lerp", {a, b, weight}, {}, y);
    CHECK(same(host_values(y), {kNan, kNan}));
    if (dtype != DType::f64) continue;
    const Tensor far(context(), {1}, dtype);  // a slope below the smallest float
    elementwise_backward(stream(), "erfc", device_tensor({1}, {1}, dtype), {device_tensor({1}, {13}, dtype)},
                         {}, {far});
    const double slope = -1.1283791670955126 * std::exp(-169.0);
    CHECK(std::abs(read<double>(stream(), far)[0] / slope - 1) <= 16 * 0x1p-52);
  }
}

TEST_CASE("elementwise: integers, truths and mixed dtypes", "[small]") {
  const Tensor a = device_tensor({4}, {-7, 0, 3, 100}, DType::i32),
               b = device_tensor({4}, {2, -5, 3, 50}, DType::i8);
  const auto result = [&](const char* f, const std::vector<Tensor>& xs, DType dtype,
                          const std::vector<double>& parameters = {}) {
    const Guarded y({4}, dtype);
    elementwise(stream(), f, xs, scalars(parameters), y.tensor());
    CHECK(y.intact());
    return host_values(y.tensor());
  };
  using Floats = std::vector<float>;
  CHECK(result("add", {a, b}, DType::i32, {3}) == Floats{-1, -15, 12, 250});
  CHECK(result("maximum", {a, b}, DType::i64) == Floats{2, 0, 3, 100});
  CHECK(result("clip", {a}, DType::i32) == Floats{-7, 0, 3, 100});
  CHECK(result("clip", {a}, DType::i32, {-1, 5}) == Floats{-1, 0, 3, 5});
  CHECK(result("clip", {a}, DType::i32, {5, 1}) == Floats{1, 1, 1, 1});
  CHECK(result("sign", {a}, DType::i8) == Floats{-1, 0, 1, 1});
  CHECK(result("equal", {a, b}, DType::boolean) == Floats{0, 0, 1, 0});
  CHECK(result("less", {a, b}, DType::f32) == Floats{1, 0, 0, 0});
  const Tensor c = device_tensor({4}, {1, 0, 0, 1}, DType::boolean), x = device_tensor({4}, {0.5f, 1, 2, 3});
  CHECK(result("where", {c, x, a}, DType::f32) == Floats{0.5f, 0, 3, 3});
  CHECK(result("mul", {x, c}, DType::f16) == Floats{0.5f, 0, 0, 3});
  CHECK(result("logical_not", {x}, DType::boolean) == Floats{0, 0, 0, 0});
}

// Oclgrind does not know the instruction that compilers make of it.
TEST_CASE("elementwise: magnitudes of integers") {
  const Tensor x = device_tensor({4}, {-7, 0, 3, 100}, DType::i32), y(stream(), {4}, DType::i32);
  elementwise(stream(), "abs", {x}, {}, y);
  CHECK(host_values(y) == std::vector<float>{7, 0, 3, 100});
}

TEST_CASE("elementwise: shapes of all kinds", "[small]") {
  const Function& f = elementwise_function("silu");
  for (const Shape& shape : {Shape{}, Shape{0}, Shape{1}, Shape{3, 0, 2}, Shape{2, 1, 2, 3, 1, 2, 2, 3}})
    for (Placing placing : kPlacings) check_forward(f, shape, placing, DType::f32, {});
  const Tensor x = device_tensor({2, 3}, {1, 2, 3, 4, 5, 6}), row = device_tensor({3}, {10, 20, 30});
  elementwise(stream(), "add", {x, row}, {}, x);  // in place
  CHECK(host_values(x) == std::vector<float>{11, 22, 33, 14, 25, 36});
  const Tensor dy = device_tensor({2, 3}, {1, 1, 1, 2, 2, 2}), sums(stream(), {3});
  elementwise_backward(stream(), "mul", dy, {x, row}, {}, {dy, sums});  // dx takes dy's place
  CHECK(host_values(dy) == std::vector<float>{10, 20, 30, 20, 40, 60});
  CHECK(host_values(sums) == std::vector<float>{39, 72, 105});
}

TEST_CASE("elementwise: refusals", "[small]") {
  const Tensor x = device_tensor({4}, {1, 2, 3, 4}), y(stream(), {4}),
               whole = device_tensor({4}, {1, 2, 3, 4}, DType::i32);
  const auto refused = [&](const char* f, const std::vector<Tensor>& xs, const Tensor& to,
                           const std::vector<double>& parameters = {}) {
    return error_of<ValidationError>([&] { elementwise(stream(), f, xs, scalars(parameters), to); });
  };
  CHECK(refused("magic", {x}, y) == "function: there is no 'magic'; docs/elementwise.md lists them");
  CHECK(refused("add", {x}, y) == "inputs: add takes 2, not 1");
  CHECK(refused("relu", {Tensor()}, y) == "inputs[0]: is not defined");
  CHECK(refused("relu", {whole}, y) == "inputs[0]: dtype i32: relu is for floating dtypes");
  CHECK(refused("bitwise_not", {x}, y) == "inputs[0]: dtype f32: bitwise_not is for integers and bool");
  CHECK(refused("add", {x, whole}, whole) == "y: dtype i32 must be floating, as an input is");
  CHECK(refused("elu", {x}, y, {1, 2}) == "parameters: elu takes 1 or none, not 2");
  CHECK(refused("relu", {x.slice(0, 0, 3)}, x.slice(0, 1, 4)) ==
        "y: shares memory with inputs[0] without being the same tensor");
  const auto backward = [&](const char* f, const std::vector<Tensor>& xs, const std::vector<Tensor>& dxs) {
    return error_of<ValidationError>([&] { elementwise_backward(stream(), f, y, xs, {}, dxs); });
  };
  CHECK(backward("equal", {x, x}, {y, Tensor()}) == "gradients[0]: equal has none for 'a'");
  CHECK(backward("mul", {x, x}, {y}) == "gradients: mul has 2 inputs, not 1");
  CHECK(backward("mul", {x, x}, {Tensor(stream(), {3}), Tensor()}) == "gradients[0]: shape [3] must be [4]");
  const Tensor dx(stream(), {4});
  CHECK(backward("mul", {x, x}, {dx, dx}) == "gradients[1]: shares memory with gradients[0]");
  CHECK(host_values(x) == std::vector<float>{1, 2, 3, 4});
  const Elementwise plan(context(), {"gelu", {TensorDesc({2, 3})}, TensorDesc({2, 3})});
  CHECK(plan.explain().find(
            "op=elementwise engine=generated f=gelu x0=f32[2,3] y=f32[2,3]\n  generated: chosen") == 0);
}

TEST_CASE("elementwise: the page of the documentation is the list", "[small]") {
  const std::string path = source_file("docs/elementwise.md"), page = elementwise_page();
  if (std::getenv("DLPRIM_UPDATE_GOLDEN")) std::ofstream(path) << page;
  std::ifstream file(path);
  CHECK(std::string(std::istreambuf_iterator<char>(file), {}) == page);
}
