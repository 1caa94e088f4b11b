// Pixel and channel shuffles against loops over indices.
#include <dlprim/pixel_shuffle.hpp>

#include "cases/nn.hpp"
#include "catch.hpp"

using namespace dlprim;
using namespace dlprim::test;

namespace {

/// Small numbers that tell places apart.
std::vector<float> counted(int64_t n) {
  std::vector<float> values;
  for (int64_t i = 0; i < n; i++) values.push_back(static_cast<float>(i % 251));
  return values;
}

/// y[lead, c, h r + i, w r + j] = x[lead, (c r + i) r + j, h, w], with `shape` that of x.
Values shuffled(const Values& x, const Shape& shape, int64_t r, bool back) {
  const int axis = shape.size() - 3;
  const int64_t deep = shape[axis], rows = shape[axis + 1], columns = shape[axis + 2],
                channels = deep / (r * r);
  const int64_t plane = deep * rows * columns, lead = plane ? static_cast<int64_t>(x.size()) / plane : 0;
  Values y(x.size());
  for (int64_t n = 0; n < lead; n++)
    for (int64_t c = 0; c < channels; c++)
      for (int64_t i = 0; i < r; i++)
        for (int64_t j = 0; j < r; j++)
          for (int64_t h = 0; h < rows; h++)
            for (int64_t w = 0; w < columns; w++) {
              const auto in_x =
                  static_cast<size_t>(n * plane + (((c * r + i) * r + j) * rows + h) * columns + w);
              const auto in_y =
                  static_cast<size_t>(n * plane + ((c * rows + h) * r + i) * columns * r + w * r + j);
              (back ? y[in_x] : y[in_y]) = back ? x[in_y] : x[in_x];
            }
  return y;
}

void check(const Shape& deep, int64_t r, Placing placing, DType dtype) {
  INFO("x=" << to_string(deep) << " factor=" << r << " " << name_of(placing) << " "
            << dlprim::name_of(dtype));
  Shape wide = deep;
  const int axis = deep.size() - 3;
  wide[axis] /= r * r;
  wide[axis + 1] *= r;
  wide[axis + 2] *= r;
  const Tensor x = placed(placing, deep, counted(element_count(deep)), dtype);
  const Tensor z = placed(placing, wide, counted(element_count(wide)), dtype);
  const Guarded y(wide, strides_in(placing, wide), dtype, 37), u(deep, strides_in(placing, deep), dtype, 37);
  pixel_shuffle(stream(), x, r, y.tensor());
  CHECK(values_of(y.tensor()) == shuffled(values_of(x), deep, r, false));
  CHECK(y.intact());
  pixel_unshuffle(stream(), z, r, u.tensor());
  CHECK(values_of(u.tensor()) == shuffled(values_of(z), deep, r, true));
  CHECK(u.intact());
}

}  // namespace

TEST_CASE("pixel shuffle and back", "[small]") {
  for (const Shape& shape : {Shape{4, 1, 1}, Shape{2, 8, 3, 5}, Shape{1, 12, 4, 4}, Shape{2, 3, 2, 4, 3, 2},
                             Shape{0, 4, 2, 2}, Shape{2, 4, 0, 2}})
    check(shape, 2, Placing::row_major, DType::f32);
  check({2, 18, 3, 5}, 3, Placing::row_major, DType::f32);
  check({2, 3, 3, 5}, 1, Placing::row_major, DType::f32);
  check({2, 32, 3, 14}, 4, Placing::row_major, DType::f32);
  check({2, 8, 3, 28}, 2, Placing::row_major, DType::bf16);
  check({2, 8, 3, 14}, 2, Placing::channels_last, DType::f16);
  for (Placing placing : {Placing::channels_last, Placing::gaps}) check({2, 8, 3, 5}, 2, placing, DType::f32);
  for (DType dtype : {DType::f16, DType::bf16, DType::i32}) check({2, 8, 3, 5}, 2, Placing::row_major, dtype);
}

TEST_CASE("channel shuffle, and back by the other number of groups", "[small]") {
  for (const Shape& shape : {Shape{2, 6, 5}, Shape{1, 12, 3, 5}, Shape{2, 6, 2, 2, 2, 2, 2}, Shape{2, 6, 0}})
    for (int64_t groups : {1, 2, 3, 6}) {
      INFO(to_string(shape) << " groups=" << groups);
      const AxisView v(shape, 1);
      const Values values = [&] {
        const std::vector<float> c = counted(element_count(shape));
        return Values(c.begin(), c.end());
      }();
      Values expected(values.size());
      for (int64_t n = 0; n < v.outer; n++)
        for (int64_t c = 0; c < v.size; c++)
          for (int64_t i = 0; i < v.inner; i++) {
            const int64_t to = c % (v.size / groups) * groups + c / (v.size / groups);
            expected[static_cast<size_t>((n * v.size + to) * v.inner + i)] =
                values[static_cast<size_t>((n * v.size + c) * v.inner + i)];
          }
      const Tensor x = placed(Placing::channels_last, shape, counted(element_count(shape)));
      const Guarded y(shape), back(shape);
      channel_shuffle(stream(), x, groups, y.tensor());
      CHECK(values_of(y.tensor()) == expected);
      CHECK(y.intact());
      channel_shuffle(stream(), y.tensor(), v.size / groups, back.tensor());
      CHECK(values_of(back.tensor()) == values);
    }
}

TEST_CASE("shuffles refuse bad input", "[small]") {
  const Tensor x(context(), {1, 8, 2, 2}), y(context(), {1, 2, 4, 4});
  const auto refused = [&](const Tensor& from, int64_t factor, const Tensor& to) {
    return error_of<ValidationError>([&] { pixel_shuffle(stream(), from, factor, to); });
  };
  CHECK(refused({}, 2, y) == "x: is not defined");
  CHECK(refused(x, 0, y) == "factor: 0 must lie in [1, 65535]");
  CHECK(refused(x, 3, y) == "x: 8 channels are no multiple of 9");
  CHECK(refused(x.reshape({8, 4}), 2, y) == "x: rank 2 must be 3 to 6");
  CHECK(refused(x, 2, x) == "y: shape [1, 8, 2, 2] must be [1, 2, 4, 4]");
  CHECK(refused(x, 2, x.reshape({1, 2, 4, 4})) == "y: shares memory with x");
  CHECK(error_of<ValidationError>([&] { channel_shuffle(stream(), x, 3, y); }) ==
        "groups: 3 does not divide 8 channels");
  CHECK(error_of<ValidationError>([&] { channel_shuffle(stream(), x, 0, y); }) ==
        "groups: 0 does not divide 8 channels");
}
