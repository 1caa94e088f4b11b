// The kernels behind peak.hpp. They are measured here and nowhere else, so they are not in src/kernels.
#include "peak.hpp"

#include <algorithm>
#include <chrono>
#include <functional>

#include <dlprim/copy.hpp>
#include <dlprim/tensor.hpp>

#include "core/launch.hpp"
#include "core/state.hpp"

namespace dlprim::bench {
namespace {

// Sixteen independent chains hide the latency of a multiply-add. The factor keeps the sums finite.
const char* const kSource = R"(
#define PASTE2(a, b) a##b
#define PASTE(a, b) PASTE2(a, b)
#if VW == 1
#define VEC float
#else
#define VEC PASTE(float, VW)
#endif
#define EACH(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15)
#define START(i) VEC v##i = (VEC)(start + i);
#define STEP(i) v##i = fma(v##i, factor, term);
#define ADD(i) sum += v##i;
__kernel void multiply_adds(__global VEC* y, long y_offset, float start, int steps) {
  const VEC factor = (VEC)(0.5f), term = (VEC)(start);
  EACH(START)
  for (int i = 0; i < steps; i++) { EACH(STEP) }
  VEC sum = 0;
  EACH(ADD)
  y[y_offset / VW + get_global_id(0)] = sum;
}
__kernel void copy_runs(__global const VEC* restrict x, long x_offset, __global VEC* restrict y, long y_offset,
                        int run) {
  const long begin = (long)get_group_id(0) * run * get_local_size(0) + get_local_id(0);
  x += x_offset / VW + begin;
  y += y_offset / VW + begin;
  for (int i = 0; i < run; i++) y[i * get_local_size(0)] = x[i * get_local_size(0)];
}
)";

/// The shortest of several runs, in seconds.
double shortest(const Stream& stream, const std::function<void()>& launch) {
  using Clock = std::chrono::steady_clock;
  launch();
  stream.finish();
  double best = 1e30;
  for (int i = 0; i < 10; i++) {
    const auto start = Clock::now();
    launch();
    stream.finish();
    best = std::min(best, std::chrono::duration<double>(Clock::now() - start).count());
  }
  return best;
}

Peak measure(const Stream& stream) {
  const Context& context = stream.context();
  const DeviceFacts& facts = context.device().facts();
  const bool cpu = context.device().kind() == DeviceKind::cpu;
  // A CPU wants groups of one and its own vectors; anything else groups of many, and 16 bytes to a copy's
  // access.
  const int vector = cpu ? (facts.float_vector_width >= 16 ? 16 : 8) : 1;
  const size_t items = cpu ? 1 : static_cast<size_t>(std::min(256, facts.max_work_group));
  const auto kernel = [&](const char* name, int width) {
    return context.state().programs.generated("peak", kSource, name, detail::Defines().set("VW", width));
  };
  Peak result;

  const size_t threads = static_cast<size_t>(std::max(1, facts.compute_units)) * (cpu ? 8 : 32) * items;
  const int steps = cpu ? 100000 : 10000;
  const Tensor sums(stream, {static_cast<int64_t>(threads) * vector});
  const detail::Kernel multiply_adds = kernel("multiply_adds", vector);
  const double flops = 2.0 * 16 * steps * vector * static_cast<double>(threads);
  result.gflops =
      1e-9 * flops / shortest(stream, [&] {
        detail::Launch(stream, multiply_adds).arg(sums).arg(1.0f).arg(steps).run({threads}, {items});
      });

  const int width = cpu ? vector : 4, run = cpu ? 4096 : 4;
  const auto group = static_cast<int64_t>(items) * width * run;  // floats that a work-group copies
  const auto most = static_cast<int64_t>(std::min<uint64_t>(uint64_t{256} << 20, facts.global_memory / 8));
  const int64_t groups = std::max<int64_t>(1, most / (group * 4));
  const Tensor x(stream, {groups * group}), y(stream, {groups * group});
  fill(stream, 1, x);
  const detail::Kernel copy_runs = kernel("copy_runs", width);
  result.gbytes = 1e-9 * 2 * static_cast<double>(x.bytes()) / shortest(stream, [&] {
                    detail::Launch(stream, copy_runs)
                        .arg(x)
                        .arg(y)
                        .arg(run)
                        .run({static_cast<size_t>(groups) * items}, {items});
                  });
  return result;
}

}  // namespace

const Peak& peak(const Stream& stream) {
  static const Peak result = measure(stream);
  return result;
}

}  // namespace dlprim::bench
