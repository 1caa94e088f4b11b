// The error of each GEMM engine and math mode against sums in double, as a table: root mean square of the
// error over that of the result, for products of random numbers in [-1, 1). `naive` is the plain chain of
// multiply-adds.
//   gemm_error            K of 256, 4096 and 65536, 96 x 160 results
//   gemm_error --large    f32, 4096^3 and 8192^3, of which the first 16 rows are checked
#include <cstdio>
#include <cstring>

#include "cases/gemm.hpp"

using namespace dlprim;
using namespace dlprim::test;

namespace {

struct Row {
  const char* name;
  const char* engine;
  MathMode math;
  DType dtype;
};
constexpr Row kRows[] = {{"f32 strict", "auto", MathMode::strict, DType::f32},
                         {"f32 strict", "nv_wgmma", MathMode::strict, DType::f32},
                         {"f32 strict", "nv_mma", MathMode::strict, DType::f32},
                         {"f32 strict", "fma", MathMode::strict, DType::f32},
                         {"f32 strict", "cpu", MathMode::strict, DType::f32},
                         {"f32, chain of multiply-adds", "naive", MathMode::strict, DType::f32},
                         {"f32 tf32", "nv_wgmma", MathMode::tf32, DType::f32},
                         {"f32 tf32", "nv_mma", MathMode::tf32, DType::f32},
                         {"f16 -> f32", "nv_wgmma", MathMode::strict, DType::f16},
                         {"bf16 -> f32", "nv_wgmma", MathMode::strict, DType::bf16}};

/// Numbers, and the sums of their products' first rows in double.
struct Product {
  Product(int64_t m, int64_t n, int64_t k, int64_t checked, DType dtype) : x(m, n, k, false, true) {
    x.dtype = dtype;
    data = real_data(x);
    GemmCase rows = x;
    rows.m = checked;
    expected = gemm_reference(rows, data);
  }
  GemmCase x;
  GemmData data;
  std::vector<double> expected;
};

/// Negative if the engine refuses.
double error_of(const Row& row, const Product& product) {
  const GemmCase& x = product.x;
  Options options;
  options.engine = row.engine;
  options.math = row.math;
  const Tensor c(context(), {x.m, x.n});
  try {
    gemm(stream(), operand_a(x, product.data), operand_b(x, product.data), {}, {}, c, options);
  } catch (const ValidationError&) {
    return -1;
  }
  std::vector<float> values = host_values(c);
  values.resize(product.expected.size());
  return relative_error(values, product.expected);
}

/// The rows of the products' dtype that no engine refuses.
void print_rows(const std::vector<Product>& products) {
  const bool large = products[0].x.m > 96, gpu = context().device().kind() != DeviceKind::cpu;
  for (const Row& row : kRows) {
    const bool slow = large && gpu == (std::strcmp(row.engine, "cpu") == 0);
    if (row.dtype != products[0].x.dtype || slow || error_of(row, products[0]) < 0) continue;
    std::printf("| %s | %s |", row.name, row.engine);
    for (const Product& product : products) std::printf(" %.2e |", error_of(row, product));
    std::printf("\n");
    std::fflush(stdout);
  }
}

void print_depths() {
  std::printf("| mode | engine | K = 256 | K = 4096 | K = 65536 |\n|---|---|---|---|---|\n");
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16})
    print_rows({{96, 160, 256, 96, dtype}, {96, 160, 4096, 96, dtype}, {96, 160, 65536, 96, dtype}});
}

void print_large() {
  std::printf("| mode | engine | 4096^3 | 8192^3 |\n|---|---|---|---|\n");
  print_rows({{4096, 4096, 4096, 16, DType::f32}, {8192, 8192, 8192, 16, DType::f32}});
}

}  // namespace

int main(int count, char** arguments) {
  if (count > 1 && std::strcmp(arguments[1], "--large") == 0)
    print_large();
  else
    print_depths();
}
