// The winograd engine. F(2, 3) computes small integers exactly: its matrices hold 0, 1, -1 and halves, so all
// numbers are multiples of 1/4 and far below 2^22. Other forms are held to a bound for each result.
#include <algorithm>
#include <cmath>

#include "cases/conv.hpp"
#include "catch.hpp"
#include "core/gen/winograd.hpp"

using namespace dlprim;
using namespace dlprim::test;
using detail::Fraction;
using detail::FractionMatrix;

namespace {

using Numbers = std::vector<double>;

/// Tiles cut off on every side, windows along one axis, padding beyond the window and negative, more channels
/// than vectors are long.
std::vector<ConvCase> winograd_convs() {
  return {{"one tile", 1, 1, {4, 4}, 1, {3, 3}},
          {"less than a tile", 2, 3, {1, 2}, 4, {3, 3}, {{}, {1}, {1}}},
          {"cut off", 2, 5, {9, 11}, 7, {3, 3}, {{}, {1}, {1}}},
          {"channels of whole vectors", 1, 32, {8, 8}, 16, {3, 3}, {{}, {1}, {1}}},
          {"one more than vectors", 3, 17, {7, 7}, 33, {3, 3}, {{}, {1}, {1}}},
          {"wide", 1, 9, {5, 71}, 10, {3, 3}, {{}, {1, 2}, {0, 1}}},
          {"tall", 1, 2, {66, 3}, 3, {3, 3}, {{}, {2, 1}, {1, 1}}},
          {"padding beyond the window", 1, 4, {5, 6}, 3, {3, 3}, {{}, {5, 4}, {3, 6}}},
          {"cropped", 2, 4, {13, 14}, 5, {3, 3}, {{}, {-2, -1}, {-1, -3}}},
          {"rows", 2, 6, {9, 13}, 5, {1, 3}, {{}, {0, 1}, {0, 1}}},
          {"columns", 2, 6, {9, 13}, 5, {3, 1}, {{}, {1, 0}, {1, 0}}},
          {"a line", 3, 6, {37}, 20, {3}, {{}, {1}, {1}}},
          {"transposed", 2, 6, {9, 10}, 5, {3, 3}, {{}, {1}, {0}, {}, 1, Activation::identity, true}}};
}

Tensor operand(Layout layout, const Shape& shape, const std::vector<float>& values, DType dtype) {
  const Guarded room(shape, strides_in(layout, shape), dtype, 5);
  copy(stream(), device_tensor(shape, values), room.tensor());
  return room.tensor();
}

struct Data {
  std::vector<float> x, w, y;
};

struct Result {
  std::vector<float> y, dx, dw;
};

/// By the engine in all three directions, on poisoned, guarded results, twice.
Result results(const ConvCase& c, const Data& data, const Options& options) {
  const Tensor x = operand(c.x_layout, c.x_shape(), data.x, c.dtype),
               w = operand(c.w_layout, c.w_shape(), data.w, c.dtype),
               dy = operand(c.y_layout, c.y_shape(), data.y, c.dtype);
  const auto twice = [&](Layout layout, const Shape& shape, const auto& run) {
    const Guarded first(shape, strides_in(layout, shape), c.dtype, 37),
        second(shape, strides_in(layout, shape), c.dtype, 37);
    run(first.tensor());
    run(second.tensor());
    CHECK(first.intact());
    CHECK(host_bytes(first.tensor()) == host_bytes(second.tensor()));
    return host_values(first.tensor());
  };
  return {twice(c.y_layout, c.y_shape(),
                [&](const Tensor& y) { conv(stream(), x, w, {}, c.params, y, options); }),
          twice(c.x_layout, c.x_shape(),
                [&](const Tensor& dx) { conv_backward_data(stream(), dy, w, c.params, dx, options); }),
          twice(c.w_layout, c.w_shape(),
                [&](const Tensor& dw) { conv_backward_filter(stream(), x, dy, c.params, dw, options); })};
}

Data integer_data(const ConvCase& c, uint64_t seed = 1) {
  Rng rng(seed);
  return {integers(element_count(c.x_shape()), rng, 3), integers(element_count(c.w_shape()), rng, 3),
          integers(element_count(c.y_shape()), rng, 3)};
}

Data real_data(const ConvCase& c) {
  Rng rng(2);
  return {reals(element_count(c.x_shape()), rng), reals(element_count(c.w_shape()), rng),
          reals(element_count(c.y_shape()), rng)};
}

std::vector<float> rounded(const Numbers& values, DType dtype) {
  const std::vector<float> floats(values.begin(), values.end());
  if (dtype == DType::f32) return floats;
  return host_values(device_tensor({static_cast<int64_t>(floats.size())}, floats, dtype));
}

void check_exact(const ConvCase& c, const std::string& name) {
  if (!is_selected(c.text())) return;
  INFO(name << ", " << again(c.text()));
  const Data data = integer_data(c);
  const Result got = results(c, data, engine(name));
  CHECK(got.y == rounded(conv_forward_reference(c, data.x, data.w), c.dtype));
  CHECK(got.dx == rounded(conv_backward_data_reference(c, data.y, data.w), c.dtype));
  CHECK(got.dw == rounded(conv_backward_filter_reference(c, data.x, data.y), c.dtype));
}

/// The kernels for CPUs and the others run on every device.
constexpr const char* kPlain[] = {"winograd:m=2,cpu=1", "winograd:m=2,cpu=0"};
/// With one that has only the forward direction and backward data.
constexpr const char* kForward[] = {"winograd:m=2,cpu=1", "winograd:m=2,cpu=0", "winograd_fused"};

}  // namespace

