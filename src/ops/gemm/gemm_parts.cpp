#include "ops/gemm/gemm_parts.hpp"

#include "core/state.hpp"

namespace dlprim::detail {

DType gemm_sum_dtype(const GemmProblem& p) {
  return p.dtype == DType::f64 ? DType::f64 : p.dtype == DType::i8 ? DType::i32 : DType::f32;
}

GemmParts::GemmParts(const Context& context, const GemmProblem& p, int parts)
    : parts_(parts), kernel_(context.state().programs.kernel("gemm_parts", "gemm_parts", gemm_defines(p))) {}

size_t GemmParts::bytes(const GemmProblem& p) const {
  return size_of(gemm_sum_dtype(p)) * static_cast<size_t>(int64_t{p.m} * p.n * p.batch * parts_);
}

void GemmParts::add_up(const Stream& stream, const GemmProblem& p, const Tensor& sums,
                       const EpilogueTensors& with, const Tensor& c) const {
  Launch launch(stream, kernel_);
  launch.arg(p.m).arg(p.n).arg(parts_).arg(sums).arg(c).arg(p.ldc).arg(p.c_batch);
  bind_epilogue(launch, p.c_dtype, p.alpha, p.beta, with);
  launch.run({static_cast<size_t>(round_up(p.n, 64)), static_cast<size_t>(p.m), static_cast<size_t>(p.batch)},
             {64, 1, 1});
}

}  // namespace dlprim::detail
