// The one way benchmarks time an operator: batches of runs between two waits, and the same three counters.
#pragma once

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>

#include "peak.hpp"

namespace dlprim::bench {

/// Times `run` (which enqueues one operator). Counters: GFLOP/s, GB/s (a zero leaves its counter out) and
/// `peak`, the larger share of the device's own two rates.
template <class Run>
void time_runs(benchmark::State& state, const Stream& stream, double flops, double bytes, const Run& run) {
  using Clock = std::chrono::steady_clock;
  const auto seconds_of = [&](int runs) {
    const auto start = Clock::now();
    for (int i = 0; i < runs; i++) run();
    stream.finish();
    return std::chrono::duration<double>(Clock::now() - start).count();
  };
  seconds_of(1);  // compiles
  // So many runs between two waits that waiting hardly counts.
  const int runs = static_cast<int>(std::clamp(0.02 / seconds_of(1), 1.0, 200.0));
  double seconds = 0;
  while (state.KeepRunningBatch(runs)) {
    const double time = seconds_of(runs);
    state.SetIterationTime(time);
    seconds += time;
  }
  const double per_second = 1e-9 * static_cast<double>(state.iterations()) / seconds;
  if (flops > 0) state.counters["GFLOP/s"] = flops * per_second;
  if (bytes > 0) state.counters["GB/s"] = bytes * per_second;
  state.counters["peak"] =
      std::max(flops * per_second / peak(stream).gflops, bytes * per_second / peak(stream).gbytes);
}

}  // namespace dlprim::bench