TEST_CASE("winograd: F(2, 3) is exact on integers", "[conv]") {
  for (const ConvCase& c : winograd_convs())
    for (const char* name : kPlain) check_exact(c, name);
}

TEST_CASE("winograd: exact in other layouts, mixed ones and 16-bit dtypes", "[.forms]") {
  struct Way {
    Layout x, y, w;
    DType dtype;
  };
  constexpr Layout kFlat = Layout::nchw, kLast = Layout::nhwc, kGaps = Layout::gaps;
  for (const Way& way : {Way{kLast, kLast, kFlat, DType::f32}, Way{kLast, kLast, kLast, DType::f16},
                         Way{kFlat, kLast, kGaps, DType::bf16}, Way{kLast, kFlat, kLast, DType::f32},
                         Way{kGaps, kGaps, kGaps, DType::f32}, Way{kFlat, kFlat, kFlat, DType::f16}})
    for (ConvCase c : winograd_convs()) {
      c.x_layout = way.x, c.y_layout = way.y, c.w_layout = way.w, c.dtype = way.dtype;
      for (const char* name : kPlain) check_exact(c, name);
    }
}

namespace {

/// The fused kernel is exact as the others of two results are; it has no backward filter direction.
void check_fused(const ConvCase& c, const std::string& name) {
  if (!is_selected(c.text())) return;
  INFO(name << ", " << again(c.text()));
  const Data data = integer_data(c);
  const Tensor x = operand(c.x_layout, c.x_shape(), data.x, c.dtype),
               w = operand(c.w_layout, c.w_shape(), data.w, c.dtype),
               dy = operand(c.y_layout, c.y_shape(), data.y, c.dtype);
  const Guarded y(c.y_shape(), strides_in(c.y_layout, c.y_shape()), c.dtype, 37),
      dx(c.x_shape(), strides_in(c.x_layout, c.x_shape()), c.dtype, 37);
  for (int i = 0; i < 2; i++) {
    conv(stream(), x, w, {}, c.params, y.tensor(), engine(name));
    conv_backward_data(stream(), dy, w, c.params, dx.tensor(), engine(name));
    CHECK(host_values(y.tensor()) == rounded(conv_forward_reference(c, data.x, data.w), c.dtype));
    CHECK(host_values(dx.tensor()) == rounded(conv_backward_data_reference(c, data.y, data.w), c.dtype));
  }
  CHECK(y.intact());
  CHECK(dx.intact());
}

}  // namespace

