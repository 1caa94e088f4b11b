// GEMM over the shapes of tests/cases/gemm. --engine=NAME times one engine by name.
#include "cases/gemm.hpp"
#include "main.hpp"
#include "timing.hpp"

namespace {

using namespace dlprim;
using namespace dlprim::test;

void time_gemm(benchmark::State& state, const GemmCase& x, const Options& options) {
  const GemmData data = real_data(x);
  const Tensor a = matrix(x.m, x.k, x.a, data.a), b = matrix(x.k, x.n, x.b, data.b), c(context(), {x.m, x.n});
  const Gemm plan(context(), {a, b, c}, options);
  const double bytes = 4 * static_cast<double>(x.m * x.k + x.k * x.n + x.m * x.n);
  bench::time_runs(state, stream(), x.flops(), bytes, [&] { plan.run(stream(), a, b, {}, c); });
  state.SetLabel(plan.engine());
}

}  // namespace

int main(int argc, char** argv) {
  return bench::run_main(argc, argv, [](bench::Arguments& arguments) {
    Options options;
    options.engine = arguments.take("engine", "auto");
    for (const GemmCase& x : bench_gemms())
      benchmark::RegisterBenchmark(("gemm/" + x.text()).c_str(),
                                   [options, x](benchmark::State& state) { time_gemm(state, x, options); })
          ->UseManualTime()
          ->Unit(benchmark::kMillisecond);
  });
}
