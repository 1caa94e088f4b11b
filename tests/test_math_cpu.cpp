// Mathematical functions in kernels against double: on CPUs our own (src/kernels/math_cpu*.cl), elsewhere the
// driver's.
#include <algorithm>
#include <cmath>
#include <limits>

#include <dlprim/pointwise.hpp>

#include "catch.hpp"
#include "support.hpp"

using namespace dlprim;
using namespace dlprim::test;

namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

struct Case {
  const char* name;
  double (*f)(double);
  double low, high;
  double ours, builtin;  ///< units in the last place that the error may have; the second by OpenCL 1.2
};

#define OF(f) #f, [](double v) { return std::f(v); }
const Case kCases[] = {
    {OF(exp), -103, 88.7, 2, 3},    {OF(tanh), -20, 20, 4, 5},        {OF(log), 1e-45, 3e38, 2, 3},
    {OF(log2), 1e-45, 3e38, 2, 3},  {OF(log10), 1e-45, 3e38, 2.5, 3}, {OF(log1p), -0.999999, 3e38, 3, 2},
    {OF(expm1), -90, 88.7, 3, 3},   {OF(exp2), -126, 127.9, 2, 3},    {OF(erf), -5, 5, 3, 16},
    {OF(erfc), -5, 9, 5, 16},       {OF(sinh), -89, 89, 4, 4},        {OF(cosh), -89, 89, 4, 4},
    {OF(asinh), -3e38, 3e38, 5, 4}, {OF(acosh), 1, 3e38, 5, 4},       {OF(atanh), -0.999999, 0.999999, 5, 5},
    {OF(atan), -3e38, 3e38, 3, 5},  {OF(asin), -1, 1, 4, 4},          {OF(acos), -1, 1, 4, 4},
    {OF(sin), -3e38, 3e38, 2, 4},   {OF(cos), -3e38, 3e38, 2, 4},     {OF(tan), -3e38, 3e38, 4, 5},
};

/// Between low and high, half of them evenly, half with evenly spread magnitudes.
std::vector<float> places(double low, double high) {
  Rng rng(1);
  std::vector<float> values;
  for (int i = 0; i < 200000; i++) {
    double v = rng.real(low, high);
    if (i % 2) {
      const double side = low < 0 && (high <= 0 || rng.integer(0, 1)) ? -low : high;
      v = std::exp(rng.real(std::log(1e-30), std::log(side)));
      if (side == -low) v = -v;
    }
    if (v >= low && v <= high) values.push_back(static_cast<float>(v));
  }
  return values;
}

/// |got - exact| in units of the last place of a float near `exact`.
double error_of(float got, double exact) {
  const auto near = static_cast<float>(exact);
  if (std::isnan(exact) || std::isinf(near))
    return std::isnan(exact) == std::isnan(got) && (std::isnan(exact) || got == near) ? 0 : 1e9;
  int exponent = 0;
  std::frexp(std::fmax(std::fabs(exact), std::numeric_limits<float>::min()), &exponent);
  return std::fabs(got - exact) / std::ldexp(1.0, exponent - 24);
}

}  // namespace

TEST_CASE("math: errors of functions in kernels") {
  const bool cpu = context().device().kind() == DeviceKind::cpu;
  for (const Case& c : kCases) {
    const std::vector<float> at = places(c.low, c.high);
    const Tensor x = device_tensor({static_cast<int64_t>(at.size())}, at), y(stream(), x.shape());
    pointwise(stream(), {x}, {y}, {}, std::string("y0 = ") + c.name + "(x0)");
    const std::vector<float> got = host_values(y);
    double worst = 0;
    float where = 0;
    for (size_t i = 0; i < at.size(); i++)
      if (const double error = error_of(got[i], c.f(at[i])); error > worst) worst = error, where = at[i];
    INFO(c.name << " errs most at " << where);
    CHECK(worst <= (cpu ? c.ours : c.builtin));
  }
}

TEST_CASE("math: errors of functions of two numbers") {
  struct Two {
    const char* name;
    double (*f)(double, double);
    double low, high, ours, builtin;
  };
  const Two functions[] = {{"pow", [](double a, double b) { return std::pow(a, b); }, -40, 40, 1, 16},
                           {"atan2", [](double a, double b) { return std::atan2(a, b); }, -9, 9, 4, 6},
                           {"fmod", [](double a, double b) { return std::fmod(a, b); }, -9e9, 9, 0, 0},
                           {"hypot", [](double a, double b) { return std::hypot(a, b); }, -3e38, 3e38, 1, 4}};
  const bool cpu = context().device().kind() == DeviceKind::cpu;
  const std::vector<float> edges = {std::numeric_limits<float>::quiet_NaN(),
                                    kInf,
                                    -kInf,
                                    0,
                                    -0.0f,
                                    1,
                                    -1,
                                    2,
                                    -2,
                                    3,
                                    -3,
                                    0.5f,
                                    -0.5f,
                                    1e-42f,
                                    3.4e38f,
                                    -3.4e38f,
                                    16777218.0f,
                                    150,
                                    -150};
  for (const Two& c : functions) {
    Rng rng(3);
    std::vector<float> a, b;
    for (float x : edges)
      for (float y : edges) a.push_back(x), b.push_back(y);
    for (int i = 0; i < 200000; i++) {
      a.push_back(static_cast<float>(rng.real(c.low, c.high)));
      b.push_back(static_cast<float>(rng.real(c.low, c.high)));
      if (i % 3 == 0) b.back() = std::round(b.back());
    }
    const Tensor xs = device_tensor({static_cast<int64_t>(a.size())}, a), ys = device_tensor(xs.shape(), b),
                 result(stream(), xs.shape());
    pointwise(stream(), {xs, ys}, {result}, {}, std::string("y0 = ") + c.name + "(x0, x1)");
    const std::vector<float> got = host_values(result);
    double worst = 0;
    size_t where = 0;
    for (size_t i = 0; i < a.size(); i++)
      if (const double error = error_of(got[i], c.f(a[i], b[i])); error > worst) worst = error, where = i;
    INFO(c.name << " errs most at " << a[where] << ", " << b[where] << ": " << got[where]);
    CHECK(worst <= (cpu ? c.ours : c.builtin));
  }
}

