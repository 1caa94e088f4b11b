// Scans against plain loops: shapes, axes, orders, dtypes, rows in parts, special values, gradients,
// refusals.
#include <algorithm>
#include <cmath>
#include <limits>

#include <dlprim/scan.hpp>

#include "catch.hpp"
#include "support.hpp"

using namespace dlprim;
using namespace dlprim::test;

namespace {

using Floats = std::vector<float>;
using Values = std::vector<double>;
constexpr float kInf = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();

/// Calls row(places of the elements along the axis, in row-major order of the others).
template <class F>
void for_each_row(const Shape& shape, int axis, F row) {
  int64_t inner = 1, outer = 1;
  for (int d = axis + 1; d < shape.size(); d++) inner *= shape[d];
  for (int d = 0; d < axis; d++) outer *= shape[d];
  for (int64_t o = 0; o < outer; o++)
    for (int64_t i = 0; i < inner; i++) {
      std::vector<size_t> places;
      for (int64_t t = 0; t < shape[axis]; t++)
        places.push_back(static_cast<size_t>((o * shape[axis] + t) * inner + i));
      row(places);
    }
}

struct Reference {
  Values y, index;
};

Reference reference(const ScanDesc& d, const Floats& x) {
  Reference result{Values(x.size()), Values(x.size())};
  for_each_row(d.x.shape, d.axis, [&](std::vector<size_t> places) {
    if (d.reverse) std::reverse(places.begin(), places.end());
    double value = d.kind == ScanKind::product ? 1 : 0, at = 0;
    for (size_t t = 0; t < places.size(); t++) {
      const double v = x[places[t]];
      if (d.exclusive) result.y[places[t]] = value;
      const bool first = t == 0, largest = d.kind == ScanKind::maximum;
      if (d.kind == ScanKind::sum) value += v;
      if (d.kind == ScanKind::product) value *= v;
      if (d.kind > ScanKind::product &&
          (first || std::isnan(v) || (!std::isnan(value) && (largest ? v >= value : v <= value)))) {
        value = v;
        at = static_cast<double>(d.reverse ? places.size() - 1 - t : t);
      }
      if (!d.exclusive) result.y[places[t]] = value;
      result.index[places[t]] = at;
    }
  });
  return result;
}

void check(const Tensor& x, int axis, ScanKind kind, bool exclusive, bool reverse, DType y_dtype,
           double tolerance) {
  for (const char* name : engines()) {
    INFO(name << " " << to_string(x.shape()) << " strides " << to_string(x.strides()) << " axis " << axis
              << " kind " << static_cast<int>(kind) << (exclusive ? " exclusive" : "")
              << (reverse ? " reverse" : ""));
    const Guarded y(x.shape(), y_dtype, 37), index(x.shape(), DType::i64);
    ScanDesc desc{x, y.tensor(), axis, kind, exclusive, reverse};
    const bool extreme = kind > ScanKind::product;
    if (extreme) desc.index = TensorDesc(index.tensor());
    Scan(context(), desc, engine(name)).run(stream(), x, y.tensor(), extreme ? index.tensor() : Tensor());
    const Reference expected = reference(desc, host_values(x));
    CHECK(deviation(host_values(y.tensor()), expected.y) <= tolerance);
    if (extreme) CHECK(deviation(host_values(index.tensor()), expected.index) == 0);
    CHECK((y.intact() && index.intact()));
  }
}

}  // namespace

TEST_CASE("scan: sums along any axis are exact", "[small]") {
  struct Case {
    Shape shape;
    int axis;
  };
  Rng rng(1);
  for (const Case& c : {Case{{1}, 0}, Case{{7}, 0}, Case{{1000}, 0}, Case{{5, 37}, 1}, Case{{37, 5}, 0},
                        Case{{3, 64}, 1}, Case{{3, 300, 2}, 1}, Case{{9, 4, 70}, 1}, Case{{4, 1}, 1},
                        Case{{0, 3}, 1}, Case{{3, 0}, 1}, Case{{2, 3, 2, 3, 2, 3, 2, 3}, 4}}) {
    const Tensor x = device_tensor(c.shape, integers(element_count(c.shape), rng));
    check(x, c.axis, ScanKind::sum, false, false, DType::f32, 0);
  }
}

