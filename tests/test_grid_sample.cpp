// Grid sampling, both engines, against loops in double over every place's taps; the gradient of the grid by
// finite differences of them. Some numbers are PyTorch's.
#include <dlprim/grid_sample.hpp>

#include <cmath>
#include <limits>

#include "cases/nn.hpp"
#include "catch.hpp"

using namespace dlprim;
using namespace dlprim::test;

namespace {

using Mode = GridSampleMode;
using Padding = GridSamplePadding;

const char* name_of(Mode mode) {
  const char* names[] = {"bilinear", "nearest", "bicubic"};
  return names[static_cast<int>(mode)];
}
const char* name_of(Padding padding) {
  const char* names[] = {"zeros", "border", "reflection"};
  return names[static_cast<int>(padding)];
}

struct Tap {
  int64_t at;
  double weight;
};

double moved_inside(double v, int64_t size, const GridSampleParams& p) {
  const auto last = static_cast<double>(size - 1);
  if (p.padding == Padding::zeros) return v;
  if (p.padding == Padding::reflection) {
    const double low = p.align_corners ? 0 : -0.5, high = p.align_corners ? last : last + 0.5;
    if (high == low) return 0;
    while (v < low || v > high) v = v < low ? 2 * low - v : 2 * high - v;
  }
  return std::min(std::max(v, 0.0), last);
}

/// The taps along one axis.
std::vector<Tap> taps(double coordinate, int64_t size, const GridSampleParams& p) {
  double v = p.align_corners ? (coordinate + 1) / 2 * static_cast<double>(size - 1)
                             : ((coordinate + 1) * static_cast<double>(size) - 1) / 2;
  std::vector<Tap> all;
  const auto add = [&](double at, double weight) {
    if (at >= 0 && at < static_cast<double>(size)) all.push_back({static_cast<int64_t>(at), weight});
  };
  if (p.mode == Mode::bicubic) {
    for (int k = -1; k <= 2; k++) {
      const double d = std::abs(v - std::floor(v) - k), a = -0.75;
      add(moved_inside(std::floor(v) + k, size, p),
          d <= 1 ? ((a + 2) * d - (a + 3)) * d * d + 1 : a * (((d - 5) * d + 8) * d - 4));
    }
    return all;
  }
  v = moved_inside(v, size, p);
  if (p.mode == Mode::nearest) {
    add(std::nearbyint(v), 1);
  } else {
    add(std::floor(v), std::floor(v) + 1 - v);
    add(std::floor(v) + 1, v - std::floor(v));
  }
  return all;
}

/// The taps in a channel of x of the place whose coordinates begin at `grid`.
std::vector<Tap> taps_of(const double* grid, const Shape& x, const GridSampleParams& p) {
  std::vector<Tap> all{{0, 1}};
  for (int axis = 2; axis < x.size(); axis++) {
    std::vector<Tap> next;
    for (const Tap& outer : all)
      for (const Tap& tap : taps(grid[x.size() - 1 - axis], x[axis], p))
        next.push_back({outer.at * x[axis] + tap.at, outer.weight * tap.weight});
    all = next;
  }
  return all;
}

struct Case {
  Shape x;
  Shape places;  ///< of the grid
  GridSampleParams params;
  double range = 1.3;    ///< coordinates lie in [-range, range]
  bool aligned = false;  ///< tensors start at multiples of 16 bytes

