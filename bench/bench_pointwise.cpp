// Times the generator's kernels over the cases of tests/cases/pointwise: GB/s, and the share of the device's
// own copy rate. The batch is 256 images on a GPU and 8 on a CPU: more than the last cache holds in both.
#include "cases/pointwise.hpp"
#include "support.hpp"
#include "timing.hpp"

namespace {

using namespace dlprim;

void run_case(benchmark::State& state, const cases::PointwiseCase& c) {
  const Stream& stream = test::stream();
  std::vector<Tensor> xs;
  for (const Shape& shape : c.inputs) {
    xs.emplace_back(stream, shape);
    fill(stream, xs.back(), 1);
  }
  const Tensor y(stream, c.output);
  bench::time_runs(state, stream, 0, c.bytes(), [&] { c.run(stream, xs, y); });
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  const bool cpu = test::context().device().kind() == DeviceKind::cpu;
  for (const cases::PointwiseCase& c : cases::pointwise_cases(cpu ? 8 : 256))
    benchmark::RegisterBenchmark(("pointwise/" + c.name).c_str(), [c](benchmark::State& s) {
      run_case(s, c);
    })->UseManualTime();
  benchmark::RunSpecifiedBenchmarks();
}