TEST_CASE("scan: every kind and order", "[small]") {
  Rng rng(2);
  for (const ScanKind kind : {ScanKind::sum, ScanKind::product, ScanKind::maximum, ScanKind::minimum})
    for (const int order : {0, 1, 2, 3}) {
      const bool exclusive = order & 1, reverse = order & 2;
      if (exclusive && kind > ScanKind::product) continue;
      // Products of numbers 1 and -1, and 2 now and then, stay small.
      Floats x = integers(6 * 68, rng, 4);
      if (kind == ScanKind::product)
        for (float& v : x) v = v > 3 ? 2.0f : v > 0 ? 1.0f : v < -3 ? 0.5f : -1.0f;
      check(device_tensor({6, 68}, x), order % 2 == 0 || kind == ScanKind::product ? 1 : 0, kind, exclusive,
            reverse, DType::f32, 1e-6);
    }
}

TEST_CASE("scan: rows and columns in parts, and the same bits twice") {
  Rng rng(3);
  const Tensor row = device_tensor({1, 100003}, integers(100003, rng, 2));
  check(row, 1, ScanKind::sum, true, true, DType::f32, 0);
  check(row, 1, ScanKind::maximum, false, false, DType::f32, 0);
  check(device_tensor({5000, 6}, integers(30000, rng, 2)), 0, ScanKind::sum, false, false, DType::f32, 0);
  const Tensor x = device_tensor({70000}, reals(70000, rng));
  for (const char* name : engines()) {
    const Tensor a(stream(), {70000}), b(stream(), {70000});
    const Scan plan(context(), {x, a, 0}, engine(name));
    plan.run(stream(), x, a);
    plan.run(stream(), x, b);
    CHECK(host_bytes(a) == host_bytes(b));
  }
  Options none = engine("gpu");
  none.workspace_limit = 0;
  CHECK(Scan(context(), {row, row, 1}, none).workspace_size() == 0);
}

TEST_CASE("scan: dtypes and places in memory", "[small]") {
  Rng rng(4);
  const Floats small = integers(3 * 4 * 16, rng, 1);
  for (const DType dtype : {DType::f16, DType::bf16, DType::f64}) {
    if (dtype == DType::f64 && !has_doubles()) continue;
    check(device_tensor({3, 4, 16}, small, dtype), 2, ScanKind::sum, false, true, dtype, 0);
  }
  const Tensor base = device_tensor({3, 4, 16}, small);
  check(base.permute({2, 0, 1}), 0, ScanKind::sum, false, false, DType::f32, 0);
  check(base.slice(2, 1, 16, 2), 2, ScanKind::sum, false, false, DType::f16, 0);
  check(base.transpose(0, 1), 1, ScanKind::minimum, false, false, DType::f32, 0);
  check(device_tensor({3, 64}, small, DType::i8), 1, ScanKind::sum, false, false, DType::i64, 0);
  check(device_tensor({3, 64}, small, DType::i32), 0, ScanKind::maximum, false, false, DType::i32, 0);
  Floats bits(64, 1);
  check(device_tensor({64}, bits, DType::boolean), 0, ScanKind::sum, false, false, DType::i32, 0);
}

TEST_CASE("scan: special values, and in place", "[small]") {
  const Tensor x = device_tensor({2, 6}, {1, kInf, 2, -kInf, 3, 4, -kInf, -kInf, kNan, 5, kNan, 6});
  const auto result = [&](const auto& f) {
    const Tensor y(stream(), {2, 6}), index(stream(), {2, 6}, DType::i32);
    f(stream(), x, ScanParams{1}, y, index, Options(), Tensor());
    Floats all = host_values(y), places = host_values(index);
    all.insert(all.end(), places.begin(), places.end());
    return all;
  };
  CHECK(deviation(result(cummax),
                  Values{1, kInf, kInf, kInf, kInf, kInf, -kInf, -kInf, kNan, kNan, kNan, kNan,
                         0, 1,    1,    1,    1,    1,    0,     1,     2,    2,    4,    4}) == 0);
  CHECK(deviation(result(cummin), Values{1, 1, 1, -kInf, -kInf, -kInf, -kInf, -kInf, kNan, kNan, kNan, kNan,
                                         0, 0, 0, 3,     3,     3,     0,     1,     2,    2,    4,    4}) ==
        0);
  cumsum(stream(), x, {1}, x);
  CHECK(deviation(host_values(x),
                  Values{1, kInf, kInf, kNan, kNan, kNan, -kInf, -kInf, kNan, kNan, kNan, kNan}) == 0);
}

