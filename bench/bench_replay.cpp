// What launches cost the host: a recording's, replayed, and as many bare clEnqueueNDRangeKernel of a kernel
// with buffers, an integer and a float as arguments, which is what the driver takes. us a launch, least of
// the rounds.
#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include <dlprim/copy.hpp>
#include <dlprim/opencl.hpp>
#include <dlprim/pointwise.hpp>
#include <dlprim/recording.hpp>

#include "main.hpp"
#include "support.hpp"

namespace {

using namespace dlprim;

constexpr int kLaunches = 300;
constexpr int64_t kElements = 256;

/// Times `enqueue`, which is launches on the stream, without what the device takes.
template <class F>
void time_enqueue(benchmark::State& state, const F& enqueue) {
  const Stream& stream = test::stream();
  double least = 1e9;
  for (auto _ : state) {
    const auto start = std::chrono::steady_clock::now();
    enqueue();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    stream.finish();
    state.SetIterationTime(took.count());
    least = std::min(least, took.count());
  }
  state.counters["us_per_launch"] = least * 1e6 / kLaunches;
}

void replay(benchmark::State& state) {
  const Stream& stream = test::stream();
  const Tensor x(stream, {kElements}), y(stream, {kElements});
  fill(stream, 1, x);
  const Recording recording(stream, [&] {
    for (int i = 0; i < kLaunches; i++) pointwise(stream, {x}, {y}, {2.0}, "y0 = x0 * s0");
  });
  time_enqueue(state, [&] { recording.replay(); });
}

void driver(benchmark::State& state) {
  const Stream& stream = test::stream();
  const cl::Context context = stream.cl().getInfo<CL_QUEUE_CONTEXT>();
  const cl::Program program(context,
                            std::string("kernel void scale(global const float* x, global float* y, "
                                        "int n, float s) { int i = get_global_id(0); "
                                        "if (i < n) y[i] = x[i] * s; }"),
                            true);
  const cl::Buffer x(context, CL_MEM_READ_WRITE, kElements * sizeof(float)),
      y(context, CL_MEM_READ_WRITE, kElements * sizeof(float));
  std::vector<cl::Kernel> kernels;
  for (int i = 0; i < kLaunches; i++) {
    cl::Kernel& kernel = kernels.emplace_back(program, "scale");
    kernel.setArg(0, x), kernel.setArg(1, y), kernel.setArg(2, static_cast<int>(kElements));
    kernel.setArg(3, 2.0F);
  }
  const size_t global = kElements, local = 64;
  time_enqueue(state, [&] {
    for (const cl::Kernel& kernel : kernels)
      clEnqueueNDRangeKernel(stream.cl()(), kernel(), 1, nullptr, &global, &local, 0, nullptr, nullptr);
  });
}

}  // namespace

int main(int argc, char** argv) {
  return bench::run_main(argc, argv, [](bench::Arguments&) {
    benchmark::RegisterBenchmark("replay", replay)->UseManualTime();
    benchmark::RegisterBenchmark("driver", driver)->UseManualTime();
  });
}