TEST_CASE("winograd: the fused kernel is exact on integers", "[conv]") {
  for (ConvCase c : winograd_convs()) {
    if (c.window != Dims{3, 3}) continue;
    check_fused(c, "winograd_fused");
    c = c.in(Layout::nhwc);
    check_fused(c, "winograd_fused:channels=4");
  }
  for (ConvCase c : {ConvCase{"many filters", 1, 19, {7, 9}, 140, {3, 3}, {{}, {1}, {1}}},
                     ConvCase{"many tiles", 3, 9, {13, 15}, 35, {3, 3}, {{}, {0}, {2}}}}) {
    check_fused(c, "winograd_fused:filters=32");
    c.x_layout = Layout::nhwc, c.w_layout = Layout::gaps, c.dtype = DType::f16;
    check_fused(c, "winograd_fused:channels=2");
    c.x_layout = Layout::gaps, c.y_layout = Layout::nhwc, c.dtype = DType::bf16;
    check_fused(c, "winograd_fused:filters=64");
  }
}

TEST_CASE("winograd: exact in chunks, and with as little workspace as one row of tiles needs", "[conv]") {
  const ConvCase c{"chunks", 3, 6, {11, 13}, 20, {3, 3}, {{}, {1}, {1}}};
  for (const char* name : {"winograd:m=2,cpu=1,rows=4", "winograd:m=2,cpu=0,rows=5", "winograd:m=2,rows=1"})
    check_exact(c, name);
  const Data data = integer_data(c);
  Options options = engine("winograd:m=2");
  options.workspace_limit = 1;
  const ConvDesc desc{{c.x_shape()}, {c.w_shape()}, {c.y_shape()}, c.params};
  const std::string text = error_of<ValidationError>([&] { Conv(context(), desc, options); });
  CHECK_THAT(text, contains("winograd: needs ") && contains(" bytes of workspace, the limit is "));
  const size_t at = text.find("winograd: needs ") + 16;
  // Rounding of the parts, and GEMM's own wishes, come on top.
  options.workspace_limit = static_cast<size_t>(std::stoll(text.substr(at))) + 4096 + 65536;
  const Result got = results(c, data, options);
  CHECK(got.y == rounded(conv_forward_reference(c, data.x, data.w), c.dtype));
  CHECK(Conv(context(), desc, options).workspace_size() <= options.workspace_limit);
}

TEST_CASE("winograd: every extra of the forward direction, exactly", "[conv]") {
  for (Layout layout : {Layout::nchw, Layout::nhwc, Layout::gaps})
    for (const char* name : kForward) {
      INFO(name << " layout " << static_cast<int>(layout));
      ConvCase c = ConvCase{"extras", 2, 6, {9, 21}, 21, {3, 3}, {{}, {1}, {1}}}.in(layout);
      c.params.activation = Activation::relu;
      const Data data = integer_data(c);
      Rng rng(3);
      const ConvEpilogueData with{integers(c.k, rng, 9), integers(c.k, rng, 3),
                                  integers(element_count(c.y_shape()), rng, 9)};
      const Tensor x = operand(layout, c.x_shape(), data.x, c.dtype), w = device_tensor(c.w_shape(), data.w);
      ConvExtras extras;
      extras.bias = device_tensor({c.k}, with.bias), extras.scale = device_tensor({c.k}, with.scale);
      extras.residual = operand(layout, c.y_shape(), with.residual, c.dtype);
      const Guarded y(c.y_shape(), strides_in(layout, c.y_shape()), c.dtype, 37),
          before(c.y_shape(), strides_in(layout, c.y_shape()), c.dtype, 37);
      extras.residual = extras.residual.as_strided(c.y_shape(), y.tensor().strides());
      extras.preactivation = before.tensor();
      conv(stream(), x, w, extras, c.params, y.tensor(), engine(name));
      CHECK(host_values(y.tensor()) == rounded(conv_forward_reference(c, data.x, data.w, with), c.dtype));
      c.params.activation = Activation::identity;
      CHECK(host_values(before.tensor()) ==
            rounded(conv_forward_reference(c, data.x, data.w, with), c.dtype));
      CHECK(y.intact());
      CHECK(before.intact());
    }
}

