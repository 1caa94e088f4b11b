// Mathematical functions in kernels against ones of more bits: on CPUs our own (src/kernels/math_cpu*.cl),
// elsewhere the driver's.
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <type_traits>

#include <dlprim/pointwise.hpp>

#include "catch.hpp"
#include "support.hpp"

using namespace dlprim;
using namespace dlprim::test;

namespace {

constexpr float kInf = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();

struct Range {
  double low, high;
};
struct Case {
  const char* name;
  double (*f)(double);
  long double (*wide)(long double);
  Range of_float, of_double;
  double ours, builtin;    ///< units in the last place that the error may have; the second by OpenCL 1.2
  double ours_double = 0;  /// 0: as `ours`
};

#define OF(f) #f, [](double v) { return std::f(v); }, [](long double v) { return std::f(v); }
const Case kCases[] = {
    {OF(exp), {-103, 88.7}, {-745, 709.7}, 2, 3},
    {OF(tanh), {-20, 20}, {-40, 40}, 4, 5},
    {OF(log), {1e-45, 3e38}, {5e-324, 1.7e308}, 2, 3},
    {OF(log2), {1e-45, 3e38}, {5e-324, 1.7e308}, 2, 3},
    {OF(log10), {1e-45, 3e38}, {5e-324, 1.7e308}, 2.5, 3},
    {OF(log1p), {-0.999999, 3e38}, {-0.999999999, 1.7e308}, 3, 2},
    {OF(expm1), {-90, 88.7}, {-750, 709.7}, 3, 3},
    {OF(exp2), {-126, 127.9}, {-1074, 1023.9}, 2, 3},
    {OF(erf), {-5, 5}, {-7, 7}, 3, 16},
    {OF(erfc), {-5, 9}, {-7, 26}, 5, 16},
    {OF(sinh), {-89, 89}, {-710, 710}, 4, 4},
    {OF(cosh), {-89, 89}, {-710, 710}, 4, 4},
    {OF(asinh), {-3e38, 3e38}, {-1e300, 1e300}, 5, 4},
    {OF(acosh), {1, 3e38}, {1, 1.7e308}, 5, 4},
    {OF(atanh), {-0.999999, 0.999999}, {-0.99999999, 0.99999999}, 5, 5},
    {OF(atan), {-3e38, 3e38}, {-1e300, 1e300}, 3, 5},
    {OF(asin), {-1, 1}, {-1, 1}, 4, 4},
    {OF(acos), {-1, 1}, {-1, 1}, 4, 4},
    {OF(sin), {-3e38, 3e38}, {-1e300, 1e300}, 2, 4, 4},  // beyond 2^20, of double, the driver's
    {OF(cos), {-3e38, 3e38}, {-1e300, 1e300}, 2, 4, 4},
    {OF(tan), {-3e38, 3e38}, {-1e300, 1e300}, 4, 5, 5},
};

bool on_cpu() {
  return context().device().kind() == DeviceKind::cpu;
}

template <class Real>
using Exact = std::conditional_t<std::is_same_v<Real, float>, double, long double>;
template <class Real>
constexpr DType kType = std::is_same_v<Real, float> ? DType::f32 : DType::f64;
template <class Real>
constexpr const char* kName = std::is_same_v<Real, float> ? " of float" : " of double";

template <class Real>
Exact<Real> exact_value(const Case& c, Real v) {
  if constexpr (std::is_same_v<Real, float>)
    return c.f(v);
  else
    return c.wide(v);
}
template <class Real>
double allowed(const Case& c) {
  if (!on_cpu()) return c.builtin;
  return kType<Real> == DType::f64 && c.ours_double > 0 ? c.ours_double : c.ours;
}

/// Between low and high, half of them evenly, half with evenly spread magnitudes.
template <class Real>
std::vector<Real> places(Range range) {
  const double low = range.low, high = range.high, least = std::is_same_v<Real, float> ? 1e-30 : 1e-250;
  Rng rng(1);
  std::vector<Real> values;
  for (int i = 0; i < 200000; i++) {
    double v = low / 2 + rng.real(-0.5, 0.5) * (high - low) + high / 2;
    if (i % 2) {
      const double side = low < 0 && (high <= 0 || rng.integer(0, 1)) ? -low : high;
      v = std::exp(rng.real(std::log(i % 4 == 1 ? least : std::min(side, 1e3) * 1e-6), std::log(side)));
      if (side == -low) v = -v;
    }
    if (v >= low && v <= high) values.push_back(static_cast<Real>(v));
  }
  return values;
}

/// |got - exact| in units of the last place of a Real near `exact`.
template <class Real>
double error_of(Real got, Exact<Real> exact) {
  const auto near = static_cast<Real>(exact);
  if (std::isnan(exact) || std::isinf(near))
    return std::isnan(exact) == std::isnan(got) && (std::isnan(exact) || got == near) ? 0 : 1e9;
  int exponent = 0;
  std::frexp(std::fmax(std::fabs(exact), static_cast<Exact<Real>>(std::numeric_limits<Real>::min())),
             &exponent);
  const auto unit = std::ldexp(static_cast<Exact<Real>>(1), exponent - std::numeric_limits<Real>::digits);
  return static_cast<double>(std::fabs(got - exact) / unit);
}

template <class Real>
Tensor tensor_of(const std::vector<Real>& values) {
  Tensor x(context(), {static_cast<int64_t>(values.size())}, kType<Real>);
  write(stream(), x, values);
  return x;
}
/// Each element by `expression`, of x0 and, where there is one, of x1.
template <class Real>
std::vector<Real> computed(const std::string& expression, const std::vector<Tensor>& x) {
  const Tensor y(context(), x[0].shape(), kType<Real>);
  pointwise(stream(), x, {y}, {}, "y0 = " + expression);
  return read<Real>(stream(), y);
}

/// Checks the function at these places.
template <class Real>
void check_at(const Case& c, const std::vector<Real>& at, const char* which = "") {
  const std::vector<Real> got = computed<Real>(std::string(c.name) + "(x0)", {tensor_of(at)});
  double worst = 0;
  Real where = 0;
  for (size_t i = 0; i < at.size(); i++)
    if (const double error = error_of<Real>(got[i], exact_value(c, at[i])); error > worst)
      worst = error, where = at[i];
  INFO(c.name << kName<Real> << which << " errs most at " << where);
  CHECK(worst <= allowed<Real>(c));
}

}  // namespace

