// The error of each convolution engine against sums in double, as a table for each window: root mean square
// of the error over that of the result, of random numbers in [-1, 1). `naive` is the plain chain of
// multiply-adds in the forward and the backward data direction, and one chain a row in backward filter.
//   conv_error
#include <cstdio>
#include <string>

#include "cases/conv.hpp"
#include "cases/gemm.hpp"

using namespace dlprim;
using namespace dlprim::test;

namespace {

struct Row {
  const char* engine;
  MathMode math;
};
constexpr Row kRows[] = {{"naive", MathMode::strict},
                         {"fma", MathMode::strict},
                         {"cpu", MathMode::strict},
                         {"nv_wgmma", MathMode::strict},
                         {"winograd_fused", MathMode::strict},
                         {"winograd:m=2", MathMode::standard},
                         {"winograd:m=4", MathMode::standard},
                         {"nv_wgmma", MathMode::tf32}};

/// A case with its results in double.
struct Problem {
  explicit Problem(const ConvCase& problem) : c(problem) {
    Rng rng(1);
    x = reals(element_count(c.x_shape()), rng);
    w = reals(element_count(c.w_shape()), rng);
    dy = reals(element_count(c.y_shape()), rng);
    y = conv_forward_reference(c, x, w);
    dx = conv_backward_data_reference(c, dy, w);
    dw = conv_backward_filter_reference(c, x, dy);
  }
  ConvCase c;
  std::vector<float> x, w, dy;
  std::vector<double> y, dx, dw;
};

/// "-" if the engine refuses.
template <class Run>
std::string error_of(const Shape& shape, const std::vector<double>& expected, const Run& run) {
  const Tensor result(context(), shape);
  try {
    run(result);
  } catch (const ValidationError&) {
    return "-";
  }
  char text[32];
  std::snprintf(text, sizeof text, "%.2e", relative_error(host_values(result), expected));
  return text;
}

void print(const Row& row, const Problem& p) {
  Options options;
  options.engine = row.engine;
  options.math = row.math;
  const Tensor x = device_tensor(p.c.x_shape(), p.x), w = device_tensor(p.c.w_shape(), p.w),
               dy = device_tensor(p.c.y_shape(), p.dy);
  const std::string errors[] = {
      error_of(p.c.y_shape(), p.y,
               [&](const Tensor& y) { conv(stream(), x, w, {}, p.c.params, y, options); }),
      error_of(p.c.x_shape(), p.dx,
               [&](const Tensor& dx) { conv_backward_data(stream(), dy, w, p.c.params, dx, options); }),
      error_of(p.c.w_shape(), p.dw,
               [&](const Tensor& dw) { conv_backward_filter(stream(), x, dy, p.c.params, dw, options); })};
  if (errors[0] == "-" && errors[1] == "-" && errors[2] == "-") return;
  std::printf("| %s%s |", row.engine, row.math == MathMode::tf32 ? ", tf32" : "");
  for (const std::string& error : errors) std::printf(" %s |", error.c_str());
  std::printf("\n");
  std::fflush(stdout);
}

}  // namespace

int main() {
  for (const Dims& window : {Dims{3, 3}, Dims{1, 3}, Dims{5, 1}, Dims{1, 7}, Dims{5, 5}})
    for (int64_t channels : {64, 256}) {
      if (channels == 256 && window != Dims{3, 3}) continue;
      const Problem p({"errors",
                       2,
                       channels,
                       {14, 14},
                       64,
                       window,
                       {{}, {window[0] / 2, window[1] / 2}, {window[0] / 2, window[1] / 2}}});
      std::printf(
          "\n| %dx%d, %d channels, 64 filters, 2 x 14 x 14 | forward | backward data | backward filter |\n",
          static_cast<int>(window[0]), static_cast<int>(window[1]), static_cast<int>(channels));
      std::printf("|---|---|---|---|\n");
      for (const Row& row : kRows) print(row, p);
    }
}
