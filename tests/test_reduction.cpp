// Reductions by name: each line of the list against a reference in double and finite differences, special
// values, ties, integers, views, refusals. Shapes and both engines of the generator: test_reduce.cpp.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <limits>

#include <dlprim/reduction.hpp>

#include "cases/reduction.hpp"
#include "catch.hpp"
#include "support.hpp"

using namespace dlprim;
using namespace dlprim::test;

namespace {

using Function = ReductionFunction;
using Result = Function::Result;
using Floats = std::vector<float>;
using Values = std::vector<double>;
constexpr float kInf = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();

Values parameters_of(const Function& f) {
  Values values;
  for (const auto& p : f.parameters) values.push_back(p.standard);
  return values;
}

DType result_dtype(const Function& f, size_t i, DType x) {
  if (f.results[i] == "index" || f.result == Result::count) return DType::i64;
  if (f.result == Result::truth) return DType::boolean;
  return is_floating(x) || f.result == Result::extreme ? x : f.floating ? DType::f32 : DType::i64;
}

/// The elements of x that each result is made of.
std::vector<Values> groups_of(const Floats& x, const Shape& shape, const Shape& y) {
  std::vector<Values> groups(static_cast<size_t>(element_count(y)));
  for_each_reduced(shape, y, [&](size_t i, size_t k) { groups[k].push_back(x[i]); });
  return groups;
}

/// Rounded as the result is, up to a few units in its last place and the roundings of n terms.
double tolerance(DType dtype) {
  return dtype == DType::bf16 ? 8e-3 : dtype == DType::f16 ? 1e-3 : 2e-6;
}

void check_forward(const Function& f, const Tensor& x, const Shape& y, const Values& parameters) {
  const std::string name =
      f.name + " " + to_string(x.shape()) + " to " + to_string(y) + " " + name_of(x.dtype());
  if (!is_selected(name)) return;
  INFO(again(name) << " strides " << to_string(x.strides()));
  std::vector<Guarded> results;
  std::vector<Tensor> ys;
  for (size_t i = 0; i < f.results.size(); i++) {
    results.emplace_back(y, result_dtype(f, i, x.dtype()), 37);
    ys.push_back(results.back().tensor());
  }
  reduction(stream(), f.name, x, scalars(parameters), ys);
  const Values all = parameters.empty() ? parameters_of(f) : parameters;
  const std::vector<Values> groups = groups_of(host_values(x), x.shape(), y);
  for (size_t i = 0; i < ys.size(); i++) {
    Values expected;
    for (const Values& group : groups)
      expected.push_back(reduction_reference(f.name).f(group, all.data())[i]);
    CHECK(deviation(host_values(ys[i]), expected) <= tolerance(ys[i].dtype()));
    CHECK(results[i].intact());
  }
}

Tensor random_x(const Function& f, const Shape& shape, Rng& rng, DType dtype = DType::f32) {
  const ReductionReference& r = reduction_reference(f.name);
  return device_tensor(shape, reals(element_count(shape), rng, r.low, r.high), dtype);
}

/// dx against differences of the reference, where dy is random.
void check_gradient(const Function& f, const Floats& x, const Shape& shape, const Shape& y,
                    const Values& parameters, double margin) {
  INFO("gradient of " << f.name << " " << to_string(shape) << " to " << to_string(y));
  Rng rng(11);
  const Tensor dx_in = device_tensor(shape, x);
  std::vector<Tensor> results, dys;
  std::vector<Floats> slopes;
  for (size_t i = 0; i < f.results.size(); i++) {
    results.emplace_back(stream(), y, result_dtype(f, i, DType::f32));
    if (f.results[i] == "index") continue;
    slopes.push_back(reals(element_count(y), rng, 0.5, 2));
    dys.push_back(device_tensor(y, slopes.back()));
  }
  reduction(stream(), f.name, dx_in, scalars(parameters), results);
  const Guarded dx(shape, DType::f32, 37);
  reduction_backward(stream(), f.name, dys, dx_in, results, scalars(parameters), dx.tensor());
  const Values all = parameters.empty() ? parameters_of(f) : parameters;
  const std::vector<Values> groups = groups_of(x, shape, y);
  std::vector<size_t> met(groups.size(), 0);
  const Floats got = host_values(dx.tensor());
  for_each_reduced(shape, y, [&](size_t i, size_t k) {
    const auto loss = [&](const Values& v) {
      double sum = 0;
      for (size_t r = 0; r < slopes.size(); r++)
        sum += slopes[r][k] * reduction_reference(f.name).f(v, all.data())[r];
      return sum;
    };
    const double expected = numeric_gradient(loss, groups[k], met[k]++, 1e-5);
    INFO("element " << i << " of " << groups[k].size());
    CHECK(got[i] == Approx(expected).epsilon(1e-4).margin(margin));
  });
  CHECK(dx.intact());
}

Floats result_of(const char* f, const Tensor& x, const Shape& y, DType dtype, const Values& parameters = {}) {
  const Guarded result(y, dtype);
  reduction(stream(), f, x, scalars(parameters), {result.tensor()});
  CHECK(result.intact());
  return host_values(result.tensor());
}

}  // namespace

