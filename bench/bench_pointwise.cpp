// Times the generator's kernels over the cases of tests/cases/pointwise, and every elementwise function,
// forward and backward: GB/s, and the share of the device's own copy rate. --batch=N sets how many images:
// 256 on a GPU and 8 on a CPU, more than the last cache holds in both, if it is not given.
#include <algorithm>

#include "cases/elementwise.hpp"
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
    fill(stream, 1, xs.back());
  }
  const Tensor y(stream, c.output);
  bench::time_runs(state, stream, 0, c.bytes(), [&] { c.run(stream, xs, y); });
}

void run_function(benchmark::State& state, const ElementwiseFunction& f, int64_t batch, bool backward) {
  const Stream& stream = test::stream();
  const bool integers = f.domain == ElementwiseFunction::Domain::integers;
  const auto make = [&](const std::string&, DType dtype, bool) {
    const Tensor x(stream, {batch, 64, 56, 56}, dtype);
    fill(stream, 1, x);
    return x;
  };
  const test::ElementwiseCase c(f, backward, integers ? DType::i32 : DType::f32, make);
  bench::time_runs(state, stream, 0, c.bytes(), [&] { c.run(stream); });
}

void register_function(const ElementwiseFunction& f, int64_t batch) {
  const auto add = [&](const char* direction, bool backward) {
    benchmark::RegisterBenchmark(("elementwise/" + f.name + direction).c_str(), [&f, batch, backward](
                                                                                    benchmark::State& s) {
      run_function(s, f, batch, backward);
    })->UseManualTime();
  };
  add("/forward", false);
  if (std::any_of(f.gradients.begin(), f.gradients.end(), [](const std::string& g) { return !g.empty(); }))
    add("/backward", true);
}

}  // namespace

int main(int argc, char** argv) {
  return bench::run_main(argc, argv, [](bench::Arguments& arguments) {
    const bool cpu = test::context().device().kind() == DeviceKind::cpu;
    const int64_t batch = arguments.take_count("batch", cpu ? 8 : 256);
    for (const ElementwiseFunction& f : elementwise_functions()) register_function(f, batch);
    for (const cases::PointwiseCase& c : cases::pointwise_cases(batch))
      benchmark::RegisterBenchmark(("pointwise/" + c.name).c_str(), [c](benchmark::State& s) {
        run_case(s, c);
      })->UseManualTime();
  });
}
