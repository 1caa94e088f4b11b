// The problems that `dlprim doctor` runs, and their right results by plain loops in double. Inputs are small
// integers wherever the result can be exact; elsewhere the bound stands beside the case.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include <dlprim/class_loss.hpp>
#include <dlprim/conv.hpp>
#include <dlprim/copy.hpp>
#include <dlprim/dropout.hpp>
#include <dlprim/gather.hpp>
#include <dlprim/gemm.hpp>
#include <dlprim/interpolate.hpp>
#include <dlprim/layer_norm.hpp>
#include <dlprim/movement.hpp>
#include <dlprim/optimizer.hpp>
#include <dlprim/pointwise.hpp>
#include <dlprim/pool.hpp>
#include <dlprim/scan.hpp>
#include <dlprim/softmax.hpp>
#include <dlprim/sort.hpp>

#include "doctor.hpp"
#include "format.hpp"

namespace dlprim::cli {
namespace {

using Values = std::vector<double>;

/// Whole numbers from -limit to limit, the same on every machine.
Values integers(int64_t count, unsigned seed, int limit) {
  std::mt19937 source(seed);
  Values values(static_cast<size_t>(count));
  for (double& v : values) v = static_cast<double>(source() % static_cast<unsigned>(2 * limit + 1)) - limit;
  return values;
}

Tensor given(const Stream& stream, DType dtype, const Shape& shape, const Values& values) {
  return to_device(stream, host_tensor(dtype, shape, values));
}

/// What no operator gives, so that an element that nobody writes is seen.
Tensor poisoned(const Stream& stream, DType dtype, const Shape& shape) {
  const Tensor y(stream, shape, dtype);
  if (is_floating(dtype))
    fill(stream, NAN, y);
  else
    fill(stream, 77, y);
  return y;
}

size_t at(int64_t i) {
  return static_cast<size_t>(i);
}

ExactCase gemm_case(DType dtype, DType result, int64_t m, int64_t n, int64_t k) {
  // Sums stay below 2048, which f16 holds, as long as k is at most 500.
  const Values a = integers(m * k, 1, 2), b = integers(k * n, 2, 2);
  Values c(at(m * n));
  for (int64_t i = 0; i < m; i++)
    for (int64_t l = 0; l < k; l++)
      for (int64_t j = 0; j < n; j++) c[at(i * n + j)] += a[at(i * k + l)] * b[at(l * n + j)];
  ExactCase test;
  test.family = "gemm";
  test.name = format("%s %lld x %lld x %lld", name_of(dtype), static_cast<long long>(m),
                     static_cast<long long>(n), static_cast<long long>(k));
  test.expected = {c};
  test.run = [=](const Stream& stream, const Options& options) {
    const Tensor y = poisoned(stream, result, {m, n});
    gemm(stream, given(stream, dtype, {m, k}, a), given(stream, dtype, {k, n}, b), {}, {}, y, options);
    return std::vector<Tensor>{y};
  };
  test.explain = [=](const Context& context) {
    const GemmDesc desc{TensorDesc({m, k}, dtype), TensorDesc({k, n}, dtype), TensorDesc({m, n}, result)};
    return Gemm(context, desc).explain();
  };
  return test;
}

/// A convolution of one form, in its three directions.
struct ConvForm {
  int64_t n, c, h, w, k, r;
  int64_t groups = 1;
  int64_t pad() const { return r / 2; }
  std::string text() const {
    return format("f32 [%lld, %lld, %lld, %lld], %lld filters of %lld x %lld, %lld groups",
                  static_cast<long long>(n), static_cast<long long>(c), static_cast<long long>(h),
                  static_cast<long long>(w), static_cast<long long>(k), static_cast<long long>(r),
                  static_cast<long long>(r), static_cast<long long>(groups));
  }
};

void add_conv_cases(std::vector<ExactCase>& cases, const ConvForm& f) {
  const int64_t inner = f.c / f.groups, each = f.k / f.groups;
  const Shape x_shape{f.n, f.c, f.h, f.w}, w_shape{f.k, inner, f.r, f.r}, y_shape{f.n, f.k, f.h, f.w};
  const Values x = integers(element_count(x_shape), 3, 3), w = integers(element_count(w_shape), 4, 3),
               dy = integers(element_count(y_shape), 5, 3);
  Values y(dy.size()), dx(x.size()), dw(w.size());
  for (int64_t n = 0; n < f.n; n++)
    for (int64_t k = 0; k < f.k; k++)
      for (int64_t c = 0; c < inner; c++)
        for (int64_t i = 0; i < f.h; i++)
          for (int64_t j = 0; j < f.w; j++)
            for (int64_t p = 0; p < f.r; p++)
              for (int64_t q = 0; q < f.r; q++) {
                const int64_t row = i + p - f.pad(), column = j + q - f.pad();
                if (row < 0 || row >= f.h || column < 0 || column >= f.w) continue;
                const size_t in = at(((n * f.c + k / each * inner + c) * f.h + row) * f.w + column);
                const size_t by = at(((k * inner + c) * f.r + p) * f.r + q);
                const size_t out = at(((n * f.k + k) * f.h + i) * f.w + j);
                y[out] += x[in] * w[by], dx[in] += dy[out] * w[by], dw[by] += dy[out] * x[in];
              }
  ConvParams params;
  params.pad_begin = {f.pad(), f.pad()};
  params.groups = f.groups;
  const auto add = [&](const char* name, const Values& expected, auto run, auto explain) {
    ExactCase test;
    test.family = "conv";
    test.name = std::string(name) + " " + f.text();
    test.expected = {expected};
    test.run = run;
    test.explain = explain;
    cases.push_back(std::move(test));
  };
  const DType f32 = DType::f32;
  add(
      "forward", y,
      [=](const Stream& stream, const Options& options) {
        const Tensor result = poisoned(stream, f32, y_shape);
        conv(stream, given(stream, f32, x_shape, x), given(stream, f32, w_shape, w), {}, params, result,
             options);
        return std::vector<Tensor>{result};
      },
      [=](const Context& context) {
        return Conv(context, {TensorDesc(x_shape), TensorDesc(w_shape), TensorDesc(y_shape), params})
            .explain();
      });
  add(
      "backward data", dx,
      [=](const Stream& stream, const Options& options) {
        const Tensor result = poisoned(stream, f32, x_shape);
        conv_backward_data(stream, given(stream, f32, y_shape, dy), given(stream, f32, w_shape, w), params,
                           result, options);
        return std::vector<Tensor>{result};
      },
      [=](const Context& context) {
        return ConvBackwardData(context,
                                {TensorDesc(y_shape), TensorDesc(w_shape), TensorDesc(x_shape), params})
            .explain();
      });
  add(
      "backward filter", dw,
      [=](const Stream& stream, const Options& options) {
        const Tensor result = poisoned(stream, f32, w_shape);
        conv_backward_filter(stream, given(stream, f32, x_shape, x), given(stream, f32, y_shape, dy), params,
                             result, options);
        return std::vector<Tensor>{result};
      },
      [=](const Context& context) {
        return ConvBackwardFilter(context,
                                  {TensorDesc(x_shape), TensorDesc(y_shape), TensorDesc(w_shape), params})
            .explain();
      });
}

ExactCase index_case() {
  const int64_t rows = 37, width = 50;
  const Values x = integers(rows * width, 6, 9), places = integers(rows * width, 7, 18);
  Values index, read, sum(x.size());
  for (size_t i = 0; i < x.size(); i++) {
    index.push_back(places[i] + 18);
    const auto column = static_cast<int64_t>(i) % width, row = static_cast<int64_t>(index[i]);
    read.push_back(x[at(row * width + column)]);
    sum[at(row * width + column)] += x[i];
  }
  ExactCase test{"index", "gather, and scatter by sum, f32 [37, 50]", {}, {read, sum}, 0, {}};
  test.run = [=](const Stream& stream, const Options& options) {
    const Shape shape{rows, width};
    const Tensor on = given(stream, DType::f32, shape, x), by = given(stream, DType::i64, shape, index);
    const Tensor y = poisoned(stream, DType::f32, shape), z = poisoned(stream, DType::f32, shape);
    gather(stream, on, by, 0, y, options);
    ScatterParams params;
    params.reduce = ScatterReduce::sum;
    scatter(stream, {}, by, on, 0, params, z, options);
    return std::vector<Tensor>{y, z};
  };
  return test;
}

ExactCase loss_case() {
  const int64_t rows = 33, classes = 41;
  const Values x = integers(rows * classes, 8, 6);
  Values target;
  double sum = 0;
  for (int64_t i = 0; i < rows; i++) {
    target.push_back(static_cast<double>(i * 7 % classes));
    double all = 0;
    for (int64_t c = 0; c < classes; c++) all += std::exp(x[at(i * classes + c)]);
    sum += std::log(all) - x[at(i * classes + i * 7 % classes)];
  }
  // A row's sum of 41 exponentials, each to 4 units in the last place, and the sum of 33 rows: 80 * 2^-24.
  ExactCase test{"loss", "cross-entropy f32 [33, 41]", {}, {{sum / static_cast<double>(rows)}}, 80 * 0x1p-24,
                 {}};
  test.run = [=](const Stream& stream, const Options& options) {
    const Tensor y = poisoned(stream, DType::f32, {1});
    cross_entropy(stream, given(stream, DType::f32, {rows, classes}, x),
                  given(stream, DType::i64, {rows}, target), {}, {}, y, options);
    return std::vector<Tensor>{y};
  };
  test.explain = [=](const Context& context) {
    return CrossEntropy(context,
                        {TensorDesc({rows, classes}), TensorDesc({rows}, DType::i64), TensorDesc({1})})
        .explain();
  };
  return test;
}

ExactCase movement_case() {
  const Values a = integers(23 * 45, 9, 100), b = integers(23 * 19, 10, 100);
  Values turned, joined;
  for (int64_t j = 0; j < 45; j++)
    for (int64_t i = 0; i < 23; i++) turned.push_back(a[at(i * 45 + j)]);
  for (int64_t i = 0; i < 23; i++) {
    joined.insert(joined.end(), a.begin() + i * 45, a.begin() + (i + 1) * 45);
    joined.insert(joined.end(), b.begin() + i * 19, b.begin() + (i + 1) * 19);
  }
  ExactCase test{"movement", "transposed copy f32 to f16, and concat", {}, {turned, joined}, 0, {}};
  test.run = [=](const Stream& stream, const Options& options) {
    const Tensor x = given(stream, DType::f32, {23, 45}, a), other = given(stream, DType::f32, {23, 19}, b);
    const Tensor y = poisoned(stream, DType::f16, {45, 23}), z = poisoned(stream, DType::f32, {23, 64});
    copy(stream, x.transpose(0, 1), y, options);
    concat(stream, {x, other}, 1, z, options);
    return std::vector<Tensor>{y, z};
  };
  return test;
}

ExactCase norm_case() {
  const int64_t rows = 29, width = 96;
  const Values x = integers(rows * width, 11, 8), scale = integers(width, 12, 3),
               shift = integers(width, 13, 3);
  Values y;
  for (int64_t i = 0; i < rows; i++) {
    double mean = 0, squares = 0;
    for (int64_t j = 0; j < width; j++) mean += x[at(i * width + j)] / static_cast<double>(width);
    for (int64_t j = 0; j < width; j++)
      squares += std::pow(x[at(i * width + j)] - mean, 2) / static_cast<double>(width);
    for (int64_t j = 0; j < width; j++)
      y.push_back((x[at(i * width + j)] - mean) / std::sqrt(squares + 1e-5) * scale[at(j)] + shift[at(j)]);
  }
  // Two sums of 96 numbers and a few roundings behind them.
  ExactCase test{"norm", "layer norm f32 [29, 96]", {}, {y}, 128 * 0x1p-24, {}};
  test.run = [=](const Stream& stream, const Options& options) {
    const Tensor result = poisoned(stream, DType::f32, {rows, width});
    layer_norm(stream, given(stream, DType::f32, {rows, width}, x), given(stream, DType::f32, {width}, scale),
               given(stream, DType::f32, {width}, shift), 1, 1e-5, result, {}, {}, options);
    return std::vector<Tensor>{result};
  };
  test.explain = [=](const Context& context) {
    const TensorDesc all({rows, width}), row({width});
    return LayerNorm(context, {all, all, row, row}).explain();
  };
  return test;
}

ExactCase optim_case() {
  const Values w = integers(1000, 14, 50), dw = integers(1000, 15, 50), v = integers(1000, 16, 50);
  Values new_w, new_v;
  for (size_t i = 0; i < w.size(); i++) {
    new_v.push_back(0.5 * v[i] + dw[i]);
    new_w.push_back(w[i] - 0.25 * new_v[i]);
  }
  ExactCase test{"optim", "SGD with momentum, 1000 weights", {}, {new_w, new_v}, 0, {}};
  test.run = [=](const Stream& stream, const Options& options) {
    const auto list = [&](const Values& values) {
      return std::vector<Tensor>{given(stream, DType::f32, {1000}, values)};
    };
    const OptimizerTensors tensors{list(w), list(dw), {}, {list(v)}};
    OptimizerDesc desc;
    desc.momentum = true;
    OptimizerStep step;
    step.learning_rate = 0.25, step.momentum = 0.5, step.step = 2;
    optimize(stream, desc, step, tensors, options);
    return std::vector<Tensor>{tensors.w[0], tensors.states[0][0]};
  };
  return test;
}

ExactCase pointwise_case() {
  const Values a = integers(31 * 67, 17, 9), b = integers(67, 18, 9);
  Values y;
  for (size_t i = 0; i < a.size(); i++) y.push_back(a[i] > 0 ? a[i] * b[i % 67] + 2.5 : -a[i]);
  const std::string body = "y0 = x0 > 0 ? x0 * x1 + s0 : -x0";
  ExactCase test{"pointwise", "an expression with a broadcast row f32 [31, 67]", {}, {y}, 0, {}};
  test.run = [=](const Stream& stream, const Options& options) {
    const Tensor result = poisoned(stream, DType::f32, {31, 67});
    pointwise(stream, {given(stream, DType::f32, {31, 67}, a), given(stream, DType::f32, {67}, b)}, {result},
              {2.5}, body, options);
    return std::vector<Tensor>{result};
  };
  return test;
}

ExactCase pool_case(PoolMode mode) {
  const int64_t planes = 6, h = 18, w = 22;
  const Values x = integers(planes * h * w, 19, 20);
  Values y;
  for (int64_t c = 0; c < planes; c++)
    for (int64_t i = 0; i < h / 2; i++)
      for (int64_t j = 0; j < w / 2; j++) {
        double most = -INFINITY, sum = 0;
        for (int64_t p = 0; p < 2; p++)
          for (int64_t q = 0; q < 2; q++) {
            const double v = x[at((c * h + 2 * i + p) * w + 2 * j + q)];
            most = std::max(most, v), sum += v;
          }
        y.push_back(mode == PoolMode::max ? most : sum / 4);
      }
  PoolParams params;
  params.mode = mode;
  params.kernel = {2, 2};
  ExactCase test{"pool", mode == PoolMode::max ? "maxima of 2 x 2" : "means of 2 x 2", {}, {y}, 0, {}};
  test.run = [=](const Stream& stream, const Options& options) {
    const Tensor result = poisoned(stream, DType::f32, {2, 3, h / 2, w / 2});
    pool(stream, given(stream, DType::f32, {2, 3, h, w}, x), params, result, {}, options);
    return std::vector<Tensor>{result};
  };
  test.explain = [=](const Context& context) {
    return Pool(context, {TensorDesc({2, 3, h, w}), TensorDesc({2, 3, h / 2, w / 2}), params, {}}).explain();
  };
  return test;
}

/// Philox4x32-10 (Salmon et al., 2011) is whole numbers alone; what dropout keeps is known once its sequence
/// is. Here a kept element must be twice itself, and about half of them must be kept; that it is the same
/// half each time the comparison of runs sees.
ExactCase random_case() {
  constexpr int64_t kCount = 4096;
  ExactCase test{"random", "dropout of 4096 ones", {}, {{1, 1}}, 0, {}};
  test.run = [=](const Stream& stream, const Options& options) {
    const Tensor x = given(stream, DType::f32, {kCount}, Values(kCount, 1)),
                 y = poisoned(stream, DType::f32, {kCount});
    dropout(stream, x, 0.5, {1234, 56, false}, y, options);
    // Each element is 0 or 2; their sum is 4096 +- 6 * 64, six deviations.
    const std::vector<float> values = read<float>(stream, y);
    const bool all = std::all_of(values.begin(), values.end(), [](float v) { return v == 0 || v == 2; });
    const double sum = std::accumulate(values.begin(), values.end(), 0.0);
    const Tensor said = given(stream, DType::f32, {2}, {double(all), double(std::fabs(sum - kCount) < 384)});
    return std::vector<Tensor>{said, y};
  };
  return test;
}

ExactCase reduce_case() {
  const Values x = integers(123 * 77, 20, 9);
  Values rows(123), columns(77);
  for (size_t i = 0; i < 123; i++)
    for (size_t j = 0; j < 77; j++) rows[i] += x[i * 77 + j], columns[j] += x[i * 77 + j];
  ExactCase test{"reduce", "sums of rows and of columns f32 [123, 77]", {}, {rows, columns}, 0, {}};
  test.run = [=](const Stream& stream, const Options& options) {
    const Tensor on = given(stream, DType::f32, {123, 77}, x);
    const Tensor y = poisoned(stream, DType::f32, {123, 1}), z = poisoned(stream, DType::f32, {1, 77});
    reduce(stream, {on}, {y}, {}, sum_of("x0"), options);
    reduce(stream, {on}, {z}, {}, sum_of("x0"), options);
    return std::vector<Tensor>{y, z};
  };
  return test;
}

/// Twice as large: weights of 1/4 and 3/4 along each axis, so that sixteenths are exact.
ExactCase resample_case() {
  const int64_t h = 9, w = 13;
  const Values x = integers(2 * h * w, 21, 30);
  Values y;
  for (int64_t c = 0; c < 2; c++)
    for (int64_t i = 0; i < 2 * h; i++)
      for (int64_t j = 0; j < 2 * w; j++) {
        const double row = std::max(0.0, (static_cast<double>(i) + 0.5) / 2 - 0.5),
                     column = std::max(0.0, (static_cast<double>(j) + 0.5) / 2 - 0.5);
        const auto r = static_cast<int64_t>(row), s = static_cast<int64_t>(column);
        const double below = row - static_cast<double>(r), right = column - static_cast<double>(s);
        const auto value = [&](int64_t p, int64_t q) {
          return x[at((c * h + std::min(p, h - 1)) * w + std::min(q, w - 1))];
        };
        y.push_back((1 - below) * ((1 - right) * value(r, s) + right * value(r, s + 1)) +
                    below * ((1 - right) * value(r + 1, s) + right * value(r + 1, s + 1)));
      }
  ExactCase test{"resample", "bilinear, twice as large", {}, {y}, 0, {}};
  test.run = [=](const Stream& stream, const Options& options) {
    const Tensor result = poisoned(stream, DType::f32, {1, 2, 2 * h, 2 * w});
    InterpolateParams params;
    params.mode = InterpolateMode::linear;
    interpolate(stream, given(stream, DType::f32, {1, 2, h, w}, x), params, result, options);
    return std::vector<Tensor>{result};
  };
  return test;
}

ExactCase scan_case() {
  const int64_t rows = 7, width = 2500;
  const Values x = integers(rows * width, 22, 9);
  Values y;
  for (int64_t i = 0; i < rows; i++) {
    double sum = 0;
    for (int64_t j = 0; j < width; j++) y.push_back(sum += x[at(i * width + j)]);
  }
  ExactCase test{"scan", "running sums f32 [7, 2500]", {}, {y}, 0, {}};
  test.run = [=](const Stream& stream, const Options& options) {
    const Tensor result = poisoned(stream, DType::f32, {rows, width});
    cumsum(stream, given(stream, DType::f32, {rows, width}, x), {}, result, options);
    return std::vector<Tensor>{result};
  };
  test.explain = [=](const Context& context) {
    return Scan(context, {TensorDesc({rows, width}), TensorDesc({rows, width})}).explain();
  };
  return test;
}

ExactCase softmax_case() {
  const int64_t rows = 31, width = 83;
  const Values x = integers(rows * width, 23, 5);
  Values y;
  for (int64_t i = 0; i < rows; i++) {
    double sum = 0;
    for (int64_t j = 0; j < width; j++) sum += std::exp(x[at(i * width + j)]);
    for (int64_t j = 0; j < width; j++) y.push_back(std::exp(x[at(i * width + j)]) / sum);
  }
  // An exponential to 4 units in the last place, a sum of 83 of them, a quotient.
  ExactCase test{"softmax", "rows f32 [31, 83]", {}, {y}, 96 * 0x1p-24, {}};
  test.run = [=](const Stream& stream, const Options& options) {
    const Tensor result = poisoned(stream, DType::f32, {rows, width});
    softmax(stream, given(stream, DType::f32, {rows, width}, x), {}, 1, result, options);
    return std::vector<Tensor>{result};
  };
  test.explain = [=](const Context& context) {
    return Softmax(context, {TensorDesc({rows, width}), TensorDesc({rows, width}), 1}).explain();
  };
  return test;
}

ExactCase sort_case() {
  const int64_t rows = 5, width = 700;
  const Values x = integers(rows * width, 24, 50);
  Values y, places;
  for (int64_t i = 0; i < rows; i++) {
    Values order(at(width));
    std::iota(order.begin(), order.end(), 0.0);
    const auto value = [&](double j) { return x[at(i * width + static_cast<int64_t>(j))]; };
    std::stable_sort(order.begin(), order.end(), [&](double a, double b) { return value(a) < value(b); });
    for (const double j : order) y.push_back(value(j)), places.push_back(j);
  }
  ExactCase test{"sort", "rows with equal numbers f32 [5, 700]", {}, {y, places}, 0, {}};
  test.run = [=](const Stream& stream, const Options& options) {
    const Tensor result = poisoned(stream, DType::f32, {rows, width}),
                 index = poisoned(stream, DType::i64, {rows, width});
    sort(stream, given(stream, DType::f32, {rows, width}, x), {}, result, index, options);
    return std::vector<Tensor>{result, index};
  };
  test.explain = [=](const Context& context) {
    const TensorDesc all({rows, width});
    return Sort(context, {all, all, TensorDesc({rows, width}, DType::i64)}).explain();
  };
  return test;
}

}  // namespace

std::vector<ExactCase> exact_cases(const Device& device) {
  std::vector<ExactCase> cases;
  add_conv_cases(cases, {2, 16, 14, 15, 24, 3});
  add_conv_cases(cases, {2, 32, 9, 8, 32, 1});
  add_conv_cases(cases, {2, 16, 13, 14, 16, 3, 16});
  for (const auto& [m, n, k] : {std::tuple(67, 130, 96), std::tuple(256, 256, 128)}) {
    cases.push_back(gemm_case(DType::f32, DType::f32, m, n, k));
    cases.push_back(gemm_case(DType::f16, DType::f16, m, n, k));
    cases.push_back(gemm_case(DType::bf16, DType::f32, m, n, k));
    cases.push_back(gemm_case(DType::i8, DType::i32, m, n, k));
  }
  if (device.probes().fp64) cases.push_back(gemm_case(DType::f64, DType::f64, 67, 130, 96));
  for (ExactCase& test : std::vector<ExactCase>{index_case(), loss_case(), movement_case(), norm_case(),
                                                optim_case(), pointwise_case(), pool_case(PoolMode::max),
                                                pool_case(PoolMode::average), random_case(), reduce_case(),
                                                resample_case(), scan_case(), softmax_case(), sort_case()})
    cases.push_back(std::move(test));
  return cases;
}

}  // namespace dlprim::cli
