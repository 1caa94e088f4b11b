// GEMM over the shapes of tests/cases/gemm: GFLOP/s, and the share of what the device's multiply-adds reach.
// --engine=NAME times one engine by name.
#include <cstring>

#include "cases/gemm.hpp"
#include "timing.hpp"

namespace {

using namespace dlprim;
using namespace dlprim::test;

void time_gemm(benchmark::State& state, const GemmCase& x, const Options& options) {
  const GemmData data = real_data(x);
  const Tensor a = matrix(x.m, x.k, x.a, data.a), b = matrix(x.k, x.n, x.b, data.b), c(context(), {x.m, x.n});
  const Gemm plan(context(), {a, b, c}, options);
  bench::time_runs(state, stream(), x.flops(), 0, [&] { plan.run(stream(), a, b, {}, c); });
  state.SetLabel(plan.engine());
}

/// Takes "--engine=NAME" out of the arguments; "auto" if there is none.
std::string take_engine(int& argc, char** argv) {
  for (int i = 1; i < argc; i++)
    if (std::strncmp(argv[i], "--engine=", 9) == 0) {
      const std::string name = argv[i] + 9;
      std::rotate(argv + i, argv + i + 1, argv + argc);
      argc--;
      return name;
    }
  return "auto";
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  options.engine = take_engine(argc, argv);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  for (const GemmCase& x : bench_gemms())
    benchmark::RegisterBenchmark(("gemm/" + x.text()).c_str(),
                                 [&options, x](benchmark::State& state) { time_gemm(state, x, options); })
        ->UseManualTime()
        ->Unit(benchmark::kMillisecond);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