TEST_CASE("scan: gradients agree with finite differences", "[small]") {
  Rng rng(5);
  const auto check_row = [&](const Floats& x, const Shape& shape, int axis, bool reverse) {
    const Floats dy = reals(element_count(shape), rng, -2, 2);
    const Tensor tx = device_tensor(shape, x), ty(stream(), shape), tdy = device_tensor(shape, dy);
    const Guarded sum(shape, DType::f32, 37), product(shape, DType::f32, 37);
    cumprod(stream(), tx, {axis, false, reverse}, ty);
    cumprod_backward(stream(), tdy, tx, ty, {axis, false, reverse}, product.tensor());
    cumsum_backward(stream(), tdy, {axis, true, reverse}, sum.tensor());
    const auto expected = [&](ScanKind kind, bool exclusive) {
      Values result;
      for (size_t i = 0; i < x.size(); i++) {
        const auto loss = [&](const Values& v) {
          // In double, so not by reference() of floats.
          double total = 0;
          for_each_row(shape, axis, [&](std::vector<size_t> places) {
            if (reverse) std::reverse(places.begin(), places.end());
            double value = kind == ScanKind::product ? 1 : 0;
            for (size_t at : places) {
              if (exclusive) total += dy[at] * value;
              value = kind == ScanKind::product ? value * v[at] : value + v[at];
              if (!exclusive) total += dy[at] * value;
            }
          });
          return total;
        };
        result.push_back(numeric_gradient(loss, Values(x.begin(), x.end()), i));
      }
      return result;
    };
    CHECK(deviation(host_values(product.tensor()), expected(ScanKind::product, false)) <= 1e-5);
    CHECK(deviation(host_values(sum.tensor()), expected(ScanKind::sum, true)) <= 1e-5);
    CHECK((sum.intact() && product.intact()));
  };
  check_row(reals(36, rng, -1.5, 1.5), {2, 9, 2}, 1, false);
  check_row(reals(36, rng, -1.5, 1.5), {2, 18}, 1, true);
  check_row({2, 0, 3, -1, 0, 0.5f, 0, 3, 1, 2, 3, 0}, {3, 4}, 1, false);  // no, one and two zeros
}

TEST_CASE("scan: the gradient of long products, by both engines") {
  Rng rng(6);
  const Shape shape{2, 5000};
  Floats x(10000);
  for (float& v : x) v = rng.integer(0, 999) == 0 ? 0.0f : rng.integer(0, 1) ? 1.0f : -1.0f;
  const Floats dy = integers(10000, rng, 2);
  const Tensor tx = device_tensor(shape, x), ty(stream(), shape), tdy = device_tensor(shape, dy);
  cumprod(stream(), tx, {1}, ty);
  const Floats y = host_values(ty);
  Values expected(10000);
  for_each_row(shape, 1, [&](const std::vector<size_t>& places) {
    double h = 0;
    for (size_t t = places.size(); t-- > 0;) {
      const size_t at = places[t];
      expected[at] = (dy[at] + h) * (t > 0 ? y[places[t - 1]] : 1);
      h = x[at] * (dy[at] + h);
    }
  });
  for (const char* name : engines()) {
    const Guarded dx(shape);
    CumprodBackward(context(), {tdy, tx, ty, dx.tensor(), 1}, engine(name))
        .run(stream(), tdy, tx, ty, dx.tensor());
    CHECK(deviation(host_values(dx.tensor()), expected) == 0);
    CHECK(dx.intact());
  }
}

