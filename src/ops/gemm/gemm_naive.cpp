// GEMM engine `naive`: one element of C per work-item. It serves every device.
#include "core/state.hpp"
#include "ops/gemm/gemm_impl.hpp"

namespace dlprim::detail {
namespace {

struct Naive : Gemm::Impl {
  Naive(const Context& context, const GemmProblem& problem)
      : Impl(problem),
        kernel(context.state().programs.kernel("gemm_naive", "gemm_naive", gemm_defines(problem))),
        items(static_cast<size_t>(std::min<int64_t>(64, kernel.max_work_group()))) {}

  void run(const Stream& stream, const Tensor& a, const Tensor& b, const EpilogueTensors& with,
           const Tensor& c, const Tensor&) const override {
    Launch launch(stream, kernel);
    launch.arg(p.m).arg(p.n).arg(p.k);
    launch.arg(a).arg(p.a.unit_k ? p.a.pitch : 1).arg(p.a.unit_k ? 1 : p.a.pitch).arg(p.a.batch);
    launch.arg(b).arg(p.b.unit_k ? 1 : p.b.pitch).arg(p.b.unit_k ? p.b.pitch : 1).arg(p.b.batch);
    launch.arg(c).arg(p.ldc).arg(p.c_batch);
    bind_epilogue(launch, p.c_dtype, p.alpha, p.beta, with);
    const auto n = round_up(p.n, static_cast<int64_t>(items));
    launch.run({static_cast<size_t>(n), static_cast<size_t>(p.m), static_cast<size_t>(p.batch)},
               {items, 1, 1});
  }

  Kernel kernel;
  size_t items;
};

std::unique_ptr<const Gemm::Impl> make(const Context& context, const GemmProblem& problem,
                                       const EngineOptions&) {
  return std::make_unique<Naive>(context, problem);
}

}  // namespace

extern const GemmEngine kGemmNaive;
const GemmEngine kGemmNaive = {"naive", nullptr, make};

}  // namespace dlprim::detail