TEST_CASE("winograd: constant weights are transformed once, until they are forgotten", "[conv]") {
  const ConvCase c{"constant", 2, 6, {9, 21}, 21, {3, 3}, {{}, {1}, {1}}};
  for (const char* name : kForward) {
    INFO(name);
    const Data first = integer_data(c), second = integer_data(c, 5);
    const Tensor x = device_tensor(c.x_shape(), first.x), w = device_tensor(c.w_shape(), first.w);
    const Guarded y(c.y_shape());
    ConvDesc desc{x, w, y.tensor(), c.params};
    desc.constant_w = true;
    const Conv plan(context(), desc, engine(name));
    const auto run = [&] {
      plan.run(stream(), x, w, {}, y.tensor());
      return host_values(y.tensor());
    };
    const std::vector<float> expected = rounded(conv_forward_reference(c, first.x, first.w), c.dtype);
    CHECK(run() == expected);
    copy(stream(), device_tensor(c.w_shape(), second.w), w);
    CHECK(run() == expected);
    plan.forget_constants();
    CHECK(run() == rounded(conv_forward_reference(c, first.x, second.w), c.dtype));
  }
}

namespace {

struct Axis {
  int m, r;
};

/// max over i of the sum over j, k, l of |A^T_ij| |G_jk| |B^T_jl|: what a tile's numbers of magnitude 1 are
/// multiplied by at most on their ways to one result.
double amplification(const Axis& axis) {
  const detail::WinogradMatrices f = detail::winograd_matrices(axis.m, axis.r);
  const auto row_sum = [](const std::vector<Fraction>& row) {
    double sum = 0;
    for (const Fraction& entry : row) sum += std::abs(entry.value());
    return sum;
  };
  double most = 0;
  for (const auto& row : f.target) {
    double sum = 0;
    for (size_t j = 0; j < row.size(); j++)
      sum += std::abs(row[j].value()) * row_sum(f.filter[j]) * row_sum(f.source[j]);
    most = std::max(most, sum);
  }
  return most;
}

/// A bound of |error| for operands in [-1, 1]. Each number goes through at most n roundings: in each of six
/// transforms (three along two axes) one of a matrix's entry and one for each of at most 8 terms, and one for
/// each of the sum's `terms` and its product. So the error is below n u / (1 - n u) < 1.01 n u times the sum
/// of magnitudes, which is at most the amplifications times `terms`; u = 2^-24.
double bound(const Axis& h, const Axis& w, int64_t terms) {
  const double n = 6 * 9 + static_cast<double>(terms) + 1;
  return 1.01 * n * std::ldexp(1, -24) * amplification(h) * amplification(w) * static_cast<double>(terms);
}

double largest_error(const std::vector<float>& got, const Numbers& expected) {
  double most = 0;
  for (size_t i = 0; i < got.size(); i++) {
    const double error = std::abs(got[i] - expected[i]);
    most = error <= most ? most : error;  // a NaN stays
  }
  return most;
}

void check_bounded(const ConvCase& c, int m, const std::string& name) {
  if (!is_selected(c.text())) return;
  INFO(name << ", " << again(c.text()));
  const Data data = real_data(c);
  const Result got = results(c, data, engine(name));
  const auto axis = [&](int i, bool filter) {
    const bool there = c.window.size() > i;
    const int taps = there ? static_cast<int>(c.window[c.window.size() - 1 - i]) : 1;
    return taps == 1 ? Axis{1, 1} : filter ? Axis{taps, m} : Axis{m, taps};
  };
  const Axis w = axis(0, false), h = axis(1, false), filter_w = axis(0, true), filter_h = axis(1, true);
  int64_t tiles = c.n;
  for (int i = 0; i < c.window.size(); i++) {
    const int64_t size = c.params.transposed ? c.x_shape()[2 + i] : c.y_shape()[2 + i];
    tiles *= c.window[i] == 1 ? size : (size + m - 1) / m;
  }
  CHECK(largest_error(got.y, conv_forward_reference(c, data.x, data.w)) <= bound(h, w, c.c));
  CHECK(largest_error(got.dx, conv_backward_data_reference(c, data.y, data.w)) <= bound(h, w, c.k));
  CHECK(largest_error(got.dw, conv_backward_filter_reference(c, data.x, data.y)) <=
        bound(filter_h, filter_w, tiles));
}

ConvCase random_conv(Rng& rng, int taps_h, int taps_w) {
  ConvCase c{"random", rng.integer(1, 3), rng.integer(1, 20), {}, rng.integer(1, 20), {taps_h, taps_w}};
  c.size = {rng.integer(taps_h, 17), rng.integer(taps_w, 19)};
  c.params.pad_begin = {rng.integer(0, taps_h), rng.integer(0, taps_w)};
  c.params.pad_end = {rng.integer(0, taps_h), rng.integer(0, taps_w)};
  const Layout layouts[] = {Layout::nchw, Layout::nhwc, Layout::gaps};
  c.x_layout = layouts[rng.integer(0, 2)], c.y_layout = layouts[rng.integer(0, 2)];
  c.w_layout = layouts[rng.integer(0, 2)];
  return c;
}

}  // namespace