  Shape grid() const {
    Shape shape{x[0]};
    for (int64_t size : places) shape.push_back(size);
    shape.push_back(x.size() - 2);
    return shape;
  }
  Shape y() const {
    Shape shape{x[0], x[1]};
    for (int64_t size : places) shape.push_back(size);
    return shape;
  }
  int64_t plane() const { return element_count(places); }
  int64_t pixels() const {
    int64_t product = 1;
    for (int i = 2; i < x.size(); i++) product *= x[i];
    return product;
  }
  std::string text() const {
    return name_of(params.mode) + (" " + std::string(name_of(params.padding))) + " x=" + to_string(x) +
           " places=" + to_string(places) + (params.align_corners ? " align_corners" : "") + " range " +
           std::to_string(range) + (aligned ? " aligned" : "");
  }
  /// Elements in front of each tensor.
  int64_t padding() const { return aligned ? 64 : 37; }
};

/// Calls f(index in y, index in x, weight) for every tap of every channel.
template <class F>
void for_taps(const Case& c, const Values& grid, const F& f) {
  const int64_t places = c.plane(), pixels = c.pixels(), axes = c.x.size() - 2;
  for (int64_t n = 0; n < c.x[0]; n++)
    for (int64_t place = 0; place < places; place++)
      for (const Tap& tap : taps_of(&grid[static_cast<size_t>((n * places + place) * axes)], c.x, c.params))
        for (int64_t channel = n * c.x[1]; channel < (n + 1) * c.x[1]; channel++)
          f(static_cast<size_t>(channel * places + place), static_cast<size_t>(channel * pixels + tap.at),
            tap.weight);
}

struct Expected {
  Values y, dx, dgrid;
};

Expected reference(const Case& c, const Values& x, const Values& grid, const Values& dy) {
  Expected e{Values(dy.size(), 0.0), Values(x.size(), 0.0), Values(grid.size(), 0.0)};
  for_taps(c, grid, [&](size_t i, size_t at, double weight) {
    e.y[i] += weight * x[at];
    e.dx[at] += weight * dy[i];
  });
  // Each coordinate counts for its own place alone.
  const int64_t places = c.plane(), pixels = c.pixels();
  const auto axes = static_cast<size_t>(c.x.size() - 2);
  constexpr double kStep = 1e-6;
  for (size_t i = 0; i < grid.size(); i++) {
    const auto place = static_cast<int64_t>(i / axes), n = place / std::max<int64_t>(places, 1);
    double difference = 0;
    for (double side : {1.0, -1.0}) {
      Values at(grid.begin() + static_cast<int64_t>(i / axes * axes),
                grid.begin() + static_cast<int64_t>(i / axes * axes + axes));
      at[i % axes] += side * kStep;
      for (const Tap& tap : taps_of(at.data(), c.x, c.params))
        for (int64_t channel = n * c.x[1]; channel < (n + 1) * c.x[1]; channel++)
          difference += side * tap.weight * x[static_cast<size_t>(channel * pixels + tap.at)] *
                        dy[static_cast<size_t>(channel * places + place % places)];
    }
    e.dgrid[i] = c.params.mode == Mode::nearest ? 0 : difference / (2 * kStep);
  }
  return e;
}

/// `all`: the gradient of x, too.
void check(const Case& c, Placing placing, DType dtype, DType grid_dtype, const char* name, bool all = true) {
  const std::string text = c.text() + " " + dlprim::name_of(dtype) + " grid " + dlprim::name_of(grid_dtype) +
                           " " + dlprim::test::name_of(placing) + " engine=" + name;
  if (!is_selected(text)) return;
  INFO(again(text));
  Rng rng(5);
  const auto operand = [&](const Shape& shape) {
    const Guarded room(shape, strides_in(placing, shape), dtype, c.padding());
    copy(stream(), placed(placing, shape, reals(element_count(shape), rng), dtype), room.tensor());
    return room.tensor();
  };
  const Tensor x = operand(c.x), dy = operand(c.y());
  const Placing grid_placing = placing == Placing::gaps ? placing : Placing::row_major;
  const Tensor grid =
      placed(grid_placing, c.grid(), reals(element_count(c.grid()), rng, -c.range, c.range), grid_dtype);
  const Expected e = reference(c, values_of(x), values_of(grid), values_of(dy));
  // A coordinate is rounded four times at the size of x, and so off by that many units; the slope of y there
  // is at most 2 in each of up to three axes, 4 in two for cubic. Sums: a unit for each term, of which dx has
  // as many as places.
  int64_t largest = 1;
  for (int axis = 2; axis < c.x.size(); axis++) largest = std::max(largest, c.x[axis]);
  const double unit = dtype == DType::f64 || grid_dtype == DType::f64 ? 0x1p-48 : 0x1p-24;
  const double weights = 32 * std::max(c.range, 1.0) * static_cast<double>(largest) * unit;
  const auto near_to = [&](const Guarded& result, const Values& expected, double terms) {
    CHECK(deviation(host_values(result.tensor()), expected) <=
          weights * terms + storage_roundoff(result.tensor().dtype()) + 0x1p-23);
    CHECK(result.intact());
  };
  const auto twice = [&](const Guarded& result, const auto& run) {
    run();
    const std::vector<unsigned char> first = host_bytes(result.tensor());
    run();
    CHECK(host_bytes(result.tensor()) == first);
  };
  const Guarded y(c.y(), strides_in(placing, c.y()), dtype, c.padding());
  twice(y, [&] { grid_sample(stream(), x, grid, c.params, y.tensor(), engine(name)); });
  near_to(y, e.y, 1);
  if (all) {
    const Guarded dx(c.x, strides_in(placing, c.x), dtype, c.padding());
    twice(dx, [&] { grid_sample_backward_input(stream(), dy, grid, c.params, dx.tensor(), engine(name)); });
    near_to(dx, e.dx, 1 + static_cast<double>(c.plane()) / static_cast<double>(c.pixels()));
  }
  const Guarded dgrid(c.grid(), strides_in(grid_placing, c.grid()), grid_dtype, 37);
  twice(dgrid,
        [&] { grid_sample_backward_grid(stream(), dy, x, grid, c.params, dgrid.tensor(), engine(name)); });
  // Differences in double are good to the root of its unit. Channels have either sign: what is expected and
  // what is off both grow as the root of their number, and so do the sums' roundings.
  const double sums = 4 * std::sqrt(static_cast<double>(c.x[1])) * unit;
  CHECK(deviation(host_values(dgrid.tensor()), e.dgrid) <=
        weights + sums + 1e-8 + storage_roundoff(grid_dtype) + 0x1p-23);
  CHECK(dgrid.intact());
}

/// Each mode and each padding; PyTorch's numbers below have the others.
std::vector<Case> plane_cases() {
  const Shape x{2, 3, 5, 7}, places{4, 9};
  return {{x, places, {Mode::bilinear, Padding::zeros, true}},
          {x, places, {Mode::bilinear, Padding::border, false}},
          {x, places, {Mode::bilinear, Padding::reflection, false}},
          {x, places, {Mode::nearest, Padding::reflection, true}},
          {x, places, {Mode::bicubic, Padding::zeros, false}},
          {x, places, {Mode::bicubic, Padding::reflection, true}}};
}

}  // namespace

