// Times the generator's kernels over the cases of tests/cases/pointwise: GB/s, and the share of the device's
// own copy rate. --batch=N sets how many images: 256 on a GPU and 8 on a CPU, more than the last cache holds
// in both, if it is not given.
#include "cases/pointwise.hpp"
#include "main.hpp"
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
  return bench::run_main(argc, argv, [](bench::Arguments& arguments) {
    const bool cpu = test::context().device().kind() == DeviceKind::cpu;
    for (const cases::PointwiseCase& c : cases::pointwise_cases(arguments.take_count("batch", cpu ? 8 : 256)))
      benchmark::RegisterBenchmark(("pointwise/" + c.name).c_str(), [c](benchmark::State& s) {
        run_case(s, c);
      })->UseManualTime();
  });
}