namespace {

/// The gradient of cummax (cummin) of x by index, against a plain scatter: exact.
void check_extreme_backward(const Tensor& x, int axis, ScanKind kind, bool reverse, const Tensor& dy,
                            DType index_dtype, DType dx_dtype) {
  const Values found = reference({x, x, axis, kind, false, reverse}, host_values(x)).index;
  const Floats places(found.begin(), found.end()), gradient = host_values(dy);
  const Tensor index = device_tensor(x.shape(), places, index_dtype);
  Values expected(places.size());
  for_each_row(x.shape(), axis, [&](const std::vector<size_t>& row) {
    for (size_t at : row) expected[row[static_cast<size_t>(places[at])]] += gradient[at];
  });
  for (const char* name : engines()) {
    INFO(name << " " << to_string(x.shape()) << " strides " << to_string(dy.strides()) << " axis " << axis
              << " kind " << static_cast<int>(kind) << (reverse ? " reverse " : " ") << name_of(dx_dtype));
    const Guarded dx(x.shape(), dx_dtype, 37), twice(x.shape(), dx_dtype);
    const CummaxBackward plan(context(), {dy, index, dx.tensor(), axis, reverse}, engine(name));
    plan.run(stream(), dy, index, dx.tensor());
    plan.run(stream(), dy, index, twice.tensor());
    CHECK(deviation(host_values(dx.tensor()), expected) == 0);
    CHECK(host_bytes(dx.tensor()) == host_bytes(twice.tensor()));
    CHECK(dx.intact());
  }
}

}  // namespace

TEST_CASE("scan: the gradient of cumulative extremes goes to their places", "[small]") {
  struct Case {
    Shape shape;
    int axis;
  };
  Rng rng(7);
  for (const Case& c : {Case{{1}, 0}, Case{{300}, 0}, Case{{5, 37}, 1}, Case{{37, 5}, 0}, Case{{0, 3}, 1},
                        Case{{3, 0}, 1}, Case{{2, 3, 2, 3, 2, 3, 2, 3}, 4}}) {
    const int64_t count = element_count(c.shape);
    const Tensor x = device_tensor(c.shape, integers(count, rng, 9)),
                 dy = device_tensor(c.shape, integers(count, rng));
    check_extreme_backward(x, c.axis, ScanKind::maximum, false, dy, DType::i64, DType::f32);
    if (c.shape.size() == 2)
      check_extreme_backward(x, c.axis, ScanKind::minimum, true, dy, DType::i64, DType::f32);
  }
  // NaNs and infinities in x are as good as others; those of dy stay where they belong.
  const Tensor x = device_tensor({8}, {1, kInf, 2, -kInf, kNan, 5, kNan, 6}), y(stream(), {8}),
               dx(stream(), {8}), index(stream(), {8}, DType::i64);
  cummax(stream(), x, {0}, y, index);
  cummax_backward(stream(), device_tensor({8}, {kNan, kInf, 1, 2, 3, 4, 5, 6}), index, {0}, dx);
  CHECK(deviation(host_values(dx), Values{kNan, kInf, 0, 0, 7, 0, 11, 0}) == 0);
}

TEST_CASE("scan: the gradient of cumulative extremes, dtypes and places in memory") {
  Rng rng(8);
  const Floats values = integers(3 * 4 * 16, rng, 9), gradient = integers(3 * 4 * 16, rng, 1);
  const Tensor x = device_tensor({3, 4, 16}, values);
  for (const DType dtype : {DType::f16, DType::f64}) {
    if (dtype == DType::f64 && !has_doubles()) continue;
    check_extreme_backward(x, 2, ScanKind::maximum, false, device_tensor({3, 4, 16}, gradient, dtype),
                           DType::i32, dtype);
  }
  const Tensor dy = device_tensor({3, 4, 16}, gradient);
  check_extreme_backward(x, 2, ScanKind::maximum, false, dy, DType::i64, DType::bf16);
  check_extreme_backward(x.slice(2, 1, 16, 2), 2, ScanKind::minimum, false, dy.slice(2, 1, 16, 2), DType::i64,
                         DType::f32);
  // In parts: runs that go over many of them, and over none.
  Floats rare(100003, 0.0f);
  for (float& v : rare) v = rng.integer(0, 30000) == 0 ? static_cast<float>(rng.integer(1, 9)) : -1.0f;
  check_extreme_backward(device_tensor({1, 100003}, rare), 1, ScanKind::maximum, false,
                         device_tensor({1, 100003}, integers(100003, rng, 2)), DType::i64, DType::f32);
  check_extreme_backward(device_tensor({5000, 6}, integers(30000, rng, 9)), 0, ScanKind::minimum, true,
                         device_tensor({5000, 6}, integers(30000, rng, 2)), DType::i64, DType::f32);
}