TEST_CASE("math: errors of functions in kernels") {
  for (const Case& c : kCases) {
    check_at(c, places<float>(c.of_float));
    if (has_doubles()) check_at(c, places<double>(c.of_double));
  }
}

namespace {

struct Two {
  const char* name;
  double (*f)(double, double);
  long double (*wide)(long double, long double);
  Range of_float, of_double;
  double ours, builtin, ours_double;
};
#define OF_TWO(f)                                                        \
#f, [](double a, double b) { return std::f(a, b); }, [](long double a, \
                                                          long double b) { return std::f(a, b); }
const Two kTwos[] = {{OF_TWO(pow), {-40, 40}, {-150, 150}, 1, 16, 2},
                     {OF_TWO(atan2), {-9, 9}, {-9, 9}, 4, 6, 4},
                     {OF_TWO(fmod), {-9e9, 9}, {-9e9, 9}, 0, 0, 0},
                     {OF_TWO(hypot), {-3e38, 3e38}, {-1.2e308, 1.2e308}, 1, 4, 3}};

template <class Real>
void check_of_two(const Two& c, const std::vector<Real>& edges) {
  const Range range = std::is_same_v<Real, float> ? c.of_float : c.of_double;
  Rng rng(3);
  std::vector<Real> a, b;
  for (Real x : edges)
    for (Real y : edges) a.push_back(x), b.push_back(y);
  const auto any = [&] {
    return static_cast<Real>(range.low / 2 + rng.real(-0.5, 0.5) * (range.high - range.low) + range.high / 2);
  };
  for (int i = 0; i < 200000; i++) {
    a.push_back(any());
    b.push_back(any());
    if (i % 3 == 0) b.back() = std::round(b.back());
    if (i % 9 == 1) {  // near one, where powers are large
      a.back() = static_cast<Real>(1 + rng.real(-1e-3, 1e-3));
      b.back() = static_cast<Real>(rng.real(-7e4, 7e4));
    }
  }
  const std::vector<Real> got =
      computed<Real>(std::string(c.name) + "(x0, x1)", {tensor_of(a), tensor_of(b)});
  double worst = 0;
  size_t where = 0;
  for (size_t i = 0; i < a.size(); i++) {
    Exact<Real> exact;
    if constexpr (std::is_same_v<Real, float>)
      exact = c.f(a[i], b[i]);
    else
      exact = c.wide(a[i], b[i]);
    if (const double error = error_of<Real>(got[i], exact); error > worst) worst = error, where = i;
  }
  INFO(c.name << kName<Real> << " errs most at " << a[where] << ", " << b[where] << ": " << got[where]);
  CHECK(worst <= (!on_cpu() ? c.builtin : std::is_same_v<Real, float> ? c.ours : c.ours_double));
}

}  // namespace

