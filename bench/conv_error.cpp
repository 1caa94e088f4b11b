// The error of each convolution engine that serves, in each direction and math mode, against sums in double,
// as a table: root mean square of the error over that of the result, for random numbers in [-1, 1). `naive`
// is the plain chain of multiply-adds. Layers are a network's, of few images, so that their sums are as long
// as the network's.
//   conv_error            all layers
//   conv_error FILTER     those with FILTER in their names
#include <cstdio>
#include <cstring>

#include "cases/conv.hpp"
#include "cases/gemm.hpp"

using namespace dlprim;
using namespace dlprim::test;

namespace {

/// Their sums, forward: 576, 2304, 147, 512 and 9 products.
std::vector<ConvCase> layers() {
  const ConvParams same{{1}, {1}, {1}};
  ConvParams depthwise = same;
  depthwise.groups = 64;
  return {{"3x3 64->64 28x28", 2, 64, {28, 28}, 64, {3, 3}, same},
          {"3x3 256->256 14x14", 2, 256, {14, 14}, 256, {3, 3}, same},
          {"7x7/2 3->64 56x56", 2, 3, {56, 56}, 64, {7, 7}, {{2}, {3}, {3}}},
          {"1x1 512->128 14x14", 2, 512, {14, 14}, 128, {1, 1}},
          {"3x3 depthwise 64 28x28", 2, 64, {28, 28}, 64, {3, 3}, depthwise}};
}

struct Mode {
  const char* name;
  MathMode math;
  DType dtype;
};
constexpr Mode kModes[] = {{"f32 strict", MathMode::strict, DType::f32},
                           {"f32 standard", MathMode::standard, DType::f32},
                           {"f32 tf32", MathMode::tf32, DType::f32},
                           {"f16 -> f32", MathMode::standard, DType::f16},
                           {"bf16 -> f32", MathMode::standard, DType::bf16}};

/// Operands in [-1, 1), and what they give in double: results of forward, backward data and backward filter.
struct Problem {
  explicit Problem(const ConvCase& of) : c(of) {
    Rng rng(1);
    x = reals(element_count(c.x_shape()), rng), w = reals(element_count(c.w_shape()), rng);
    y = reals(element_count(c.y_shape()), rng);
    expected[0] = conv_forward_reference(c, x, w);
    expected[1] = conv_backward_data_reference(c, y, w);
    expected[2] = conv_backward_filter_reference(c, x, y);
  }
  ConvCase c;
  std::vector<float> x, w, y;
  std::vector<double> expected[3];
};

/// Negative if the engine refuses. `direction`: 0 to 2.
double error_of(const Problem& problem, int direction, const Options& options, DType dtype) {
  const ConvCase& c = problem.c;
  const auto operand = [&](const Shape& shape, const std::vector<float>& values, int of) {
    return of == direction ? Tensor(context(), shape) : device_tensor(shape, values, dtype);
  };
  const Tensor y = operand(c.y_shape(), problem.y, 0), x = operand(c.x_shape(), problem.x, 1),
               w = operand(c.w_shape(), problem.w, 2);
  const Tensor& result = direction == 0 ? y : direction == 1 ? x : w;
  try {
    if (direction == 0) conv(stream(), x, w, {}, c.params, y, options);
    if (direction == 1) conv_backward_data(stream(), y, w, c.params, x, options);
    if (direction == 2) conv_backward_filter(stream(), x, y, c.params, w, options);
  } catch (const ValidationError&) {
    return -1;
  }
  return relative_error(host_values(result), problem.expected[direction]);
}

struct Row {
  const char* mode;
  DType dtype;
  std::string engines, numbers;
};

/// Engines with the same numbers share a row. One that a later math mode gives nothing new is not told again.
void add(std::vector<Row>& rows, const Mode& mode, const std::string& engine, const std::string& numbers) {
  for (Row& row : rows) {
    if (row.dtype != mode.dtype || row.numbers != numbers) continue;
    if ((", " + row.engines + ",").find(", " + engine + ",") != std::string::npos) return;
    if (row.mode != mode.name) continue;
    row.engines += ", " + engine;
    return;
  }
  rows.push_back({mode.name, mode.dtype, engine, numbers});
}

void print_layer(const ConvCase& c) {
  const Problem problem(c);
  std::vector<Row> rows;
  for (const Mode& mode : kModes)
    for (const std::string& engine : conv_engines()) {
      Options options;
      options.engine = engine;
      options.math = mode.math;
      std::string numbers;
      bool serves = false;
      for (int direction = 0; direction < 3; direction++) {
        const double error = error_of(problem, direction, options, mode.dtype);
        char text[32] = " - |";
        if (error >= 0) std::snprintf(text, sizeof text, " %.2e |", error);
        numbers += text;
        serves |= error >= 0;
      }
      if (serves) add(rows, mode, engine, numbers);
    }
  for (const Row& row : rows)
    std::printf("| %s | %s | %s |%s\n", c.name.c_str(), row.mode, row.engines.c_str(), row.numbers.c_str());
  std::fflush(stdout);
}

}  // namespace

int main(int count, char** arguments) {
  std::printf(
      "| layer | mode | engine | forward | backward data | backward filter |\n|---|---|---|---|---|---|\n");
  for (const ConvCase& c : layers())
    if (count < 2 || c.name.find(arguments[1]) != std::string::npos) print_layer(c);
}
