// An operator of one's own, as one fused kernel: the swish gate of a transformer's feed-forward layer with
// its bias, y = (a + bias) * sigmoid(beta * (a + bias)) * b, and then a reduction of one's own, the largest
// |y| of every row. Three memory passes instead of the ten of separate operators; no OpenCL is written.
#include <cmath>
#include <cstdio>
#include <vector>

#include <dlprim/copy.hpp>
#include <dlprim/pointwise.hpp>

using namespace dlprim;

int main(int argc, char** argv) try {
  constexpr int64_t rows = 50, columns = 300;
  const Context context(argc > 1 ? argv[1] : "");  // the device named, or the default one
  const Stream stream(context);

  std::vector<float> a(rows * columns), b(rows * columns), bias(columns);
  for (size_t i = 0; i < a.size(); i++) a[i] = std::sin(0.1f * static_cast<float>(i));
  for (size_t i = 0; i < b.size(); i++) b[i] = std::cos(0.3f * static_cast<float>(i));
  for (size_t i = 0; i < bias.size(); i++) bias[i] = 0.01f * static_cast<float>(i) - 1;
  const double beta = 1.5;

  const Tensor da(stream, {rows, columns}), db(stream, {rows, columns}), dbias(stream, {columns});
  const Tensor y(stream, {rows, columns}), largest(stream, {rows, 1});
  write(stream, da, a);
  write(stream, db, b);
  write(stream, dbias, bias);

  // x0, x1, x2 are the inputs, broadcast together; s0 is the scalar. The expression is compiled once,
  // whatever the shapes.
  pointwise(stream, {da, db, dbias}, {y}, {beta}, "float v = x0 + x2; y0 = v * sigmoid(s0 * v) * x1");
  reduce(stream, {y}, {largest}, {}, max_of("fabs(x0)"));

  const std::vector<float> got = read<float>(stream, y), maxima = read<float>(stream, largest);
  double worst = 0;
  for (int64_t r = 0; r < rows; r++) {
    double row_max = 0;
    for (int64_t c = 0; c < columns; c++) {
      const auto i = static_cast<size_t>(r * columns + c);
      const double v = static_cast<double>(a[i]) + bias[static_cast<size_t>(c)];
      const double expected = v / (1 + std::exp(-beta * v)) * b[i];
      worst = std::fmax(worst, std::fabs(got[i] - expected));
      row_max = std::fmax(row_max, std::fabs(expected));
    }
    worst = std::fmax(worst, std::fabs(maxima[static_cast<size_t>(r)] - row_max));
  }
  std::printf("fused swish gate and row maxima: largest error %.2g\n", worst);
  return worst < 1e-5 ? 0 : 1;
} catch (const Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