TEST_CASE("grid sampling of planes, both engines", "[small]") {
  for (const char* name : {"cpu", "direct"})
    for (const Case& c : plane_cases()) check(c, Placing::row_major, DType::f32, DType::f32, name);
}

TEST_CASE("grid sampling of volumes", "[small]") {
  for (const char* name : {"cpu", "direct"}) {
    check({{2, 3, 4, 5, 6}, {3, 4, 5}, {Mode::bilinear, Padding::zeros, false}}, Placing::row_major,
          DType::f32, DType::f32, name);
    check({{1, 2, 4, 5, 6}, {3, 1, 5}, {Mode::bilinear, Padding::reflection, true}}, Placing::channels_last,
          DType::f32, DType::f32, name);
  }
}

TEST_CASE("grid sampling of odd sizes, and far outside", "[small]") {
  const GridSampleParams zeros{Mode::bilinear, Padding::zeros, false},
      reflect{Mode::bilinear, Padding::reflection, false};
  for (const char* name : {"cpu", "direct"}) {
    check({{1, 1, 1, 1}, {1, 1}, zeros}, Placing::row_major, DType::f32, DType::f32, name);
    check({{1, 2, 1, 3}, {5, 5}, reflect, 9}, Placing::row_major, DType::f32, DType::f32, name);
    check({{1, 9, 3, 3}, {3, 50}, zeros, 0.02}, Placing::row_major, DType::f32, DType::f32,
          name);  // long lists
    check({{0, 3, 4, 4}, {2, 2}, zeros}, Placing::row_major, DType::f32, DType::f32, name);
    check({{2, 3, 4, 4}, {0, 2}, zeros}, Placing::row_major, DType::f32, DType::f32, name);
    check({{2, 0, 4, 4}, {2, 2}, zeros}, Placing::row_major, DType::f32, DType::f32, name);
  }
}

