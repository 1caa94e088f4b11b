// The engine nv_patch, emulated where the device lacks its instructions: first layers, as networks have them.
#include <cmath>
#include <limits>

#include <dlprim/copy.hpp>

#include "cases/conv.hpp"
#include "catch.hpp"

using namespace dlprim;
using namespace dlprim::test;

namespace {

bool has_instructions() {
  const MatrixEngine matrix = context().device().probes().matrix;
  return matrix == MatrixEngine::nv_mma || matrix == MatrixEngine::nv_wgmma;
}

Options patch(const std::string& parameters = {}) {
  const std::string emulated = has_instructions() ? "" : "emulate=1";
  Options options = engine("nv_patch");
  const char* comma = parameters.empty() || emulated.empty() ? "" : ",";
  if (!parameters.empty() || !emulated.empty()) options.engine += ":" + parameters + comma + emulated;
  options.math = MathMode::tf32;
  return options;
}

Tensor operand(Layout layout, const Shape& shape, const std::vector<float>& values, DType dtype,
               int64_t offset) {
  const Guarded room(shape, strides_in(layout, shape), dtype, offset);
  copy(stream(), device_tensor(shape, values), room.tensor());
  return room.tensor();
}

/// Whole numbers, whose sums are exact; twice on poisoned, guarded memory.
void check_exact(const ConvCase& c, DType to, const std::string& parameters = {}, int64_t offset = 3) {
  INFO(parameters << " offset=" << offset << " to " << name_of(to) << " " << c.text());
  Rng rng(5);
  const auto x = integers(element_count(c.x_shape()), rng, 3),
             w = integers(element_count(c.w_shape()), rng, 3);
  const Tensor tx = operand(c.x_layout, c.x_shape(), x, c.dtype, offset),
               tw = operand(c.w_layout, c.w_shape(), w, c.dtype, offset);
  const std::vector<double> sums = conv_forward_reference(c, x, w);
  const std::vector<float> floats(sums.begin(), sums.end());
  const auto expected = host_values(device_tensor({static_cast<int64_t>(floats.size())}, floats, to));
  const Strides strides = strides_in(c.y_layout, c.y_shape());
  const Guarded first(c.y_shape(), strides, to, offset), again(c.y_shape(), strides, to, offset);
  conv(stream(), tx, tw, {}, c.params, first.tensor(), patch(parameters));
  CHECK(deviation(host_values(first.tensor()), expected) == 0);
  CHECK(first.intact());
  conv(stream(), tx, tw, {}, c.params, again.tensor(), patch(parameters));
  CHECK(host_bytes(first.tensor()) == host_bytes(again.tensor()));
}

ConvCase as(ConvCase c, DType dtype, Layout x, Layout w, Layout y) {
  c.dtype = dtype, c.x_layout = x, c.w_layout = w, c.y_layout = y;
  return c;
}

}  // namespace

TEST_CASE("conv patch: first layers in every type and layout are exact", "[conv]") {
  const ConvCase cases[] = {
      {"mobilenet", 2, 3, {19, 35}, 32, {3, 3}, {{2}, {1}, {1}}},
      {"resnet", 1, 3, {33, 18}, 64, {7, 7}, {{2}, {3}, {3}}},
      {"alexnet", 1, 3, {31, 41}, 40, {11, 11}, {{4}, {2}, {2}}},
      {"grey", 3, 1, {9, 20}, 7, {5, 5}, {{1}, {2}, {2}}},
  };
  const Layout layouts[] = {Layout::nhwc, Layout::nchw, Layout::gaps};
  size_t turn = 0;
  for (const ConvCase& c : cases)
    for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
      const Layout x = layouts[turn % 3], w = layouts[turn / 2 % 3], y = layouts[turn / 3 % 3];
      const DType to = dtype == DType::bf16 && turn % 2 == 0 ? DType::f32 : dtype;
      check_exact(as(c, dtype, x, w, y), to, turn % 2 == 0 ? "" : "rows=4,columns=1", turn % 3 == 0 ? 0 : 3);
      turn++;
    }
}

TEST_CASE("conv patch: odd windows, many tiles, several tiles of filters", "[conv]") {
  const ConvCase cases[] = {
      {"dilated", 1, 2, {20, 21}, 33, {2, 3}, {{1, 2}, {1, 0}, {0, 3}, {3, 2}}},
      {"line", 2, 4, {90}, 65, {3}, {{2}, {1}, {0}}},
      {"tall", 1, 4, {70, 3}, 5, {4, 1}, {{3, 1}, {0}, {2, 0}}},
      {"wide_stride", 1, 1, {17, 64}, 96, {2, 2}, {{5, 7}, {0}, {0}}},
      {"beyond", 1, 3, {4, 4}, 8, {3, 3}, {{1}, {4}, {5}}},
  };
  const char* const tiles[] = {"rows=2,columns=1", "rows=1,columns=2", "rows=3,columns=2,tn=64", "tn=32", ""};
  size_t turn = 0;
  for (const ConvCase& c : cases)
    for (const char* tile : tiles) {
      const DType dtype = turn % 2 == 0 ? DType::bf16 : DType::f32;
      const Layout x = turn % 3 == 0 ? Layout::nchw : Layout::nhwc,
                   y = turn % 4 == 0 ? Layout::nchw : Layout::nhwc;
      check_exact(as(c, dtype, x, Layout::nchw, y), DType::f32, tile);
      turn++;
    }
}

