#include "cases/conv_winograd.hpp"

namespace dlprim::test {

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

Tensor strided_operand(Layout layout, const Shape& shape, const std::vector<float>& values, DType dtype,
                       int64_t first) {
  const Guarded room(shape, strides_in(layout, shape), dtype, first);
  copy(stream(), device_tensor(shape, values), room.tensor());
  return room.tensor();
}

ConvData integer_conv_data(const ConvCase& c, uint64_t seed) {
  Rng rng(seed);
  return {integers(element_count(c.x_shape()), rng, 3), integers(element_count(c.w_shape()), rng, 3),
          integers(element_count(c.y_shape()), rng, 3)};
}

ConvData real_conv_data(const ConvCase& c) {
  Rng rng(2);
  return {reals(element_count(c.x_shape()), rng), reals(element_count(c.w_shape()), rng),
          reals(element_count(c.y_shape()), rng)};
}

std::vector<float> rounded_to(DType dtype, const std::vector<double>& values) {
  const std::vector<float> floats(values.begin(), values.end());
  if (dtype == DType::f32) return floats;
  return host_values(device_tensor({static_cast<int64_t>(floats.size())}, floats, dtype));
}

ConvResults run_conv(const ConvCase& c, const ConvData& data, const Options& options, int64_t first) {
  const Tensor x = strided_operand(c.x_layout, c.x_shape(), data.x, c.dtype, first),
               w = strided_operand(c.w_layout, c.w_shape(), data.w, c.dtype, first),
               dy = strided_operand(c.y_layout, c.y_shape(), data.y, c.dtype, first);
  ConvResults results;
  const auto twice = [&](Layout layout, const Shape& shape, const auto& run) {
    const Guarded once(shape, strides_in(layout, shape), c.dtype, first + 32),
        again(shape, strides_in(layout, shape), c.dtype, first + 32);
    run(once.tensor());
    run(again.tensor());
    results.intact &= once.intact();
    results.repeats &= host_bytes(once.tensor()) == host_bytes(again.tensor());
    return host_values(once.tensor());
  };
  results.y = twice(c.y_layout, c.y_shape(),
                    [&](const Tensor& y) { conv(stream(), x, w, {}, c.params, y, options); });
  results.dx = twice(c.x_layout, c.x_shape(),
                     [&](const Tensor& dx) { conv_backward_data(stream(), dy, w, c.params, dx, options); });
  results.dw = twice(c.w_layout, c.w_shape(),
                     [&](const Tensor& dw) { conv_backward_filter(stream(), x, dy, c.params, dw, options); });
  return results;
}

}  // namespace dlprim::test