TEST_CASE("grid sampling in every form of memory and dtype", "[small]") {
  const GridSampleParams params{Mode::bilinear, Padding::zeros, false};
  for (const char* name : {"cpu", "direct"}) {
    check({{2, 11, 5, 7}, {4, 9}, params}, Placing::channels_last, DType::f32, DType::f32, name);
    check({{2, 3, 5, 7}, {4, 9}, params}, Placing::gaps, DType::f32, DType::f32, name);
    check({{2, 3, 5, 7}, {4, 9}, params}, Placing::row_major, DType::f16, DType::f32, name);
    check({{2, 11, 5, 7}, {4, 9}, params}, Placing::channels_last, DType::bf16, DType::bf16, name);
    if (!has_doubles()) continue;
    check({{2, 3, 5, 7}, {4, 9}, params}, Placing::row_major, DType::f64, DType::f64, name);
  }
}

TEST_CASE("grid sampling of neighbouring channels", "[small]") {
  const GridSampleParams params{Mode::bilinear, Padding::zeros, false};
  const auto direct = [&](const Case& c, DType dtype) {
    check(c, Placing::channels_last, dtype, dtype, "direct", false);
  };
  const bool cpu = context().device().kind() == DeviceKind::cpu;
  for (Case c : plane_cases()) {
    // PoCL compiles for 10 seconds where 16 taps are unrolled in a GPU's form: simulated and real ones have
    // them.
    if (cpu && c.params.mode == Mode::bicubic) continue;
    c.x[1] = 8;
    c.aligned = true;
    direct(c, DType::f32);
  }
  direct({{2, 8, 3, 4, 5}, {3, 2, 7}, params, 1.3, true}, DType::f32);
  direct({{1, 8, 3, 4, 5}, {3, 2, 7}, {Mode::nearest, Padding::border, false}, 1.3, true}, DType::f32);
  // A vector and less than one, and some; more vectors than a place has work-items.
  for (int64_t channels : {3, 4, 5, 260})
    direct({{2, channels, 5, 7}, {3, 5}, params, 1.3, true}, DType::f32);
  direct({{2, 8, 5, 7}, {3, 5}, params}, DType::f32);
  for (int64_t channels : {4, 64}) direct({{2, channels, 5, 7}, {3, 5}, params, 1.3, true}, DType::f16);
  direct({{2, 8, 5, 7}, {3, 5}, params, 1.3, true}, DType::bf16);
  if (has_doubles()) direct({{2, 8, 5, 7}, {3, 5}, params, 1.3, true}, DType::f64);
}

TEST_CASE("grid sampling of some channels of neighbouring ones, in mixed dtypes", "[small]") {
  Rng rng(3);
  const Tensor grid = device_tensor({2, 3, 5, 2}, reals(2 * 3 * 5 * 2, rng, -1.2, 1.2), DType::bf16);
  for (int64_t first : {8, 4, 1}) {
    INFO("channels from " << first << " on");
    const Shape x_shape{2, 16, 4, 6}, y_shape{2, 16, 3, 5};
    const Guarded all_x(x_shape, strides_in(Placing::channels_last, x_shape), DType::f16);
    copy(stream(), device_tensor(x_shape, reals(element_count(x_shape), rng), DType::f16), all_x.tensor());
    const Tensor x = all_x.tensor().slice(1, first, first + 8);
    std::vector<float> results[2], gradients[2];
    for (int engine_ = 0; engine_ < 2; engine_++) {
      const Options options = engine(engine_ == 0 ? "cpu" : "direct");
      const Guarded y(y_shape, strides_in(Placing::channels_last, y_shape), DType::f32);
      fill(stream(), 0.5, y.tensor());
      const Tensor some = y.tensor().slice(1, first, first + 8);
      grid_sample(stream(), x, grid, {}, some, options);
      results[engine_] = host_values(y.tensor());
      const Guarded to(grid.shape(), DType::bf16);
      grid_sample_backward_grid(stream(), some, x, grid, {}, to.tensor(), options);
      gradients[engine_] = host_values(to.tensor());
      CHECK(y.intact());
      CHECK(to.intact());
    }
    // Sums of four products below 1 and their roundings in f32; of 8 such, and rounded to bf16.
    CHECK(deviation(results[1], results[0]) <= 8 * 0x1p-24);
    CHECK(deviation(gradients[1], gradients[0]) <= 0x1p-7);
  }
}

