// The winograd engine's errors: of its matrices, none; of its results, below a bound, and by comparison with
// chains of multiply-adds.
#include <algorithm>
#include <cmath>

#include "cases/conv_winograd.hpp"
#include "cases/gemm.hpp"
#include "catch.hpp"
#include "core/gen/winograd.hpp"

using namespace dlprim;
using namespace dlprim::test;
using detail::Fraction;

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

double largest_error(const std::vector<float>& got, const std::vector<double>& expected) {
  double most = 0;
  for (size_t i = 0; i < got.size(); i++) {
    const double error = std::abs(got[i] - expected[i]);
    most = error <= most ? most : error;  // a NaN stays
  }
  return most;
}

void check_bounded(const ConvCase& c, int m, const std::string& name, int64_t first = 5) {
  if (!is_selected(c.text())) return;
  INFO(name << ", " << again(c.text()));
  const ConvData data = real_conv_data(c);
  const ConvResults got = run_conv(c, data, engine(name), first);
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
  CHECK(got.intact);
  CHECK(got.repeats);
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
  for (ConvCase c : winograd_convs()) {  // in pairs of channels
    c.c += c.c % 2, c.k += c.k % 2;
    check_bounded(c.in(Layout::nhwc), 4, "winograd:m=4,cpu=0", 8);
  }
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

/// dw by one chain of multiply-adds for each result. The naive engine has chains of rows.
std::vector<float> filter_chains(const ConvCase& c, const ConvData& data) {
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
  const ConvData data = real_conv_data(c);
  const ConvResults chain = run_conv(c, data, engine("naive")),
                    small = run_conv(c, data, engine("winograd:m=2")),
                    large = run_conv(c, data, engine("winograd:m=4"));
  const auto check = [&](const char* direction, const auto& a_chain, const auto& f2, const auto& f4,
                         const std::vector<double>& expected) {
    const double most = relative_error(a_chain, expected);
    INFO(direction << ": " << relative_error(f2, expected) / most << ", "
                   << relative_error(f4, expected) / most);
    CHECK(relative_error(f2, expected) <= most);
    CHECK(relative_error(f4, expected) <= 3 * most);
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
