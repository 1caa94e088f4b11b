#include "cases/norm.hpp"

#include <algorithm>
#include <cmath>

namespace dlprim::test {

namespace {
size_t at(int64_t i) {
  return static_cast<size_t>(i);
}
}  // namespace

NormView layer_view(const Shape& shape, int axes) {
  NormView view;
  view.count = element_count(shape);
  for (int i = 0; i < shape.size(); i++) (i < shape.size() - axes ? view.rows : view.weights) *= shape[i];
  const int64_t length = view.weights;
  view.row = [length](int64_t i) { return i / length; };
  view.weight = [length](int64_t i) { return i % length; };
  return view;
}

NormView group_view(const Shape& shape, int64_t groups) {
  NormView view;
  view.count = element_count(shape);
  view.rows = shape[0] * groups;
  const int64_t channels = view.weights = shape[1];
  int64_t plane = 1;
  for (int i = 2; i < shape.size(); i++) plane *= shape[i];
  const int64_t together = channels / groups;
  view.row = [=](int64_t i) { return i / plane / together; };
  view.weight = [=](int64_t i) { return i / plane % channels; };
  return view;
}

Normed norm_reference(const NormView& view, const Values& x, const Values& weight, const Values& bias,
                      double epsilon, bool center) {
  const double length = static_cast<double>(view.count) / static_cast<double>(view.rows);
  Normed r{Values(x.size()), Values(at(view.rows), 0.0), Values(at(view.rows), 0.0), Values(at(view.rows))};
  for (int64_t i = 0; center && i < view.count; i++) r.mean[at(view.row(i))] += x[at(i)];
  for (double& mean : r.mean) mean = center ? mean / length : 0;  // of nothing: NaN
  for (int64_t i = 0; i < view.count; i++) {
    const double apart = x[at(i)] - r.mean[at(view.row(i))];
    r.inv_std[at(view.row(i))] += apart * apart;
  }
  for (size_t row = 0; row < r.inv_std.size(); row++) {
    r.unbiased[row] = r.inv_std[row] / (length - 1);
    r.inv_std[row] = 1 / std::sqrt(r.inv_std[row] / length + epsilon);
  }
  for (int64_t i = 0; i < view.count; i++) {
    const size_t row = at(view.row(i)), w = at(view.weight(i));
    r.y[at(i)] = (x[at(i)] - r.mean[row]) * r.inv_std[row] * (weight.empty() ? 1 : weight[w]) +
                 (bias.empty() ? 0 : bias[w]);
  }
  return r;
}

NormGradients norm_backward_reference(const NormView& view, const Values& dy, const Values& x,
                                      const Values& weight, double epsilon, bool center) {
  const Normed forward = norm_reference(view, x, {}, {}, epsilon, center);
  const double length = static_cast<double>(view.count) / static_cast<double>(view.rows);
  NormGradients g{Values(x.size()), Values(at(view.weights), 0.0), Values(at(view.weights), 0.0)};
  Values level(at(view.rows), 0.0), slope(at(view.rows), 0.0);
  const auto scaled = [&](int64_t i) {
    return dy[at(i)] * (weight.empty() ? 1 : weight[at(view.weight(i))]);
  };
  for (int64_t i = 0; i < view.count; i++) {
    const size_t row = at(view.row(i)), w = at(view.weight(i));
    if (center) level[row] += scaled(i) / length;
    slope[row] += scaled(i) * forward.y[at(i)] / length;
    g.dweight[w] += dy[at(i)] * forward.y[at(i)];
    g.dbias[w] += dy[at(i)];
  }
  for (int64_t i = 0; i < view.count; i++) {
    const size_t row = at(view.row(i));
    g.dx[at(i)] = forward.inv_std[row] * (scaled(i) - level[row] - forward.y[at(i)] * slope[row]);
  }
  return g;
}

NormGradients norm_numeric_gradients(const NormView& view, const Values& dy, const Values& x,
                                     const Values& weight, const Values& bias, double epsilon, bool center) {
  const auto loss = [&](const Values& at, const Values& scale, const Values& shift) {
    const Values y = norm_reference(view, at, scale, shift, epsilon, center).y;
    double sum = 0;
    for (size_t i = 0; i < y.size(); i++) sum += y[i] * dy[i];
    return sum;
  };
  const auto gradient = [](const Values& at, const std::function<double(const Values&)>& f) {
    Values result;
    for (size_t i = 0; i < at.size(); i++) result.push_back(numeric_gradient(f, at, i));
    return result;
  };
  return {gradient(x, [&](const Values& v) { return loss(v, weight, bias); }),
          gradient(weight, [&](const Values& v) { return loss(x, v, bias); }),
          gradient(bias, [&](const Values& v) { return loss(x, weight, v); })};
}

double deviation_of_means(const std::vector<float>& means, const Values& expected, const Values& x) {
  double largest = 0, most = 0;
  for (double v : x) largest = std::max(largest, std::abs(v));
  if (largest == 0) return deviation(means, expected);
  for (double v : expected) most = std::max(most, std::abs(v));
  return deviation(means, expected) * (most > 0 ? most : 1) / largest;
}

}  // namespace dlprim::test