TEST_CASE("grid sampling of so many places that each has one work-item, for three vectors") {
  Rng rng(4);
  const Shape x_shape{1, 12, 20, 20}, y_shape{1, 12, 370, 360}, grid_shape{1, 370, 360, 2};
  // Not so near to an element that a rounding changes the gradient.
  std::vector<float> coordinates;
  for (int64_t i = 0; i < element_count(grid_shape); i++)
    coordinates.push_back(
        static_cast<float>((static_cast<double>(rng.integer(-3, 22)) + rng.real(0.1, 0.9)) / 10 - 0.95));
  const Tensor grid = device_tensor(grid_shape, coordinates);
  const auto last = [&](const Shape& shape) {
    const Tensor t = Guarded(shape, strides_in(Placing::channels_last, shape), DType::f32).tensor();
    copy(stream(), device_tensor(shape, reals(element_count(shape), rng)), t);
    return t;
  };
  const Tensor x = last(x_shape), dy = last(y_shape);
  std::vector<float> results[2], gradients[2];
  for (int i = 0; i < 2; i++) {
    const Options options = engine(i == 0 ? "cpu" : "direct");
    const Guarded y(y_shape, strides_in(Placing::channels_last, y_shape), DType::f32), dgrid(grid_shape);
    grid_sample(stream(), x, grid, {}, y.tensor(), options);
    grid_sample_backward_grid(stream(), dy, x, grid, {}, dgrid.tensor(), options);
    results[i] = host_values(y.tensor());
    gradients[i] = host_values(dgrid.tensor());
    CHECK(y.intact());
    CHECK(dgrid.intact());
  }
  // A coordinate of up to 22 is rounded a few times, a slope is below 2; 12 channels of 10 times that.
  CHECK(deviation(results[1], results[0]) <= 200 * 0x1p-24);
  CHECK(deviation(gradients[1], gradients[0]) <= 12 * 10 * 200 * 0x1p-24);
}

TEST_CASE("grid sampling of larger shapes") {
  const GridSampleParams params{Mode::bilinear, Padding::zeros, false};
  for (const char* name : {"cpu", "direct"})
    check({{2, 21, 40, 50}, {60, 45}, params}, Placing::row_major, DType::f32, DType::f32, name);
}