// Words hold neighbours that are no taps' of the window, and steps are filled up: neither may reach a sum.
TEST_CASE("conv patch: infinities reach their own pixels alone", "[conv][small]") {
  const ConvCase c{"odd", 1, 1, {6, 40}, 3, {3, 3}, {{1}, {1}, {1}}};
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    INFO(name_of(dtype));
    std::vector<float> x(6 * 40, 1), w(3 * 9, 1);
    x[2 * 40 + 17] = std::numeric_limits<float>::infinity();
    const Tensor tx = device_tensor(c.x_shape(), x, dtype), tw = device_tensor(c.w_shape(), w, dtype);
    const Guarded y(c.y_shape(), strides_in(Layout::nhwc, c.y_shape()), DType::f32, 0);
    conv(stream(), tx, tw, {}, c.params, y.tensor(), patch());
    const auto got = host_values(y.tensor());
    int64_t wrong = 0;
    for (int filter = 0; filter < 3; filter++)
      for (int h = 0; h < 6; h++)
        for (int column = 0; column < 40; column++) {
          const float value = got[static_cast<size_t>((filter * 6 + h) * 40 + column)];
          const bool near = std::abs(h - 2) <= 1 && std::abs(column - 17) <= 1;
          wrong += near ? !std::isinf(value) : !(value >= 4 && value <= 9);
        }
    CHECK(wrong == 0);
  }
}

TEST_CASE("conv patch: bias, activation, residual", "[conv]") {
  for (const Layout layout : {Layout::nhwc, Layout::nchw})
    for (const DType dtype : {DType::f32, DType::bf16}) {
      const ConvCase c =
          as({"first", 2, 3, {11, 37}, 34, {3, 3}, {{2}, {1}, {1}}}, dtype, layout, layout, layout);
      INFO(c.text());
      Rng rng(6);
      const auto x = integers(element_count(c.x_shape()), rng, 3),
                 w = integers(element_count(c.w_shape()), rng, 3), bias = integers(34, rng, 9),
                 residual = integers(element_count(c.y_shape()), rng, 9);
      const Tensor tx = operand(layout, c.x_shape(), x, dtype, 0),
                   tw = operand(layout, c.w_shape(), w, dtype, 0), tbias = device_tensor({34}, bias, dtype),
                   tresidual = operand(layout, c.y_shape(), residual, dtype, 0);
      const Guarded y(c.y_shape(), strides_in(layout, c.y_shape()), dtype, 0);
      ConvExtras with(tbias);
      with.residual = tresidual;
      ConvParams params = c.params;
      params.activation = Activation::relu;
      conv(stream(), tx, tw, with, params, y.tensor(), patch());
      const auto sums = conv_forward_reference(c, x, w);
      std::vector<float> expected(sums.size());
      const size_t plane = sums.size() / (2 * 34);
      for (size_t i = 0; i < sums.size(); i++)
        expected[i] = std::max(0.0F, static_cast<float>(sums[i]) + bias[i / plane % 34] + residual[i]);
      const auto rounded =
          host_values(device_tensor({static_cast<int64_t>(expected.size())}, expected, dtype));
      CHECK(deviation(host_values(y.tensor()), rounded) == 0);
      CHECK(y.intact());
    }
}

TEST_CASE("conv patch: what is refused, and why", "[conv][small]") {
  const auto asked = [](const ConvCase& c, Options options = patch()) {
    const auto of = [&](const Shape& shape) { return TensorDesc(shape, c.dtype); };
    return error_of<ValidationError>([&] {
      Conv(context(), {of(c.x_shape()), of(c.w_shape()), of(c.y_shape()), c.params}, options);
    });
  };
  const ConvCase c{"first", 1, 3, {8, 8}, 8, {3, 3}, {{1}, {1}, {1}}};
  ConvCase other = c;
  Options standard = patch();
  standard.math = MathMode::standard;
  CHECK_THAT(asked(c, standard), contains("is for f32 by math tf32"));
  other.c = 5;
  CHECK_THAT(asked(other), contains("up to 4 channels, there are 1 groups and 5 channels"));
  other = c, other.window = {1, 1}, other.params = {{1}, {0}, {0}};
  CHECK_THAT(asked(other), contains("more than one tap"));
  CHECK_THAT(asked(c, patch("rows=1,columns=1")), contains("1 rows and 1 columns of fragments"));
  CHECK_THAT(asked(c, patch("tn=48")), contains("tn is 48"));
  if (!has_instructions()) {
    Options named = engine("nv_patch");
    named.math = MathMode::tf32;
    CHECK_THAT(asked(c, named), contains("needs the matrix engine nv_mma, the device has "));
  }
}