TEST_CASE("reduction: every function agrees with its reference") {
  struct Axes {
    Shape x, y;
  };
  const Axes others[] = {{{37, 5}, {1, 5}}, {{4, 6, 3, 8}, {1, 6, 1, 1}}};
  Rng rng(1);
  size_t turn = 0;
  for (const Function& f : reduction_functions()) {
    check_forward(f, random_x(f, {5, 37}, rng), {5, 1}, {});
    const Axes& other = others[turn++ % 2];
    check_forward(f, random_x(f, other.x, rng), other.y, {});
    if (!f.parameters.empty())
      check_forward(f, random_x(f, {5, 37}, rng), {5, 1}, {f.name == "lp" ? 1.5 : 0.0});
  }
}

TEST_CASE("reduction: other dtypes and places in memory") {
  Rng rng(2);
  size_t turn = 0;
  constexpr DType kDtypes[] = {DType::f16, DType::bf16, DType::f64};
  for (const Function& f : reduction_functions()) {
    DType dtype = kDtypes[turn % 3];
    if (dtype == DType::f64 && !has_doubles()) dtype = DType::f16;
    const Tensor base = random_x(f, {3, 7, 4, 6}, rng, dtype);
    switch (turn++ / 3 % 3) {
      case 0:
        check_forward(f, base.permute({0, 3, 1, 2}), {1, 6, 1, 1}, {});
        break;
      case 1:
        check_forward(f, base.slice(3, 1, 6, 2), {3, 7, 4, 1}, {});
        break;
      default:
        check_forward(f, base.transpose(0, 2), {1, 7, 3, 1}, {});
    }
  }
}

TEST_CASE("reduction: shapes of all kinds", "[small]") {
  Rng rng(3);
  for (const char* name : {"sum", "max", "var_mean"}) {
    const Function& f = reduction_function(name);
    const Values parameters = f.parameters.empty() ? Values{} : Values{0};
    check_forward(f, random_x(f, {1}, rng), {1}, parameters);
    check_forward(f, random_x(f, {3, 1}, rng), {3, 1}, parameters);
    check_forward(f, random_x(f, {1000}, rng), {1}, parameters);
    check_forward(f, random_x(f, {2, 3, 2, 3, 2, 3, 2, 3}, rng), {2, 1, 2, 1, 1, 3, 1, 3}, parameters);
    check_forward(f, random_x(f, {0, 5}, rng), {0, 1}, parameters);
  }
  const Tensor x = device_tensor({2, 3}, {1, 2, 3, 4, 5, 6}), row(stream(), {3});
  reduction(stream(), "sum", x, {}, {row});  // the axis in front is gone
  CHECK(host_values(row) == Floats{5, 7, 9});
  const Tensor scalar(stream(), Shape{}, DType::i32);
  reduction(stream(), "argmax", x, {}, {scalar});
  CHECK(host_values(scalar) == Floats{5});
}

TEST_CASE("reduction: gradients agree with finite differences") {
  Rng rng(4);
  size_t turn = 0;
  for (const Function& f : reduction_functions()) {
    if (!f.has_gradient()) continue;
    const Shape y = turn++ % 2 ? Shape{3, 1, 5} : Shape{1, 4, 1};
    const ReductionReference& r = reduction_reference(f.name);
    Floats x = reals(60, rng, r.low, r.high);
    for (float& v : x) v += v > 0 ? 0.125f : -0.125f;  // away from corners
    check_gradient(f, x, {3, 4, 5}, y, {}, 1e-4);
    if (!f.parameters.empty()) check_gradient(f, x, {3, 4, 5}, y, {f.name == "lp" ? 1.5 : 0.0}, 1e-4);
  }
}