TEST_CASE("grid sampling gives PyTorch's numbers", "[small]") {
  const Tensor x = device_tensor({1, 1, 3, 4}, {1, 2, 4, 8, 16, 32, 64, 128, 3, 9, 27, 81});
  const Tensor grid = device_tensor({1, 1, 4, 2}, {-0.3f, 0.2f, 0.9f, -0.95f, 1.4f, -1.8f, -2.6f, 0.6f});
  const Tensor dy = device_tensor({1, 1, 1, 4}, {1, 2, -1, 3});
  struct Golden {
    GridSampleParams params;
    Values y, dx, dgrid;
  };
  const std::vector<Golden> list = {
      {{Mode::bilinear, Padding::zeros, false},
       {23.799999, 3.2200005, 0, 0},
       {0, 0, 0, 0.80500013, 0.070000008, 0.62999994, 0, 0, 0.030000014, 0.27000007, 0, 0},
       {25.999998, -33, -18.400002, 16.800001, 0, 0, 0, 0}},
      {{Mode::bilinear, Padding::zeros, true},
       {28.859999, 12.950001, 0.63999993, 0},
       {0, 0, 0.28500018, 1.5349997, 0, 0.75999999, 0.05499997, 0.085000008, 0, 0.19000006, 0.0099999933, 0},
       {43.799999, -23.699999, 21.000004, 221.99998, 2.4000006, -3.1999989, 0, 0}},
      {{Mode::bilinear, Padding::border, false},
       {23.799999, 8, 8, 4.2999988},
       {0, 0, 0, 1, 0.36999971, 0.62999994, 0, 0, 2.7300003, 0.27000007, 0, 0},
       {25.999998, -33, -0, 0, 0, -0, 0, -58.5}},
      {{Mode::bilinear, Padding::border, true},
       {28.859999, 12.950001, 8, 8.1999998},
       {0, 0, 0.28500018, 0.61499977, 1.1999999, 0.75999999, 0.05499997, 0.085000008, 1.8000001, 0.19000006,
        0.0099999933, 0},
       {43.799999, -23.699999, 21.000004, 221.99998, 0, -0, 0, -39}},
      {{Mode::bilinear, Padding::reflection, false},
       {23.799999, 8, 78.199982, 69.199982},
       {0, 0, -0.090000078, 1.79, 0.070000008, 0.62999994, -0.12000014, -0.28000009, 0.030000014, 0.27000007,
        0.81000054, 1.8899996},
       {25.999998, -33, -0, 0, 91.999992, 152.99997, -330, -198}},
      {{Mode::bilinear, Padding::reflection, true},
       {28.859999, 12.950001, 72.799988, 64.999992},
       {0, 0, 0.16500011, 1.5349997, 0, 0.75999999, 0.29500002, 0.24499995, 0, 0.19000006, 1.0900003,
        0.71999979},
       {43.799999, -23.699999, 21.000004, 221.99998, 77.999992, 83.999992, -261, -122.99998}},
      {{Mode::nearest, Padding::border, true},
       {32, 8, 8, 3},
       {0, 0, 0, 1, 0, 1, 0, 0, 3, 0, 0, 0},
       {0, 0, 0, 0, 0, 0, 0, 0}},
      {{Mode::nearest, Padding::reflection, false},
       {32, 8, 128, 81},
       {0, 0, 0, 2, 0, 1, 0, -1, 0, 0, 0, 3},
       {0, 0, 0, 0, 0, 0, 0, 0}},
      {{Mode::bicubic, Padding::zeros, false},
       {26.210005, -6.1881204, 0.041675158, 0},
       {-0.0097846752, -0.10790695, -0.14534795, 1.1411688, 0.073773503, 0.81358588, -0.027260717,
        -0.17520545, 0.028954722, 0.31931725, -0.019819696, 0},
       {53.675854, -29.323822, 33.128212, -12.337322, -0.039690096, -0.32744241, 0, 0}},
      {{Mode::bicubic, Padding::border, false},
       {25.764029, -4.9025435, 7.9999981, 4.1672492},
       {-0.029290829, -0.10790695, -0.23703952, 1.4545107, 0.33441231, 0.81358588, -0.027260717, -0.23401122,
        2.7768795, 0.27307057, -0.016949212, 0},
       {55.983265, -31.951767, -0.48787013, -45.047024, -9.392752e-06, -1.3623048e-06, 9.9188237e-06,
        -60.378742}},
      {{Mode::bicubic, Padding::reflection, true},
       {31.942911, 8.5696678, 82.866783, 72.395828},
       {0.0032489761, -0.079076968, -0.15267839, 1.7055682, -0.0303238, 0.8736124, 0.14138043, 0.085830718,
        -0.0067687067, -0.044690624, 1.4698915, 1.0340046},
       {46.493629, -21.065962, 6.5553007, 57.219437, 103.55266, 98.661179, -361.55164, -220.60829}},
  };
  for (const Golden& g : list) {
    INFO(name_of(g.params.mode) << " " << name_of(g.params.padding) << " " << g.params.align_corners);
    const Guarded y({1, 1, 1, 4}), dx({1, 1, 3, 4}), dgrid({1, 1, 4, 2});
    grid_sample(stream(), x, grid, g.params, y.tensor());
    grid_sample_backward_input(stream(), dy, grid, g.params, dx.tensor());
    grid_sample_backward_grid(stream(), dy, x, grid, g.params, dgrid.tensor());
    CHECK(deviation(host_values(y.tensor()), g.y) <= 1e-5);
    CHECK(deviation(host_values(dx.tensor()), g.dx) <= 1e-5);
    CHECK(deviation(host_values(dgrid.tensor()), g.dgrid) <= 1e-4);  // PyTorch's are sums in f32, too
  }
}

TEST_CASE("grid sampling of special values", "[small]") {
  constexpr float kInf = std::numeric_limits<float>::infinity(),
                  kNan = std::numeric_limits<float>::quiet_NaN();
  const Tensor x = device_tensor({1, 1, 1, 3}, {1, 2, 4});
  const Tensor grid = device_tensor({1, 1, 5, 2}, {kNan, 0, kInf, 0, -kInf, 0, 3e38f, 0, 0, 0});
  for (const char* name : {"cpu", "direct"}) {
    INFO(name);
    const Guarded y({1, 1, 1, 5}), dx({1, 1, 1, 3});
    grid_sample(stream(), x, grid, {}, y.tensor(), engine(name));
    CHECK(deviation(host_values(y.tensor()), {0, 0, 0, 0, 2}) == 0);
    grid_sample_backward_input(stream(), device_tensor({1, 1, 1, 5}, {kNan, kInf, 1, 1, 3}), grid, {},
                               dx.tensor(), engine(name));
    CHECK(deviation(host_values(dx.tensor()), {0, 3, 0}) == 0);
    // Beyond the border an infinite coordinate is the border's.
    grid_sample(stream(), x, grid, {Mode::nearest, Padding::border, false}, y.tensor(), engine(name));
    CHECK(deviation(host_values(y.tensor()), {1, 4, 1, 4, 2}) == 0);
  }
}

