// How long GEMM and convolution of f32 take on data whose parts lose bits, over the time that usual data
// takes: what an engine that splits f32 pays for numbers that it has to compute otherwise.
//   hard_data             every row
//   hard_data FILTER      those with FILTER in their names
//   hard_data FILTER KIND    of these, usual data and that of one other kind ("denormals"; "usual": usual
//   data alone)
// DLPRIM_ENGINE names the engine: without, the library chooses.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "cases/conv.hpp"
#include "cases/gemm.hpp"

using namespace dlprim;
using namespace dlprim::test;

namespace {

enum Kind { usual, one_infinity, one_nan, one_denormal, denormal_channel, denormals, wide };
constexpr const char* kKinds[] = {"usual",        "one infinity",           "one NaN",
                                  "one denormal", "a channel of denormals", "denormals",
                                  "1e-38 to 1e38"};

/// [rows][columns], of which a row is a filter, a channel of an image, ...
std::vector<float> values(const Shape& shape, Kind kind, uint64_t seed) {
  Rng rng(seed);
  std::vector<float> v = reals(element_count(shape), rng);
  const size_t row = v.size() / static_cast<size_t>(shape[0] * (shape.size() > 2 ? shape[1] : 1));
  if (kind == one_infinity) v[v.size() / 2] = INFINITY;
  if (kind == one_nan) v[v.size() / 2] = NAN;
  if (kind == one_denormal) v[v.size() / 2] = 1e-40f;
  for (size_t i = 0; i < v.size(); i++) {
    if (kind == denormals || (kind == denormal_channel && i < row)) v[i] *= 1e-39f;
    if (kind == wide) v[i] *= std::pow(10.f, static_cast<float>(i * 7919 % 77) - 38);
  }
  return v;
}

/// Microseconds: the median of 5 batches.
template <class Run>
double time_of(const Run& run) {
  const auto batch = [&](int runs) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < runs; i++) run();
    stream().finish();
    return 1e6 * std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / runs;
  };
  batch(1);
  const int runs = static_cast<int>(std::clamp(5e3 / batch(1), 1.0, 50.0));
  std::vector<double> times;
  for (int i = 0; i < 5; i++) times.push_back(batch(runs));
  std::sort(times.begin(), times.end());
  return times[2];
}

/// Data of other kinds is left out.
const char* only = nullptr;

/// `time(kinds)`: of operands of those kinds.
template <class Time>
void print_row(const std::string& name, const char* filter, const Time& time) {
  if (filter != nullptr && name.find(filter) == std::string::npos) return;
  double first = 0;
  const Kind both[][2] = {{usual, usual},
                          {one_infinity, usual},
                          {usual, one_infinity},
                          {one_nan, usual},
                          {one_denormal, usual},
                          {denormal_channel, usual},
                          {usual, denormal_channel},
                          {denormals, usual},
                          {usual, denormals},
                          {denormals, denormals},
                          {wide, wide}};
  for (const auto& kinds : both) {
    const auto left_out = [](Kind kind) {
      return only != nullptr && kind != usual && std::strcmp(only, kKinds[kind]) != 0;
    };
    if (left_out(kinds[0]) || left_out(kinds[1])) continue;
    const double micros = time(kinds[0], kinds[1]);
    if (first == 0) first = micros;
    std::printf("| %s | %s | %s | %.1f | %.2f |\n", name.c_str(), kKinds[kinds[0]], kKinds[kinds[1]], micros,
                micros / first);
    std::fflush(stdout);
  }
}

Options asked() {
  const char* engine = std::getenv("DLPRIM_ENGINE");
  Options options;
  if (engine != nullptr) options.engine = engine;
  return options;
}

void print_gemm(int64_t m, int64_t n, int64_t k, bool transposed_a, bool transposed_b, const char* filter) {
  const std::string name = "gemm " + std::to_string(m) + " x " + std::to_string(n) + " x " +
                           std::to_string(k) + " " + (transposed_a ? "t" : "n") + (transposed_b ? "t" : "n");
  const auto operand = [](int64_t rows, int64_t columns, bool transposed, Kind kind, uint64_t seed) {
    const Tensor x =
        device_tensor(transposed ? Shape{columns, rows} : Shape{rows, columns},
                      values(transposed ? Shape{columns, rows} : Shape{rows, columns}, kind, seed));
    return transposed ? x.transpose(0, 1) : x;
  };
  print_row(name, filter, [&](Kind of_a, Kind of_b) {
    const Tensor a = operand(m, k, transposed_a, of_a, 1), b = operand(k, n, transposed_b, of_b, 2);
    const Tensor c = device_tensor({m, n}, std::vector<float>(static_cast<size_t>(m * n)));
    const Gemm plan(context(), {a, b, c}, asked());
    if (of_a == usual && of_b == usual) std::printf("(%s)\n", plan.engine().c_str());
    return time_of([&] { plan.run(stream(), a, b, {}, c); });
  });
}

}  // namespace

int main(int count, char** arguments) {
  const char* filter = count > 1 ? arguments[1] : nullptr;
  only = count > 2 ? arguments[2] : nullptr;
  const auto is_only = [](const char* kind) { return std::strcmp(only, kind) == 0; };
  if (only != nullptr && std::none_of(std::begin(kKinds), std::end(kKinds), is_only)) {
    std::fprintf(stderr, "hard_data: no kind of data is called \"%s\"\n", only);
    return 2;
  }
  print_gemm(1024, 1024, 1024, false, false, filter);
  print_gemm(2048, 2048, 2048, false, true, filter);
  print_gemm(4096, 4096, 4096, true, false, filter);
  print_gemm(512, 8192, 1024, false, false, filter);
  const ConvParams same{{1}, {1}, {1}};
  const ConvCase layers[] = {{"3x3 64->256 13x13", 64, 64, {13, 13}, 256, {3, 3}, same},
                             {"3x3 256->64 13x13", 64, 256, {13, 13}, 64, {3, 3}, same},
                             {"3x3 128->128 28x28", 64, 128, {28, 28}, 128, {3, 3}, same},
                             {"1x1 256->64 56x56", 64, 256, {56, 56}, 64, {1, 1}}};
  for (const ConvCase& c : layers)
    for (int direction : {2, 0, 1}) {
      const char* const names[] = {" forward", " backward data", " backward filter"};
      print_row(c.name + names[direction], filter, [&](Kind a, Kind b) {
        const Tensor x = device_tensor(c.x_shape(), values(c.x_shape(), direction == 1 ? usual : a, 1));
        const Tensor w = device_tensor(c.w_shape(), values(c.w_shape(), direction == 2 ? usual : b, 2));
        const Tensor y = device_tensor(c.y_shape(), values(c.y_shape(), direction == 1 ? a : b, 3));
        const ConvDesc desc{x, w, y, c.params};
        const Conv forward(context(), desc, asked());
        const ConvBackwardData data(context(), backward_data_of(desc), asked());
        const ConvBackwardFilter of_filter(context(), backward_filter_of(desc), asked());
        if (a == usual && b == usual)
          std::printf("(%s)\n", direction == 0   ? forward.engine().c_str()
                                : direction == 1 ? data.engine().c_str()
                                                 : of_filter.engine().c_str());
        if (direction == 0) return time_of([&] { forward.run(stream(), x, w, {}, y); });
        if (direction == 1) return time_of([&] { data.run(stream(), y, w, x); });
        return time_of([&] { of_filter.run(stream(), x, y, {}, w); });
      });
    }
}
