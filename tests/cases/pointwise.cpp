#include "cases/pointwise.hpp"

namespace dlprim::cases {

double PointwiseCase::bytes() const {
  double elements = static_cast<double>(element_count(output));
  for (const Shape& shape : inputs) elements += static_cast<double>(element_count(shape));
  return 4 * elements;
}

void PointwiseCase::run(const Stream& stream, const std::vector<Tensor>& xs, const Tensor& y) const {
  if (reduces())
    reduce(stream, xs, {y}, {}, reduction);
  else
    pointwise(stream, xs, {y}, {}, body);
}

std::vector<PointwiseCase> pointwise_cases(int64_t batch) {
  const Shape image{batch, 64, 56, 56}, small{batch, 512, 7, 7}, rows{batch * 1024, 1024},
      short_rows{batch * 8192, 100};
  const Shape channels{1, 64, 1, 1};
  return {
      {"copy", {image}, image, "y0 = x0", {}},
      {"relu", {image}, image, "y0 = relu(x0)", {}},
      {"add", {image, image}, image, "y0 = x0 + x1", {}},
      {"add_channel_bias", {image, channels}, image, "y0 = x0 + x1", {}},
      {"add_channel_bias_7x7", {small, {512, 1, 1}}, small, "y0 = x0 + x1", {}},
      {"add_row_bias", {rows, {1024}}, rows, "y0 = x0 + x1", {}},
      {"sum_rows", {rows}, {batch * 1024, 1}, "", sum_of("x0")},
      {"sum_short_rows", {short_rows}, {batch * 8192, 1}, "", sum_of("x0")},
      {"sum_columns", {rows}, {1, 1024}, "", sum_of("x0")},
      {"sum_channels", {image}, channels, "", sum_of("x0")},
      {"sum_channels_7x7", {small}, {1, 512, 1, 1}, "", sum_of("x0")},
      {"welford_channels", {image}, channels, "", welford("x0", "y0 = a2")},
      {"sum_all", {image}, {1, 1, 1, 1}, "", sum_of("x0")},
  };
}

}  // namespace dlprim::cases
