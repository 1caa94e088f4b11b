// Affine grids against loops in double; the gradient of theta by finite differences, too.
#include <dlprim/affine_grid.hpp>

#include <cmath>

#include <dlprim/grid_sample.hpp>

#include "cases/nn.hpp"
#include "catch.hpp"

using namespace dlprim;
using namespace dlprim::test;

namespace {

struct Case {
  Shape grid;
  bool align_corners = false;

  int axes() const { return grid.size() - 2; }
  Shape theta() const { return {grid[0], axes(), axes() + 1}; }
  std::string text() const { return "grid=" + to_string(grid) + (align_corners ? " align_corners" : ""); }
};

const Case kCases[] = {
    {{1, 1, 1, 2}},           {{1, 1, 1, 2}, true}, {{2, 5, 7, 2}},          {{2, 5, 7, 2}, true},
    {{3, 1, 9, 2}, true},     {{3, 2, 33, 2}},      {{2, 3, 4, 5, 3}},       {{2, 3, 4, 5, 3}, true},
    {{1, 1, 2, 1, 3}, false}, {{0, 3, 4, 2}},       {{2, 0, 4, 2}, true},    {{2, 3, 0, 4, 3}},
    {{1, 70, 65, 2}},         {{2, 3, 6, 2}},       {{2, 3, 2, 8, 3}, true}, {{1, 2, 2, 2, 3}, true},
};

double place(int64_t i, int64_t size, bool align_corners) {
  if (size == 1) return 0;
  const auto at = static_cast<double>(i), n = static_cast<double>(size);
  return align_corners ? 2 * at / (n - 1) - 1 : (2 * at + 1) / n - 1;
}

/// Calls f(n, first element of the place in the grid, (x, y, ..., 1)).
template <class F>
void for_places(const Case& c, const F& f) {
  const int axes = c.axes();
  const int64_t places = c.grid[0] ? element_count(c.grid) / axes / c.grid[0] : 0;
  for (int64_t n = 0; n < c.grid[0]; n++)
    for (int64_t p = 0; p < places; p++) {
      Values at;
      for (int64_t a = 0, rest = p; a < axes; a++) {
        const int64_t size = c.grid[axes - static_cast<int>(a)];
        at.push_back(place(rest % size, size, c.align_corners));
        rest /= size;
      }
      at.push_back(1);
      f(n, (n * places + p) * axes, at);
    }
}

Values forward(const Case& c, const Values& theta) {
  Values grid(static_cast<size_t>(element_count(c.grid)), 0.0);
  const int axes = c.axes();
  for_places(c, [&](int64_t n, int64_t to, const Values& at) {
    for (int a = 0; a < axes; a++)
      for (int j = 0; j <= axes; j++)
        grid[static_cast<size_t>(to + a)] +=
            theta[static_cast<size_t>((n * axes + a) * (axes + 1) + j)] * at[static_cast<size_t>(j)];
  });
  return grid;
}

Values backward(const Case& c, const Values& dgrid) {
  Values dtheta(static_cast<size_t>(element_count(c.theta())), 0.0);
  const int axes = c.axes();
  for_places(c, [&](int64_t n, int64_t from, const Values& at) {
    for (int a = 0; a < axes; a++)
      for (int j = 0; j <= axes; j++)
        dtheta[static_cast<size_t>((n * axes + a) * (axes + 1) + j)] +=
            dgrid[static_cast<size_t>(from + a)] * at[static_cast<size_t>(j)];
  });
  return dtheta;
}

void check(const Case& c, Placing placing, DType of_theta, DType of_grid) {
  Rng rng(3);
  const Tensor theta = placed(placing, c.theta(), reals(element_count(c.theta()), rng), of_theta);
  const Tensor dgrid = placed(placing, c.grid, reals(element_count(c.grid), rng), of_grid);
  const Guarded dtheta(c.theta(), strides_in(placing, c.theta()), of_theta);
  affine_grid_backward(stream(), dgrid, c.align_corners, dtheta.tensor());
  // A sum of up to 4 terms below 1; sums of as many terms below 1 as there are places, their errors at
  // random.
  const double places =
      static_cast<double>(element_count(c.grid)) / std::max<double>(1, static_cast<double>(c.grid[0]));
  for (const char* name : {"cpu", "direct"}) {
    const Guarded grid(c.grid, strides_in(placing, c.grid), of_grid);
    affine_grid(stream(), theta, c.align_corners, grid.tensor(), engine(name));
    CHECK(deviation(host_values(grid.tensor()), forward(c, values_of(theta))) <=
          4e-7 + storage_roundoff(of_grid));
    CHECK(grid.intact());
  }
  CHECK(deviation(host_values(dtheta.tensor()), backward(c, values_of(dgrid))) <=
        2e-7 * (2 + std::sqrt(places)) + storage_roundoff(of_theta));
  CHECK(dtheta.intact());
  const std::vector<unsigned char> first = host_bytes(dtheta.tensor());
  affine_grid_backward(stream(), dgrid, c.align_corners, dtheta.tensor());
  CHECK(host_bytes(dtheta.tensor()) == first);
}

}  // namespace