TEST_CASE("grid sampling at places that are no numbers, in every mode", "[small]") {
  constexpr float kInf = std::numeric_limits<float>::infinity(),
                  kNan = std::numeric_limits<float>::quiet_NaN();
  for (DType dtype : {DType::f32, DType::f64})
    for (const char* name : {"cpu", "direct"})
      for (Mode mode : {Mode::bilinear, Mode::nearest, Mode::bicubic})
        for (Padding padding : {Padding::zeros, Padding::border, Padding::reflection})
          for (const bool aligned : {false, true}) {
            if (dtype == DType::f64 && !context().device().probes().fp64) continue;
            INFO(name << " " << name_of(dtype) << " " << name_of(mode) << " " << name_of(padding)
                      << (aligned ? " aligned" : ""));
            const Tensor x = device_tensor({1, 1, 1, 3}, {1, 2, 4}, dtype);
            const Tensor grid = device_tensor({1, 1, 3, 2}, {kNan, 0, kInf, 0, -kInf, 0}, dtype);
            const Guarded y({1, 1, 1, 3}, dtype);
            grid_sample(stream(), x, grid, {mode, padding, aligned}, y.tensor(), engine(name));
            std::vector<float> expected = {0, 0, 0};
            if (padding == Padding::border) expected = {1, 4, 1};
            if (padding == Padding::reflection) expected = {1, 1, 1};
            if (padding != Padding::zeros && mode == Mode::bicubic) expected = {kNan, kNan, kNan};
            CHECK(deviation(host_values(y.tensor()), expected) == 0);
          }
}

TEST_CASE("grid sampling refuses bad input", "[small]") {
  const Tensor x(context(), {2, 3, 4, 4}), grid(context(), {2, 5, 6, 2}), y(context(), {2, 3, 5, 6});
  const auto refused = [&](const Tensor& from, const Tensor& at, const Tensor& to,
                           const GridSampleParams& params = {}) {
    return error_of<ValidationError>([&] { grid_sample(stream(), from, at, params, to); });
  };
  CHECK(refused({}, grid, y) == "x: is not defined");
  CHECK(refused(x.reshape({6, 4, 4}), grid, y) ==
        "x: rank 3 must be 4 or 5, [N, C, H, W] or [N, C, D, H, W]");
  CHECK(refused(x, grid.slice(0, 0, 1), y) == "grid: size 1 of axis 0 must be 2");
  CHECK(refused(x, grid.reshape({2, 5, 4, 3}), y) == "grid: size 3 of the last axis must be 2");
  CHECK(refused(x, grid, y.slice(2, 0, 4)) == "y: shape [2, 3, 4, 6] must be [2, 3, 5, 6]");
  CHECK(refused(x.slice(3, 0, 0), grid, y) == "x: size 0 of axis 3 must be 1 or more");
  CHECK(refused(x, grid, y, {static_cast<Mode>(7)}) == "mode: number 7 does not exist");
  CHECK(refused(x, grid, y, {Mode::nearest, static_cast<Padding>(7)}) == "padding: number 7 does not exist");
  const Tensor volume(context(), {2, 3, 4, 4, 4}), places(context(), {2, 1, 5, 6, 3}),
      sampled(context(), {2, 3, 1, 5, 6});
  CHECK(refused(volume, places, sampled, {Mode::bicubic}) == "mode: bicubic is for rank 4, not 5");
  const Tensor other(context(), {2, 5, 6, 2}, DType::f16);
  CHECK(error_of<ValidationError>([&] { grid_sample_backward_grid(stream(), y, x, grid, {}, other); }) ==
        "dgrid: dtype f16 must be f32");
  CHECK(error_of<ValidationError>([&] { grid_sample(stream(), x, grid, {}, y, engine("magic")); }) ==
        "engine: grid_sample has no engine 'magic'");
}
