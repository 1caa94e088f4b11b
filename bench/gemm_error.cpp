// The error of each GEMM engine and math mode against sums in double, as a table: root mean square of the
// error over that of the result, for products of random numbers in [-1, 1). `naive` is the plain chain of
// multiply-adds.
#include <cstdio>

#include "cases/gemm.hpp"

using namespace dlprim;
using namespace dlprim::test;

namespace {

constexpr int64_t kSizes[] = {256, 4096, 65536};

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
                         {"f16 -> f32", "nv_wgmma", MathMode::strict, DType::f16},
                         {"bf16 -> f32", "nv_wgmma", MathMode::strict, DType::bf16}};

/// Negative if the engine refuses.
double error_of_row(const Row& row, int64_t k) {
  GemmCase x(96, 160, k, false, true);
  x.dtype = row.dtype;
  const GemmData data = real_data(x);
  Options options;
  options.engine = row.engine;
  options.math = row.math;
  const Tensor c(context(), {x.m, x.n});
  try {
    gemm(stream(), operand_a(x, data), operand_b(x, data), {}, {}, c, options);
  } catch (const ValidationError&) {
    return -1;
  }
  return relative_error(host_values(c), gemm_reference(x, data));
}

}  // namespace

int main() {
  std::printf("| mode | engine | K = 256 | K = 4096 | K = 65536 |\n|---|---|---|---|---|\n");
  for (const Row& row : kRows) {
    if (error_of_row(row, kSizes[0]) < 0) continue;
    std::printf("| %s | %s |", row.name, row.engine);
    for (const int64_t k : kSizes) std::printf(" %.2e |", error_of_row(row, k));
    std::printf("\n");
    std::fflush(stdout);
  }
}