TEST_CASE("affine_grid: planes and volumes", "[small]") {
  for (const Case& c : kCases) {
    if (!is_selected(c.text())) continue;
    INFO(again(c.text()));
    check(c, Placing::row_major, DType::f32, DType::f32);
  }
}

TEST_CASE("affine_grid: placings and dtypes") {
  std::vector<DType> dtypes = {DType::f32, DType::f16, DType::bf16};
  if (has_doubles()) dtypes.push_back(DType::f64);
  for (const Placing placing : {Placing::channels_last, Placing::gaps})
    for (const Case& c : {kCases[3], kCases[6]}) {
      const std::string text = c.text() + " " + name_of(placing);
      if (!is_selected(text)) continue;
      INFO(again(text));
      check(c, placing, DType::f32, DType::f32);
    }
  for (const DType of_theta : dtypes)
    for (const DType of_grid : dtypes) {
      if (of_theta != of_grid && of_theta != DType::f32) continue;
      const std::string text = std::string(name_of(of_theta)) + " to " + name_of(of_grid);
      if (!is_selected(text)) continue;
      INFO(again(text));
      check(kCases[2], Placing::row_major, of_theta, of_grid);
    }
}

TEST_CASE("affine_grid: the gradient is that of differences", "[small]") {
  const Case c{{2, 3, 4, 2}};
  Rng rng(4);
  const std::vector<float> theta = reals(element_count(c.theta()), rng),
                           dgrid = reals(element_count(c.grid), rng);
  const Tensor dtheta(stream(), c.theta());
  affine_grid_backward(stream(), device_tensor(c.grid, dgrid), false, dtheta);
  const std::vector<float> got = host_values(dtheta);
  const auto loss = [&](const Values& at) {
    const Values grid = forward(c, at);
    double sum = 0;
    for (size_t i = 0; i < grid.size(); i++) sum += grid[i] * dgrid[i];
    return sum;
  };
  for (size_t i = 0; i < got.size(); i++)
    CHECK(std::fabs(got[i] - numeric_gradient(loss, Values(theta.begin(), theta.end()), i)) < 1e-5);
}

TEST_CASE("affine_grid: the identity's corners are exact, and sample an image as it is") {
  const Tensor theta = device_tensor({1, 2, 3}, {1, 0, 0, 0, 1, 0}), grid(stream(), {1, 9, 13, 2});
  affine_grid(stream(), theta, true, grid);
  const std::vector<float> places = host_values(grid);
  CHECK(places[0] == -1);
  CHECK(places[1] == -1);
  CHECK(places[places.size() - 2] == 1);
  CHECK(places[places.size() - 1] == 1);
  Rng rng(5);
  const std::vector<float> image = integers(9 * 13, rng);
  const Tensor x = device_tensor({1, 1, 9, 13}, image), y(stream(), x.shape());
  GridSampleParams params;
  params.align_corners = true;
  grid_sample(stream(), x, grid, params, y);
  CHECK(deviation(host_values(y), Values(image.begin(), image.end())) <= 1e-5);
}

TEST_CASE("affine_grid: what does not fit is refused by name", "[small]") {
  const Tensor theta(context(), {2, 2, 3}), grid(context(), {2, 4, 5, 2});
  const auto refused = [](const Tensor& t, const Tensor& g) {
    return error_of<ValidationError>([&] { affine_grid(stream(), t, false, g); });
  };
  CHECK(refused(Tensor(context(), {2, 3, 4}), grid) == "theta: shape [2, 3, 4] must be [2, 2, 3]");
  CHECK(refused(theta, Tensor(context(), {2, 4, 5, 3})) == "grid: size 3 of the last axis must be 2");
  CHECK(refused(theta, Tensor(context(), {2, 4, 2})) ==
        "grid: rank 3 must be 4 or 5, [N, H, W, 2] or [N, D, H, W, 3]");
  CHECK(refused(Tensor(context(), {3, 2, 3}), grid) == "theta: shape [3, 2, 3] must be [2, 2, 3]");
  CHECK(refused(theta, {}) == "grid: is not defined");
}

TEST_CASE("affine_grid: doubles from a place that is a multiple of 16 bytes, not of 32", "[small]") {
  if (!has_doubles()) return;
  const Shape shape{2, 3, 6, 2};
  Rng rng(5);
  const Tensor theta = device_tensor({2, 2, 3}, reals(12, rng), DType::f64);
  const Guarded there(shape, DType::f64, 64), between(shape, DType::f64, 66);
  for (const Guarded* grid : {&there, &between}) {
    affine_grid(stream(), theta, false, grid->tensor(), engine("direct"));
    CHECK(grid->intact());
  }
  CHECK(deviation(host_values(there.tensor()), forward({shape}, values_of(theta))) <= 0x1p-23);
  CHECK(host_bytes(between.tensor()) == host_bytes(there.tensor()));
}