TEST_CASE("math: functions with a quick form, near, far, and mixed within a run") {
  const bool cpu = context().device().kind() == DeviceKind::cpu;
  Rng rng(5);
  std::vector<float> near, mixed;
  for (int i = 0; i < 200000; i++) {
    float v = static_cast<float>(rng.real(-65536, 65536));
    if (i % 4 == 1) v = static_cast<float>(std::round(v / 1.5707963267948966) * 1.5707963267948966);
    if (i % 4 == 2) v = static_cast<float>(rng.real(-4, 4));
    if (i % 4 == 3) v = std::ldexp(v, static_cast<int>(rng.integer(-150, -16)));
    near.push_back(v);
    mixed.push_back(i / 700 % 3 == 0 && i % 100 == 7 ? v * 1e25f : v);
  }
  near[0] = -0.0f, near[1] = 65536, near[2] = -65536, near[3] = std::numeric_limits<float>::quiet_NaN();
  mixed[3000] = kInf, mixed[5000] = std::nextafter(65536.0f, kInf);
  for (const char* name : {"sin", "cos", "tan"})
    for (const std::vector<float>* values : {&near, &mixed}) {
      const std::vector<float>& at = *values;
      const Case& c = *std::find_if(std::begin(kCases), std::end(kCases),
                                    [&](const Case& one) { return std::string(one.name) == name; });
      const Tensor x = device_tensor({static_cast<int64_t>(at.size())}, at);
      pointwise(stream(), {x}, {x}, {}, std::string("y0 = ") + name + "(x0)");
      const std::vector<float> got = host_values(x);
      double worst = 0;
      float where = 0;
      for (size_t i = 0; i < at.size(); i++)
        if (const double error = error_of(got[i], c.f(at[i])); error > worst) worst = error, where = at[i];
      INFO(name << (values == &near ? " (near)" : " (mixed)") << " errs most at " << where);
      CHECK(worst <= (cpu ? c.ours : c.builtin));
      if (at[0] == 0) CHECK(std::signbit(got[0]) == (std::string(name) != "cos"));
    }
}

TEST_CASE("math: fmod is exact, to the sign of zero") {
  Rng rng(6);
  for (const int most : {8, 21, 40, 250}) {  // binary places between the quotient's and 1
    std::vector<float> a, b;
    for (int i = 0; i < 100000; i++) {
      const int exponent = static_cast<int>(rng.integer(-149, 126));
      b.push_back(static_cast<float>(std::ldexp(rng.real(-2, 2), exponent)));
      a.push_back(static_cast<float>(
          std::ldexp(rng.real(-2, 2), std::min(126, exponent + static_cast<int>(rng.integer(-3, most))))));
      if (i % 5 == 0) a.back() = b.back() * static_cast<float>(rng.integer(-1000, 1000));
    }
    a[0] = kInf, b[1] = kInf, b[2] = 0, a[3] = -0.0f, b[3] = 1;
    const Tensor xs = device_tensor({static_cast<int64_t>(a.size())}, a), ys = device_tensor(xs.shape(), b),
                 result(stream(), xs.shape());
    pointwise(stream(), {xs, ys}, {result}, {}, "y0 = fmod(x0, x1)");
    const std::vector<float> got = host_values(result);
    size_t wrong = 0, where = 0;
    for (size_t i = 0; i < a.size(); i++) {
      const float exact = std::fmod(a[i], b[i]);
      const bool same = std::isnan(exact) ? std::isnan(got[i])
                                          : got[i] == exact && std::signbit(got[i]) == std::signbit(exact);
      if (!same) wrong++, where = i;
    }
    INFO("up to 2^" << most << ", such as " << a[where] << ", " << b[where] << ": " << got[where]);
    CHECK(wrong == 0);
  }
}

TEST_CASE("math: edges of functions in kernels", "[small]") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> edges = {nan,     kInf,     -kInf, 0,    -1,   1,    1e-42f,
                                    3.4e38f, -3.4e38f, 104,   -104, 0.5f, -0.5f};
  for (const Case& c : kCases) {
    const Tensor x = device_tensor({static_cast<int64_t>(edges.size())}, edges), y(stream(), x.shape());
    pointwise(stream(), {x}, {y}, {}, std::string("y0 = ") + c.name + "(x0)");
    const std::vector<float> got = host_values(y);
    for (size_t i = 0; i < edges.size(); i++) {
      INFO(c.name << " of " << edges[i] << ": " << got[i]);
      CHECK(error_of(got[i], c.f(edges[i])) <= 16);
    }
  }
}

TEST_CASE("math: functions with a quick form in a reduction", "[small]") {
  const Tensor x = device_tensor({2, 3}, {0, 1, 2, 3, 1e6, 5}), y(stream(), {2, 1});
  reduce(stream(), {x}, {y}, {}, sum_of("sin(x0) + fmod(x0, (real)2)"));
  const std::vector<float> got = host_values(y);
  CHECK(std::fabs(got[0] - (std::sin(1.0) + std::sin(2.0) + 1)) < 1e-6);
  CHECK(std::fabs(got[1] - (std::sin(3.0) + std::sin(1e6) + std::sin(5.0) + 2)) < 1e-6);
}