TEST_CASE("reduction: the gradient of a product with zeros", "[small]") {
  check_gradient(reduction_function("prod"), {2, 3, 0.5f, -4, 2, 0, 3, -1, 0, 2, 0, 3}, {3, 4}, {3, 1}, {},
                 1e-5);
}

TEST_CASE("reduction: gradients at ties and corners", "[small]") {
  const Tensor x = device_tensor({3, 4}, {1, 3, 3, 2, 0, 0, 0, 0, 5, kNan, 5, 1});
  const Tensor dy = device_tensor({3, 1}, {2, 8, 1});
  const auto gradient = [&](const char* f, const Values& parameters = {}) {
    std::vector<Tensor> results;
    const Function& function = reduction_function(f);
    for (size_t i = 0; i < function.results.size(); i++)
      results.emplace_back(stream(), Shape{3, 1}, result_dtype(function, i, DType::f32));
    reduction(stream(), f, x, scalars(parameters), results);
    const Guarded dx({3, 4});
    reduction_backward(stream(), f, {dy}, x, results, scalars(parameters), dx.tensor());
    CHECK(dx.intact());
    return host_values(dx.tensor());
  };
  const auto start = [](const Floats& v, size_t n = 8) {
    return Floats(v.begin(), v.begin() + static_cast<std::ptrdiff_t>(n));
  };
  CHECK(start(gradient("amax")) == Floats{0, 1, 1, 0, 2, 2, 2, 2});
  CHECK(start(gradient("amin")) == Floats{2, 0, 0, 0, 2, 2, 2, 2});
  CHECK(std::isnan(gradient("amax")[8]));
  CHECK(gradient("max") == Floats{0, 2, 0, 0, 8, 0, 0, 0, 0, 1, 0, 0});
  CHECK(gradient("min") == Floats{2, 0, 0, 0, 8, 0, 0, 0, 0, 1, 0, 0});
  CHECK(gradient("linf") == Floats{0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0});  // a NaN has no sign
  Values unit;  // the first row in units of its length, and a row of length 0
  for (double v : {1, 3, 3, 2, 0, 0, 0, 0}) unit.push_back(2 * v / std::sqrt(23.0));
  CHECK(deviation(start(gradient("l2")), unit) <= 0x1p-21);
  CHECK(deviation(start(gradient("lp", {2})), unit) <= 0x1p-21);
  CHECK(gradient("l1") == Floats{2, 2, 2, 2, 0, 0, 0, 0, 1, 0, 1, 1});
  Values spread;  // (x - 9/4) / (3 std), of a variance of 11/12
  for (double v : {1, 3, 3, 2}) spread.push_back(2 * (v - 2.25) / (3 * std::sqrt(11.0 / 12)));
  spread.resize(8);
  CHECK(deviation(start(gradient("std")), spread) <= 0x1p-20);
  CHECK(gradient("nansum") == Floats{2, 2, 2, 2, 8, 8, 8, 8, 1, 0, 1, 1});
  CHECK(gradient("l0") == Floats(12, 0));
}