TEST_CASE("winograd: errors stay below their bound", "[conv]") {
  for (const ConvCase& c : winograd_convs())
    for (const char* name : {"winograd:m=4,cpu=1", "winograd:m=4,cpu=0"}) check_bounded(c, 4, name);
}

TEST_CASE("winograd: random problems of all windows stay below their bound", "[.forms]") {
  struct Window {
    int h, w, m;
  };
  Rng rng(11);
  for (const Window& window : {Window{3, 3, 4},
                               {3, 3, 2},
                               {3, 1, 4},
                               {1, 3, 4},
                               {1, 3, 2},
                               {5, 1, 2},
                               {1, 5, 4},
                               {1, 7, 2},
                               {7, 1, 2},
                               {5, 5, 2},
                               {3, 5, 2}})
    for (int i = 0; i < 6; i++) {
      const ConvCase c = random_conv(rng, window.h, window.w);
      check_bounded(c, window.m, "winograd:cpu=" + std::to_string(i % 2) + ",m=" + std::to_string(window.m));
    }
}

namespace {

double rms_error(const std::vector<float>& got, const Numbers& expected) {
  double sum = 0;
  for (size_t i = 0; i < got.size(); i++) sum += std::pow(got[i] - expected[i], 2);
  return std::sqrt(sum / static_cast<double>(got.size()));
}

/// dw by one chain of multiply-adds for each result. The naive engine has chains of rows.
std::vector<float> filter_chains(const ConvCase& c, const Data& data) {
  const int64_t size = c.size[0];  // square, padded by one, 3x3
  std::vector<float> dw;
  for (int64_t k = 0; k < c.k; k++)
    for (int64_t channel = 0; channel < c.c; channel++)
      for (int64_t tap = 0; tap < 9; tap++) {
        float sum = 0;
        for (int64_t n = 0; n < c.n; n++)
          for (int64_t i = 0; i < size * size; i++) {
            const int64_t h = i / size + tap / 3 - 1, w = i % size + tap % 3 - 1;
            if (h < 0 || h >= size || w < 0 || w >= size) continue;
            sum = std::fma(data.x[static_cast<size_t>(((n * c.c + channel) * size + h) * size + w)],
                           data.y[static_cast<size_t>((n * c.k + k) * size * size + i)], sum);
          }
        dw.push_back(sum);
      }
  return dw;
}

}  // namespace

// `strict` depends on the first, the choice of points on the second: see docs/decisions.md.
TEST_CASE(
    "winograd: two results at a time err less than a chain of multiply-adds, four less than three times as "
    "much",
    "[conv]") {
  const ConvCase c{"errors", 2, 64, {16, 16}, 48, {3, 3}, {{}, {1}, {1}}};
  const Data data = real_data(c);
  const Result chain = results(c, data, engine("naive")), small = results(c, data, engine("winograd:m=2")),
               large = results(c, data, engine("winograd:m=4"));
  const auto check = [&](const char* direction, const auto& a_chain, const auto& f2, const auto& f4,
                         const Numbers& expected) {
    const double most = rms_error(a_chain, expected);
    INFO(direction << ": " << rms_error(f2, expected) / most << ", " << rms_error(f4, expected) / most);
    CHECK(rms_error(f2, expected) <= most);
    CHECK(rms_error(f4, expected) <= 3 * most);
  };
  check("forward", chain.y, small.y, large.y, conv_forward_reference(c, data.x, data.w));
  check("backward data", chain.dx, small.dx, large.dx, conv_backward_data_reference(c, data.y, data.w));
  check("backward filter", filter_chains(c, data), small.dw, large.dw,
        conv_backward_filter_reference(c, data.x, data.y));
}

