// Systems of linear equations with triangular matrices. Large ones are cut in halves, so that most of the
// work is products of matrices.
#include <ATen/ExpandUtils.h>
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <dlprim/triangular_solve.hpp>

#include "plans.hpp"
#include "structured.hpp"

namespace ocl {

namespace {

constexpr int64_t kMostRows = 64;
constexpr int64_t kMostDims = 8;

/// Writes x of a x = b; x may be b. All have the same dimensions in front.
void solve_left(const at::Tensor& a, const at::Tensor& b, bool upper, bool unit, const at::Tensor& x) {
  const int64_t n = a.size(-1);
  if (n > kMostRows) {
    const int64_t half = n / 2;
    const auto part = [&](const at::Tensor& t, bool second) {
      return second ? t.narrow(-2, half, n - half) : t.narrow(-2, 0, half);
    };
    const auto block = [&](bool row, bool column) {
      const at::Tensor rows = part(a, row);
      return column ? rows.narrow(-1, half, n - half) : rows.narrow(-1, 0, half);
    };
    // The half that does not depend on the other comes first: of upper matrices the second.
    solve_left(block(upper, upper), part(b, upper), upper, unit, part(x, upper));
    const at::Tensor rest = part(b, !upper) - at::matmul(block(!upper, upper), part(x, upper));
    solve_left(block(!upper, !upper), rest, upper, unit, part(x, !upper));
    return;
  }
  const dlprim::Tensor left = view(a), right = view(b), result = view(x);
  run_plan<dlprim::TriangularSolve>(
      home_of(x), Key::of(left, right, result, upper, unit),
      [&] {
        return dlprim::TriangularSolve(home_of(x).context, {left, right, result, upper, unit});
      },
      [&](const dlprim::TriangularSolve& plan, const dlprim::Stream& stream) {
        plan.run(stream, left, right, result);
      });
}

at::Tensor solve_triangular(const at::Tensor& a, const at::Tensor& b, bool upper, bool left, bool unit) {
  TORCH_CHECK(
      a.scalar_type() == b.scalar_type() && (a.scalar_type() == at::kFloat || a.scalar_type() == at::kDouble),
      "linalg.solve_triangular: Expected A and B to be float32 or float64 both, they are ", a.scalar_type(),
      " and ", b.scalar_type());
  TORCH_CHECK(a.dim() >= 2 && b.dim() >= 2 && a.size(-1) == a.size(-2),
              "linalg.solve_triangular: A must be batches of square matrices, but they are ", a.sizes(),
              ", B of ", b.sizes());
  TORCH_CHECK(left ? a.size(-2) == b.size(-2) : a.size(-1) == b.size(-1),
              "linalg.solve_triangular: Incompatible shapes of A and B for the equation ",
              left ? "AX = B" : "XA = B", " (", a.size(-2), "x", a.size(-1), " and ", b.size(-2), "x",
              b.size(-1), ")");
  if (!left) return solve_triangular(a.mT(), b.mT(), !upper, true, unit).mT();
  std::vector<int64_t> batches = at::infer_size(a.sizes().slice(0, static_cast<size_t>(a.dim() - 2)),
                                                b.sizes().slice(0, static_cast<size_t>(b.dim() - 2)));
  const auto expanded = [&](const at::Tensor& t) {
    std::vector<int64_t> sizes = batches;
    sizes.push_back(t.size(-2));
    sizes.push_back(t.size(-1));
    return t.expand(sizes);
  };
  at::Tensor matrices = expanded(a), sides = expanded(b);
  // Right sides that lie column by column give such a result, as LAPACK's users expect.
  const at::Tensor x = at::empty(sides.mT().sizes(), b.options()).mT();
  if (x.numel() == 0) return x;
  at::Tensor result = x;
  if (x.dim() > kMostDims) {
    matrices = matrices.reshape({-1, a.size(-2), a.size(-1)});
    sides = sides.reshape({-1, b.size(-2), b.size(-1)});
    result = at::empty(sides.sizes(), b.options());
  }
  solve_left(matrices, sides, upper, unit, result);
  if (!result.is_same(x)) x.copy_(result.view(x.sizes()));
  return x;
}

at::Tensor& solve_triangular_out(const at::Tensor& a, const at::Tensor& b, bool upper, bool left, bool unit,
                                 at::Tensor& out) {
  const at::Tensor x = solve_triangular(a, b, upper, left, unit);
  at::native::resize_output(out, x.sizes());
  return out.copy_(x);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  OCL_FLOATING(linalg_solve_triangular, solve_triangular)
  OCL_FLOATING(linalg_solve_triangular_out, solve_triangular_out)
}

}  // namespace

}  // namespace ocl