TEST_CASE("math: errors of functions of two numbers") {
  const std::vector<float> edges = {kNan, kInf, -kInf, 0,      -0.0f,   1,        -1,          2,   -2,  3,
                                    -3,   0.5f, -0.5f, 1e-42f, 3.4e38f, -3.4e38f, 16777218.0f, 150, -150};
  const std::vector<double> wide = {
      kNan,        kInf,         -kInf, 0,     -0.0,       1,       -1,       2,          -2,
      3,           -3,           0.5,   -0.5,  1e-310,     1.7e308, -1.7e308, 0x1p53 + 2, 0x1p52 + 1,
      -0x1p52 - 1, 0x1p51 + 0.5, 1030,  -1030, 1 + 0x1p-52};
  for (const Two& c : kTwos) {
    check_of_two(c, edges);
    if (has_doubles()) check_of_two(c, wide);
  }
}

namespace {

/// Places up to `most`, of which a quarter is near multiples of pi / 2; in `mixed` some are far beyond.
template <class Real>
void check_quick(double most, double far) {
  Rng rng(5);
  std::vector<Real> near, mixed;
  for (int i = 0; i < 200000; i++) {
    auto v = static_cast<Real>(rng.real(-most, most));
    if (i % 4 == 1) v = static_cast<Real>(std::round(v / 1.5707963267948966) * 1.5707963267948966);
    if (i % 4 == 2) v = static_cast<Real>(rng.real(-4, 4));
    if (i % 4 == 3) v = std::ldexp(v, static_cast<int>(rng.integer(-150, -16)));
    near.push_back(v);
    mixed.push_back(i / 700 % 3 == 0 && i % 100 == 7 ? static_cast<Real>(v * far) : v);
  }
  near[0] = static_cast<Real>(-0.0), near[1] = static_cast<Real>(most), near[2] = static_cast<Real>(-most),
  near[3] = kNan;
  mixed[3000] = kInf, mixed[5000] = std::nextafter(static_cast<Real>(most), static_cast<Real>(kInf));
  for (const char* name : {"sin", "cos", "tan"}) {
    const Case& c = *std::find_if(std::begin(kCases), std::end(kCases),
                                  [&](const Case& one) { return std::string(one.name) == name; });
    check_at(c, near, " (near)");
    check_at(c, mixed, " (mixed)");
    const std::vector<Real> zero =
        computed<Real>(std::string(name) + "(x0)", {tensor_of<Real>({static_cast<Real>(-0.0)})});
    CHECK(std::signbit(zero[0]) == (std::string(name) != "cos"));
  }
}

}  // namespace

