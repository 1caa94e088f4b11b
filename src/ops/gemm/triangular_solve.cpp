// Triangular systems of equations: checks, and the one kernel.
#include <dlprim/triangular_solve.hpp>

#include "core/composed.hpp"
#include "core/gen/arguments.hpp"
#include "ops/lib/int64.hpp"

namespace dlprim::detail {
#include "kernels/gemm/triangular_solve.h"

template <>
inline constexpr int kFields<TriangularSolveDesc> = 5;
}  // namespace dlprim::detail

namespace dlprim {

using namespace detail;

struct TriangularSolve::Impl {
  TriangularProblem problem{};
  int64_t count = 0;
  Kernel kernel;
};

namespace {

constexpr int kMostBatches = 6;

void check(const TriangularSolveDesc& d) {
  const int rank = static_cast<int>(d.a.shape.size());
  require_strides("a", d.a);
  require_strides("b", d.b);
  require_writable("x", d.x);
  require(rank >= 2 && rank <= kMostBatches + 2, "a", "rank ", rank, " must be 2 to ", kMostBatches + 2);
  require(d.a.dtype == DType::f32 || d.a.dtype == DType::f64, "a", "dtype ", name_of(d.a.dtype),
          " must be f32 or f64");
  require_rank("b", d.b, rank);
  require_dtype("b", d.b, d.a.dtype);
  require_dtype("x", d.x, d.a.dtype);
  require_shape("x", d.x, d.b.shape);
  Shape expected = d.b.shape;
  expected[rank - 1] = expected[rank - 2];
  require_shape("a", d.a, expected);
}

TriangularStrides strides_of(const TensorDesc& t) {
  TriangularStrides result{};
  const int rank = static_cast<int>(t.shape.size());
  result.row = t.strides[rank - 2];
  result.column = t.strides[rank - 1];
  for (int i = 0; i < rank - 2; i++) result.batch[kMostBatches - (rank - 2) + i] = t.strides[i];
  return result;
}

}  // namespace

TriangularSolve::TriangularSolve(const Context& context, const TriangularSolveDesc& desc,
                                 const Options& options)
    : Plan(nullptr), desc_(desc) {
  check(desc);
  require_real(context, desc.a.dtype);
  Impl impl;
  const int rank = static_cast<int>(desc.b.shape.size());
  impl.problem.n = to_int("b", desc.b.shape[rank - 2]);
  impl.problem.m = to_int("b", desc.b.shape[rank - 1]);
  for (int i = 0; i < kMostBatches; i++) {
    const int axis = i - (kMostBatches - (rank - 2));
    impl.problem.sizes[i] = axis < 0 ? 1 : desc.b.shape[axis];
  }
  impl.problem.a = strides_of(desc.a);
  impl.problem.b = strides_of(desc.b);
  impl.problem.x = strides_of(desc.x);
  impl.count = impl.problem.n == 0 ? 0 : element_count(desc.b.shape) / impl.problem.n;
  Defines defines;
  defines.set("REAL", compute_type(desc.a.dtype)).set("UPPER", desc.upper).set("UNIT", desc.unit);
  impl.kernel = context.state().programs.kernel("triangular_solve", "triangular_solve", defines);
  PlanInfo info;
  info.text = cat("a=", brief(desc.a), " b=", brief(desc.b), " upper=", desc.upper ? 1 : 0,
                  " unit=", desc.unit ? 1 : 0);
  info.flops = static_cast<double>(element_count(desc.b.shape)) * impl.problem.n;
  info.bytes = traffic({desc.a, desc.b, desc.x});
  info_ = single_engine("triangular_solve", "rows", "", context, options, std::move(info));
  impl_ = std::make_shared<const Impl>(std::move(impl));
}

void TriangularSolve::run(const Stream& stream, const Tensor& a, const Tensor& b, const Tensor& x,
                          const Tensor& workspace) const {
  const Impl& p = *impl_;
  require_stream(*info_, stream);
  require_tensor("a", a, stream.context(), desc_.a);
  require_tensor("b", b, stream.context(), desc_.b);
  require_tensor("x", x, stream.context(), desc_.x);
  require_same_or_apart({"x", x}, {"b", b});
  require_apart({{"x", x}}, {{"a", a}});
  require_unused(*info_, stream, workspace, {{"a", a}, {"b", b}, {"x", x}});
  if (p.count == 0) return;
  const OperatorScope scope(stream, *info_);
  Launch(stream, p.kernel)
      .arg(a)
      .arg(b)
      .arg(x)
      .arg(p.problem)
      .arg(p.count)
      .run({items_in_groups(p.count, 64)}, {64});
}

void triangular_solve(const Stream& stream, const Tensor& a, const Tensor& b, bool upper, bool unit,
                      const Tensor& x, const Options& options, const Tensor& workspace) {
  require_defined({{"a", a}, {"b", b}, {"x", x}});
  const TriangularSolveDesc desc{a, b, x, upper, unit};
  cached_plan<TriangularSolve>(stream, "triangular_solve", desc, options, workspace)
      ->run(stream, a, b, x, workspace);
}

}  // namespace dlprim
