#include "cases/nn.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "mutation.hpp"

namespace dlprim::test {
namespace {

size_t at(int64_t i) {
  return static_cast<size_t>(i);
}

/// Calls f(index, channel) for every element of [N, C, ...].
template <class F>
void for_channels(const Shape& shape, const F& f) {
  const AxisView v(shape, 1);
  for (int64_t o = 0; o < v.outer; o++)
    for (int64_t c = 0; c < v.size; c++)
      for (int64_t i = 0; i < v.inner; i++) f(at((o * v.size + c) * v.inner + i), at(c));
}

/// Calls f(first, step, size) for every row along the axis.
template <class F>
void for_rows(const Shape& shape, int axis, const F& f) {
  const AxisView v(shape, axis);
  for (int64_t o = 0; o < v.outer; o++)
    for (int64_t i = 0; i < v.inner; i++) f(o * v.size * v.inner + i, v.inner, v.size);
}

}  // namespace

const char* name_of(Placing placing) {
  return placing == Placing::row_major ? "row-major" : placing == Placing::gaps ? "gaps" : "channels-last";
}

Strides strides_in(Placing placing, const Shape& shape) {
  if (placing == Placing::row_major || shape.size() < 2) return contiguous_strides(shape);
  const bool last = placing == Placing::channels_last;
  Strides strides = shape;
  int64_t step = last ? 1 : 2;
  const auto take = [&](int axis) {
    strides[axis] = step;
    step = step * std::max<int64_t>(shape[axis], 1) + (last ? 0 : 3);
  };
  if (last) take(1);
  for (int axis = shape.size() - 1; axis >= 0; axis--)
    if (!last || axis != 1) take(axis);
  return strides;
}

Tensor placed(Placing placing, const Shape& shape, const std::vector<float>& values, DType dtype) {
  const OwnMeans means;
  const Guarded room(shape, strides_in(placing, shape), dtype, 5);
  const std::vector<unsigned char> bytes = host_bytes(device_tensor(shape, values, dtype));
  write(stream(), room.tensor(), bytes.data(), room.tensor().bytes());
  stream().finish();  // PoCL fails in a program that ends while a kernel is compiled
  return room.tensor();
}

Values values_of(const Tensor& x) {
  const std::vector<float> values = host_values(x);
  return {values.begin(), values.end()};
}

double storage_roundoff(DType dtype) {
  return dtype == DType::f16 ? 0x1p-11 : dtype == DType::bf16 ? 0x1p-8 : 0;
}

AxisView::AxisView(const Shape& shape, int axis) {
  for (int i = 0; i < shape.size(); i++) (i < axis ? outer : i == axis ? size : inner) *= shape[i];
}

double activation_value(Activation f, double x) {
  switch (f) {
    case Activation::identity:
      return x;
    case Activation::relu:
      return std::isnan(x) || x > 0 ? x : 0;
    case Activation::relu6:
      return std::isnan(x) || (x > 0 && x < 6) ? x : x > 0 ? 6 : 0;
    case Activation::sigmoid:
      return 1 / (1 + std::exp(-x));
    case Activation::tanh:
      return std::tanh(x);
    case Activation::hardsigmoid:
      return x <= -3 ? 0 : x >= 3 ? 1 : x / 6 + 0.5;
    case Activation::silu:
      return x / (1 + std::exp(-x));
    case Activation::hardswish:
      return x <= -3 ? x * 0 : x >= 3 ? x : x * (x + 3) / 6;
    case Activation::gelu:
      return x * std::erfc(-x / std::sqrt(2.0)) / 2;
    case Activation::gelu_tanh:
      // 1 + tanh(z), but for what the sum would lose of small numbers
      return x / (1 + std::exp(-2 * std::sqrt(2 / std::acos(-1.0)) * (x + 0.044715 * x * x * x)));
  }
  return 0;
}

double activation_slope(Activation f, double x) {
  const double y = activation_value(f, x);
  switch (f) {
    case Activation::identity:
      return 1;
    case Activation::relu:
      return x <= 0 ? 0 : 1;
    case Activation::relu6:
      return x <= 0 || x >= 6 ? 0 : 1;
    case Activation::sigmoid:
      return y * (1 - y);
    case Activation::tanh:
      return 1 - y * y;
    case Activation::hardsigmoid:
      return x <= -3 || x >= 3 ? 0 : 1.0 / 6;
    case Activation::silu:
    case Activation::hardswish:
    case Activation::gelu:
    case Activation::gelu_tanh:
      break;  // nothing is told from their results
  }
  return 0;
}

BatchNormed batch_norm_reference(const Values& x, const Shape& shape, const Values& weight,
                                 const Values& bias, double epsilon) {
  const size_t channels = at(shape[1]);
  const double count = static_cast<double>(x.size()) / static_cast<double>(std::max<size_t>(channels, 1));
  BatchNormed r{Values(x.size()), Values(channels, 0.0), Values(channels, 0.0), Values(channels)};
  for_channels(shape, [&](size_t i, size_t c) { r.mean[c] += x[i] / count; });
  for_channels(shape,
               [&](size_t i, size_t c) { r.variance[c] += (x[i] - r.mean[c]) * (x[i] - r.mean[c]) / count; });
  for (size_t c = 0; c < channels; c++) r.unbiased[c] = r.variance[c] * count / (count - 1);
  for_channels(shape, [&](size_t i, size_t c) {
    r.y[i] = (x[i] - r.mean[c]) / std::sqrt(r.variance[c] + epsilon) * weight[c] + bias[c];
  });
  return r;
}

BatchNormGradients batch_norm_backward_reference(const Values& dy, const Values& x, const Shape& shape,
                                                 const Values& weight, double epsilon) {
  const BatchNormed forward = batch_norm_reference(x, shape, weight, weight, epsilon);
  const size_t channels = at(shape[1]);
  const double count = static_cast<double>(x.size()) / static_cast<double>(std::max<size_t>(channels, 1));
  BatchNormGradients g{Values(x.size()), Values(channels, 0.0), Values(channels, 0.0)};
  const auto normal = [&](size_t i, size_t c) {
    return (x[i] - forward.mean[c]) / std::sqrt(forward.variance[c] + epsilon);
  };
  for_channels(shape, [&](size_t i, size_t c) {
    g.dbias[c] += dy[i];
    g.dweight[c] += dy[i] * normal(i, c);
  });
  for_channels(shape, [&](size_t i, size_t c) {
    g.dx[i] = weight[c] / std::sqrt(forward.variance[c] + epsilon) *
              (dy[i] - (g.dbias[c] + normal(i, c) * g.dweight[c]) / count);
  });
  return g;
}

Values softmax_reference(const Values& x, const Shape& shape, int axis, bool log) {
  Values y(x.size());
  for_rows(shape, axis, [&](int64_t first, int64_t step, int64_t size) {
    double best = -std::numeric_limits<double>::infinity(), sum = 0;
    for (int64_t i = 0; i < size; i++) best = std::max(best, x[at(first + i * step)]);
    for (int64_t i = 0; i < size; i++) sum += std::exp(x[at(first + i * step)] - best);
    for (int64_t i = 0; i < size; i++) {
      const double v = x[at(first + i * step)] - best;
      y[at(first + i * step)] = log ? v - std::log(sum) : std::exp(v) / sum;
    }
  });
  return y;
}

Values softmax_backward_reference(const Values& dy, const Values& y, const Shape& shape, int axis, bool log) {
  Values dx(dy.size());
  for_rows(shape, axis, [&](int64_t first, int64_t step, int64_t size) {
    double sum = 0;
    for (int64_t i = 0; i < size; i++) sum += dy[at(first + i * step)] * (log ? 1 : y[at(first + i * step)]);
    for (int64_t i = 0; i < size; i++) {
      const size_t e = at(first + i * step);
      dx[e] = log ? dy[e] - std::exp(y[e]) * sum : y[e] * (dy[e] - sum);
    }
  });
  return dx;
}

std::array<uint32_t, 4> philox_reference(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; round++) {
    const uint64_t p = uint64_t{0xD2511F53} * counter[0], q = uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<uint32_t>(q >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(q),
               static_cast<uint32_t>(p >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(p)};
    key = {key[0] + 0x9E3779B9u, key[1] + 0xBB67AE85u};
  }
  return counter;
}

uint32_t random_word(uint64_t seed, uint64_t i) {
  const uint64_t block = i / 4;
  return philox_reference({static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32), 0, 0},
                          {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)})[i % 4];
}

double normal_reference(uint64_t seed, uint64_t i) {
  constexpr double kPi = 3.14159265358979323846;
  const double u = (random_word(seed, i & ~uint64_t{1}) + 0.5) * 0x1p-32;
  const double angle = 2 * kPi * (random_word(seed, i | 1) >> 8) * 0x1p-24;
  return std::sqrt(-2 * std::log(u)) * (i % 2 ? std::sin(angle) : std::cos(angle));
}

}  // namespace dlprim::test