TEST_CASE("reduction: special values", "[small]") {
  const Tensor x = device_tensor(
      {5, 3}, {-kInf, -kInf, -kInf, kNan, 1, kNan, kInf, 2, kInf, -0.0f, 0, 0, 3e38f, 3e38f, 0});
  const Shape y{5, 1};
  const auto same = [](const Floats& a, const Floats& b) {
    return deviation(a, Values(b.begin(), b.end())) <= 1e-6;
  };
  CHECK(same(result_of("amax", x, y, DType::f32), {-kInf, kNan, kInf, 0, 3e38f}));
  CHECK(same(result_of("amin", x, y, DType::f32), {-kInf, kNan, 2, 0, 0}));
  CHECK(result_of("argmax", x, y, DType::i32) == Floats{0, 0, 0, 0, 0});
  CHECK(result_of("argmin", x, y, DType::i64) == Floats{0, 0, 1, 0, 2});
  CHECK(same(result_of("sum", x, y, DType::f32), {-kInf, kNan, kInf, 0, kInf}));
  CHECK(same(result_of("nansum", x, y, DType::f32), {-kInf, 1, kInf, 0, kInf}));
  CHECK(same(result_of("prod", x, y, DType::f32), {-kInf, kNan, kInf, 0, 0}));
  CHECK(result_of("any", x, y, DType::boolean) == Floats{1, 1, 1, 0, 1});
  CHECK(result_of("all", x, y, DType::u8) == Floats{1, 1, 1, 0, 0});
  CHECK(result_of("count_nonzero", x, y, DType::i32) == Floats{3, 3, 3, 0, 2});
  CHECK(same(result_of("var", x, y, DType::f32), {kNan, kNan, kNan, 0, kInf}));
  CHECK(same(result_of("linf", x, y, DType::f32), {kInf, kNan, kInf, 0, 3e38f}));
  // One number has no variance: nothing is divided by nothing. Its name for the axes is a shape that lacks
  // one.
  CHECK(std::isnan(result_of("var", device_tensor({1}, {4}), Shape{}, DType::f32)[0]));
}

TEST_CASE("reduction: of nothing", "[small]") {
  const Tensor x(stream(), {2, 0});
  const Shape y{2, 1};
  CHECK(result_of("sum", x, y, DType::f32) == Floats{0, 0});
  CHECK(result_of("prod", x, y, DType::f32) == Floats{1, 1});
  CHECK(std::isnan(result_of("mean", x, y, DType::f32)[0]));
  CHECK(std::isnan(result_of("var", x, y, DType::f32)[1]));
  CHECK(result_of("any", x, y, DType::boolean) == Floats{0, 0});
  CHECK(result_of("all", x, y, DType::boolean) == Floats{1, 1});
  CHECK(result_of("l2", x, y, DType::f32) == Floats{0, 0});
  const Tensor dx(stream(), {2, 0});
  reduction_backward(stream(), "sum", {Tensor(stream(), y)}, {}, {}, {}, dx);
}

TEST_CASE("reduction: integers and bool", "[small]") {
  const Tensor x = device_tensor({2, 4}, {-7, 100, 0, 100, 1, 2, 3, -128}, DType::i8);
  const Shape y{2, 1};
  CHECK(result_of("sum", x, y, DType::i64) == Floats{193, -122});
  CHECK(result_of("sum", x, y, DType::i32) == Floats{193, -122});
  CHECK(result_of("mean", x, y, DType::f32) == Floats{48.25f, -30.5f});
  CHECK(result_of("prod", x, y, DType::i64) == Floats{0, -768});
  CHECK(result_of("amax", x, y, DType::i8) == Floats{100, 3});
  CHECK(result_of("argmax", x, y, DType::i64) == Floats{1, 2});
  CHECK(result_of("argmin", x, y, DType::i32) == Floats{0, 3});
  CHECK(result_of("count_nonzero", x, y, DType::i64) == Floats{3, 4});
  CHECK(result_of("all", x, y, DType::boolean) == Floats{0, 1});
  const Tensor large = device_tensor({3}, {0x1p31f - 128, 0x1p31f - 128, 2}, DType::i32);
  const Tensor sum(stream(), {1}, DType::i64);
  reduction(stream(), "sum", large, {}, {sum});
  CHECK(read<int64_t>(stream(), sum) == std::vector<int64_t>{4294967042});
  const Tensor bits = device_tensor({2, 3}, {1, 0, 1, 0, 0, 0}, DType::boolean);
  CHECK(result_of("sum", bits, y, DType::i64) == Floats{2, 0});
  CHECK(result_of("any", bits, y, DType::boolean) == Floats{1, 0});
  CHECK(result_of("amax", bits, y, DType::boolean) == Floats{1, 0});
}

TEST_CASE("reduction: counts are exact where floats are not") {
  const int64_t n = (1 << 24) + 3;
  const Tensor x(stream(), {n}, DType::f16);
  fill(stream(), 1, x);
  fill(stream(), 2, x.slice(0, n - 1, n));
  const Tensor count(stream(), {1}, DType::i64), index(stream(), {1}, DType::i32);
  reduction(stream(), "count_nonzero", x, {}, {count});
  reduction(stream(), "argmax", x, {}, {index});
  CHECK(read<int64_t>(stream(), count)[0] == n);
  CHECK(read<int32_t>(stream(), index)[0] == n - 1);
}