TEST_CASE("scan: the gradient of cummax agrees with finite differences", "[small]") {
  Rng rng(9);
  Floats x(24);  // all different, farther apart than the step
  for (size_t e = 0; e < x.size(); e++) x[e] = static_cast<float>(e * 7 % 24) * 0.1f;
  const Floats dy = reals(24, rng);
  const Shape shape{2, 12};
  const Tensor y(stream(), shape), index(stream(), shape, DType::i32);
  const Guarded dx(shape);
  cummax(stream(), device_tensor(shape, x), {1}, y, index);
  cummax_backward(stream(), device_tensor(shape, dy), index, {1}, dx.tensor());
  const auto loss = [&](const Values& v) {
    double total = 0;
    for_each_row(shape, 1, [&](const std::vector<size_t>& places) {
      double most = v[places[0]];
      for (size_t at : places) total += dy[at] * (most = std::max(most, v[at]));
    });
    return total;
  };
  const Floats gradient = host_values(dx.tensor());
  for (size_t e = 0; e < x.size(); e++)
    CHECK(gradient[e] == Approx(numeric_gradient(loss, Values(x.begin(), x.end()), e)).margin(1e-6));
}

TEST_CASE("scan: refusals", "[small]") {
  const Tensor x = device_tensor({2, 3}, {1, 2, 3, 4, 5, 6}), y(stream(), {2, 3}),
               whole(stream(), {2, 3}, DType::i32);
  CHECK(refusal([&] { cumsum(stream(), x, {2}, y); }) == "axis: axis 2 of a tensor of rank 2");
  CHECK(refusal([&] { cumsum(stream(), x, {0}, {}); }) == "y: is not defined");
  CHECK(refusal([&] {
          cumsum(stream(), x, {0}, Tensor(stream(), {3, 2}));
        }) == "y: shape [3, 2] must be [2, 3]");
  CHECK(refusal([&] { cumsum(stream(), x, {0}, whole); }) == "y: dtype i32: cumsum of f32 is floating");
  CHECK(refusal([&] { cummax(stream(), x, {0}, whole); }) == "y: dtype i32 must be f32");
  CHECK(refusal([&] { cummax(stream(), x, {0}, y, x); }) == "index: dtype f32 must be i32 or i64");
  CHECK(refusal([&] { cumsum(stream(), x.slice(1, 0, 2), {0}, x.slice(1, 1, 3)); }) ==
        "y: shares memory with x without being the same tensor");
  CHECK(refusal([&] {
          Scan(context(), {x, y, 0, ScanKind::maximum, true});
        }) == "exclusive: cummax of no elements is nothing");
  CHECK(refusal([&] { cumprod_backward(stream(), x, x, y, {0}, y); }) == "dx: shares memory with y");
  CHECK(refusal([&] { cummax_backward(stream(), x, x, {0}, y); }) == "index: dtype f32 must be i32 or i64");
  CHECK(refusal([&] { cummax_backward(stream(), x, {}, {0}, y); }) == "index: is not defined");
  CHECK(refusal([&] { cummax_backward(stream(), x, whole, {2}, y); }) ==
        "axis: axis 2 of a tensor of rank 2");
  CHECK(refusal([&] { cummax_backward(stream(), x, whole, {0}, whole); }) ==
        "dx: dtype i32 must be f32, f16, bf16 or f64");
  CHECK(host_values(x) == Floats{1, 2, 3, 4, 5, 6});
}
