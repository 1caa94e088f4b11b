#include "cases/pointwise.hpp"

#include <algorithm>
#include <cmath>

namespace dlprim::cases {
namespace {

/// Where element `i` of a row-major `from` lies in a row-major `to`, whose last axes broadcast to those of
/// `from`.
size_t broadcast_index(const Shape& from, int64_t i, const Shape& to) {
  int64_t result = 0, step = 1;
  for (int axis = from.size() - 1, other = to.size() - 1; other >= 0; axis--, other--) {
    if (to[other] != 1) result += i % from[axis] * step;
    step *= to[other];
    i /= from[axis];
  }
  return static_cast<size_t>(result);
}

}  // namespace

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

std::vector<double> PointwiseCase::reference(const std::vector<std::vector<float>>& xs) const {
  std::vector<double> y(static_cast<size_t>(element_count(output)), 0.0);
  if (!reduces()) {
    for (size_t i = 0; i < y.size(); i++) {
      const auto x = [&](size_t k) -> double {
        return k < xs.size() ? xs[k][broadcast_index(output, static_cast<int64_t>(i), inputs[k])] : 0;
      };
      y[i] = element(x(0), x(1));
    }
    return y;
  }
  const std::vector<float>& x = xs[0];
  const auto place = [&](size_t i) { return broadcast_index(inputs[0], static_cast<int64_t>(i), output); };
  for (size_t i = 0; i < x.size(); i++) y[place(i)] += x[i];
  if (reduction.accumulators == 1) return y;
  const std::vector<double> sums = y;  // of Welford's method
  const double count = static_cast<double>(x.size()) / static_cast<double>(y.size());
  y.assign(y.size(), 0.0);
  for (size_t i = 0; i < x.size(); i++) y[place(i)] += std::pow(x[i] - sums[place(i)] / count, 2);
  return y;
}

std::vector<PointwiseCase> pointwise_cases(int64_t batch) {
  const Shape image{batch, 64, 56, 56}, small{batch, 512, 7, 7}, rows{batch * 1024, 1024},
      short_rows{batch * 8192, 100};
  const Shape channels{1, 64, 1, 1};
  const auto first = [](double x, double) { return x; };
  const auto sum = [](double a, double b) { return a + b; };
  return {
      {"copy", {image}, image, "y0 = x0", {}, first},
      {"relu", {image}, image, "y0 = relu(x0)", {}, [](double x, double) { return std::max(x, 0.0); }},
      {"add", {image, image}, image, "y0 = x0 + x1", {}, sum},
      {"add_channel_bias", {image, channels}, image, "y0 = x0 + x1", {}, sum},
      {"add_channel_bias_7x7", {small, {512, 1, 1}}, small, "y0 = x0 + x1", {}, sum},
      {"add_row_bias", {rows, {1024}}, rows, "y0 = x0 + x1", {}, sum},
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