TEST_CASE("reduction: the same bits twice") {
  Rng rng(5);
  const Tensor x = device_tensor({3, 40000}, reals(120000, rng));
  for (const char* f : {"sum", "var", "l2"}) {
    const Tensor a(stream(), {3, 1}), b(stream(), {3, 1});
    reduction(stream(), f, x, {}, {a});
    reduction(stream(), f, x, {}, {b});
    CHECK(host_bytes(a) == host_bytes(b));
  }
}

TEST_CASE("reduction: norms have names", "[small]") {
  CHECK(norm_function(0) == "l0");
  CHECK(norm_function(1) == "l1");
  CHECK(norm_function(2) == "l2");
  CHECK(norm_function(kInf) == "linf");
  CHECK(norm_function(-kInf) == "lminf");
  CHECK(norm_function(2.5) == "lp");
}

TEST_CASE("reduction: refusals", "[small]") {
  const Tensor x = device_tensor({2, 3}, {1, 2, 3, 4, 5, 6}), y(stream(), {2, 1}),
               index(stream(), {2, 1}, DType::i64);
  const Tensor whole = device_tensor({2, 3}, {1, 2, 3, 4, 5, 6}, DType::i32);
  const auto refused = [&](const char* f, const Tensor& in, const std::vector<Tensor>& out,
                           const Values& p = {}) {
    return error_of<ValidationError>([&] { reduction(stream(), f, in, scalars(p), out); });
  };
  CHECK(refused("median", x, {y}) == "function: there is no 'median'; docs/reductions.md lists them");
  CHECK(refused("sum", Tensor(), {y}) == "x: is not defined");
  CHECK(refused("max", x, {y}) == "results: max has 2, not 1");
  CHECK(refused("max", x, {y, y}) == "results[1]: dtype f32 must be i32 or i64");
  CHECK(refused("argmax", x, {y}) == "results[0]: dtype f32 must be i32 or i64");
  CHECK(refused("sum", x, {index}) == "results[0]: dtype i64: sum of f32 is floating");
  CHECK(refused("mean", whole, {index}) == "results[0]: dtype i64: mean of i32 is floating");
  CHECK(refused("amax", whole, {index}) == "results[0]: dtype i64 must be i32");
  CHECK(refused("linf", whole, {index}) == "x: dtype i32 must be f32, f16, bf16 or f64");
  CHECK(refused("var", x, {y}, {1, 2}) == "parameters: var takes 1 or none, not 2");
  CHECK(refused("sum", x, {Tensor(stream(), {3, 1})}) ==
        "results[0]: shape [3, 1] is not what x's [2, 3] is reduced to");
  CHECK(refused("amax", Tensor(stream(), {2, 0}), {y}) ==
        "x: shape [2, 0] leaves amax nothing to choose from");
  CHECK(refused("sum", x, {x.slice(1, 0, 1)}) == "results[0]: shares memory with x");
  const Tensor dx(stream(), {2, 3});
  const auto backward = [&](const char* f, const std::vector<Tensor>& dy, const Tensor& in,
                            const std::vector<Tensor>& out) {
    return error_of<ValidationError>([&] { reduction_backward(stream(), f, dy, in, out, {}, dx); });
  };
  CHECK(backward("argmax", {y}, x, {}) == "function: argmax has no gradient");
  CHECK(backward("var_mean", {y}, x, {}) == "dy: var_mean has 2, not 1");
  CHECK(backward("amax", {y}, {}, {}) == "x: is needed for the gradient of amax");
  CHECK(backward("amax", {y}, x, {}) == "results[0]: is needed for the gradient of amax");
  CHECK(backward("max", {y}, x, {}) == "results[1]: is needed for the gradient of max");
  CHECK(backward("sum", {dx.slice(1, 0, 1)}, {}, {}) == "dx: shares memory with dy[0]");
}

TEST_CASE("reduction: the page of the documentation is the list", "[small]") {
  const std::string path = source_file("docs/reductions.md"), page = reductions_page();
  if (std::getenv("DLPRIM_UPDATE_GOLDEN")) std::ofstream(path) << page;
  std::ifstream file(path);
  CHECK(std::string(std::istreambuf_iterator<char>(file), {}) == page);
}