// y_i = sum over k of w_k x_(i + k), so that the sum over j of A^T_ij G_jk B^T_jl must be 1 for l = i + k,
// else 0.
TEST_CASE("winograd: matrices are those of a correlation", "[small]") {
  for (const Axis axis :
       {Axis{1, 1}, {2, 2}, {2, 3}, {3, 2}, {4, 3}, {3, 4}, {2, 5}, {5, 2}, {4, 5}, {5, 4}, {2, 7}, {7, 2}}) {
    INFO("F(" << axis.m << ", " << axis.r << ")");
    const detail::WinogradMatrices f = detail::winograd_matrices(axis.m, axis.r);
    const auto products = static_cast<size_t>(axis.m + axis.r - 1);
    bool same = f.target.size() == static_cast<size_t>(axis.m) && f.filter.size() == products;
    for (size_t i = 0; i < f.target.size(); i++)
      for (size_t k = 0; k < static_cast<size_t>(axis.r); k++)
        for (size_t l = 0; l < products; l++) {
          Fraction sum = 0;
          for (size_t j = 0; j < products; j++) sum = sum + f.target[i][j] * f.filter[j][k] * f.source[j][l];
          same &= sum == Fraction(l == i + k ? 1 : 0);
        }
    CHECK(same);
  }
  CHECK(error_of<ValidationError>([] { detail::winograd_matrices(4, 4); }) ==
        "winograd: no points for 7 products");
}

TEST_CASE("winograd: what it refuses", "[conv][small]") {
  const auto refusal = [](const ConvCase& c, const char* name, MathMode math) {
    Options options = engine(name);
    options.math = math;
    const ConvDesc desc{{c.x_shape(), c.dtype}, {c.w_shape(), c.dtype}, {c.y_shape(), c.dtype}, c.params};
    return error_of<ValidationError>([&] { Conv(context(), desc, options); });
  };
  const ConvCase c{"refused", 1, 4, {9, 9}, 4, {3, 3}};
  const auto with = [&](auto change) {
    ConvCase other = c;
    change(other);
    return refusal(other, "winograd", MathMode::standard);
  };
  CHECK_THAT(with([](ConvCase& o) { o.params.stride = {2, 1}; }), contains("stride along H is 2, not 1"));
  CHECK_THAT(with([](ConvCase& o) { o.params.dilation = {1, 2}; }), contains("dilation along W is 2, not 1"));
  CHECK_THAT(with([](ConvCase& o) { o.params.groups = 2; }), contains("is for one group, there are 2"));
  CHECK_THAT(with([](ConvCase& o) { o.window = {2, 3}; }), contains("2 taps along H"));
  CHECK_THAT(with([](ConvCase& o) { o.window = {1, 1}; }), contains("window of one tap"));
  ConvCase large = c;
  large.window = {5, 5};
  CHECK_THAT(refusal(large, "winograd:m=4", MathMode::standard), contains("8 products along H exceed 6"));
  CHECK_THAT(refusal(large, "winograd_fused", MathMode::standard), contains("3x3 windows, not 5x5"));
  CHECK_THAT(refusal(c, "winograd_fused:filters=48", MathMode::standard), contains("tiles of 48 filters"));
  CHECK_THAT(with([](ConvCase& o) { o.n = 0; }), contains("nothing to multiply"));
  CHECK_THAT(with([](ConvCase& o) {
               o.size = {3, 9, 9}, o.window = {1, 3, 3};
             }),
             contains("three dimensions"));
  CHECK_THAT(refusal(c, "winograd:m=3", MathMode::standard), contains("tiles of 3, must be 2 or 4"));
  CHECK_THAT(refusal(c, "winograd:m=4", MathMode::strict), contains("math is strict"));
  CHECK(refusal(c, "winograd", MathMode::strict) == "(nothing was thrown)");
}