TEST_CASE("math: functions with a quick form, near, far, and mixed within a run") {
  check_quick<float>(65536, 1e25);
  if (has_doubles()) check_quick<double>(1048576, 1e25);
}

namespace {

template <class Real>
void check_fmod(int least_exponent, int most_exponent, std::initializer_list<int> between) {
  Rng rng(6);
  for (const int most : between) {  // binary places between the quotient's and 1
    std::vector<Real> a, b;
    for (int i = 0; i < 100000; i++) {
      const int exponent = static_cast<int>(rng.integer(least_exponent, most_exponent));
      b.push_back(static_cast<Real>(std::ldexp(rng.real(-2, 2), exponent)));
      a.push_back(static_cast<Real>(std::ldexp(
          rng.real(-2, 2), std::min(most_exponent, exponent + static_cast<int>(rng.integer(-3, most))))));
      if (i % 5 == 0) a.back() = b.back() * static_cast<Real>(rng.integer(-1000, 1000));
    }
    a[0] = kInf, b[1] = kInf, b[2] = 0, a[3] = static_cast<Real>(-0.0), b[3] = 1;
    const std::vector<Real> got = computed<Real>("fmod(x0, x1)", {tensor_of(a), tensor_of(b)});
    size_t wrong = 0, where = 0;
    for (size_t i = 0; i < a.size(); i++) {
      const Real exact = std::fmod(a[i], b[i]);
      const bool same = std::isnan(exact) ? std::isnan(got[i])
                                          : got[i] == exact && std::signbit(got[i]) == std::signbit(exact);
      if (!same) wrong++, where = i;
    }
    INFO("fmod" << kName<Real> << " up to 2^" << most << ", such as " << a[where] << ", " << b[where] << ": "
                << got[where]);
    CHECK(wrong == 0);
  }
}

}  // namespace

TEST_CASE("math: fmod is exact, to the sign of zero") {
  check_fmod<float>(-149, 126, {8, 21, 40, 250});
  if (has_doubles()) check_fmod<double>(-1070, 1022, {8, 49, 70, 2000});
}

namespace {

template <class Real>
void check_edges(const std::vector<Real>& edges) {
  const Tensor x = tensor_of(edges);
  for (const Case& c : kCases) {
    const std::vector<Real> got = computed<Real>(std::string(c.name) + "(x0)", {x});
    for (size_t i = 0; i < edges.size(); i++) {
      INFO(c.name << kName<Real> << " of " << edges[i] << ": " << got[i]);
      CHECK(error_of<Real>(got[i], exact_value(c, edges[i])) <= 16);
    }
  }
}

}  // namespace

TEST_CASE("math: edges of functions in kernels", "[small]") {
  check_edges<float>({kNan, kInf, -kInf, 0, -1, 1, 1e-42f, 3.4e38f, -3.4e38f, 104, -104, 0.5f, -0.5f});
  if (has_doubles())
    check_edges<double>({kNan, kInf, -kInf, 0, -1, 1, 1e-310, 1.7e308, -1.7e308, 746, -746, 0.5, -0.5});
}

TEST_CASE("math: functions with a quick form in a reduction", "[small]") {
  const Tensor x = device_tensor({2, 3}, {0, 1, 2, 3, 1e6, 5}), y(stream(), {2, 1});
  reduce(stream(), {x}, {y}, {}, sum_of("sin(x0) + fmod(x0, (real)2)"));
  const std::vector<float> got = host_values(y);
  CHECK(std::fabs(got[0] - (std::sin(1.0) + std::sin(2.0) + 1)) < 1e-6);
  CHECK(std::fabs(got[1] - (std::sin(3.0) + std::sin(1e6) + std::sin(5.0) + 2)) < 1e-6);
}
