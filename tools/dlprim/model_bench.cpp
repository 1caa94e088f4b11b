// `dlprim bench`: how long a model takes. The first run, which compiles, is told apart; then runs one at a
// time, each with its inputs on the device and its outputs left there: bound to these tensors, if they can
// be.
#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>

#include <dlprim/net_training.hpp>

#include "clock.hpp"
#include "device_choice.hpp"
#include "format.hpp"
#include "model_commands.hpp"
#include "model_input.hpp"
#include "percentile.hpp"
#include "random_trainer.hpp"

namespace dlprim::cli {
namespace {

double megabytes(uint64_t bytes) {
  return static_cast<double>(bytes) / 1e6;
}

double ms_since(Clock::time_point start) {
  return 1e3 * seconds_since(start);
}

}  // namespace

int run_bench(const BenchModelOptions& options) {
  if (!options.operator_line.empty()) return run_operator_bench(options);
  const NetGraph graph = load_graph(options);
  const Model model(graph, options.without, options.precision());
  const ModelRun run(model, options);
  const Stream& stream = run.stream;
  const auto copied = Clock::now();
  Model::Tensors feeds = run.feeds();
  stream.finish();
  const double copy_in = ms_since(copied);
  std::optional<Trainer> trainer;
  if (options.train) trainer.emplace(random_trainer(graph, options, run, feeds));
  std::optional<Model::Bound> bound;
  const auto results_of_once = [&] {
    if (bound) bound->run();
    return bound ? bound->outputs() : trainer ? trainer->step(feeds) : model.run(stream, feeds, run.options);
  };

  std::vector<double> whole, enqueue;
  const auto once = [&] {
    const auto start = Clock::now();
    const Model::Tensors results = results_of_once();
    enqueue.push_back(ms_since(start));
    stream.finish();
    whole.push_back(ms_since(start));
  };
  once();
  const double first = whole[0];
  if (!trainer) bound = model.bind(stream, feeds, run.options);
  for (int i = 0; i < 6; i++) once();  // until it is replayed, if it can be; clocks, caches
  whole.clear();
  enqueue.clear();
  const Model::Tensors outputs = results_of_once();
  stream.finish();
  const auto read = Clock::now();
  for (const auto& [name, tensor] : outputs) (void)to_host(stream, tensor, name);
  const double copy_out = ms_since(read);
  const auto start = Clock::now();
  while (whole.size() < 5 || ms_since(start) < options.seconds * 1000) once();
  std::sort(whole.begin(), whole.end());
  std::sort(enqueue.begin(), enqueue.end());
  const double median = percentile(whole, 0.5);
  const MemoryStats memory = stream.context().memory_stats();
  const int64_t launches = bound ? bound->launches() : trainer ? trainer->launches() : 0;
  if (options.json) {
    std::cout << nlohmann::json{{"model", options.model},
                                {"device", describe(run.device)},
                                {"training", options.train},
                                {"runs", whole.size()},
                                {"p50_ms", median},
                                {"p90_ms", percentile(whole, 0.9)},
                                {"p99_ms", percentile(whole, 0.99)},
                                {"least_ms", whole.front()},
                                {"enqueue_p50_ms", percentile(enqueue, 0.5)},
                                {"launches", launches},
                                {"first_run_ms", first},
                                {"allocated_mb", megabytes(memory.allocated)},
                                {"peak_mb", megabytes(memory.allocated_peak)},
                                {"copy_in_ms", copy_in},
                                {"copy_out_ms", copy_out}}
                     .dump()
              << std::endl;
    return 0;
  }
  std::cout
      << describe(run.device) << "\n"
      << format("%zu %s: %.3f ms in half of them or less (p90 %.3f, p99 %.3f, least %.3f), %.1f runs/s\n",
                whole.size(), options.train ? "steps of training" : "runs", median, percentile(whole, 0.9),
                percentile(whole, 0.99), whole.front(), 1000 / median)
      << format("of that the host enqueues for %.3f ms", percentile(enqueue, 0.5))
      << (launches > 0 ? format(", %lld launches%s\n", static_cast<long long>(launches),
                                trainer ? " and the optimizer's" : " on tensors that stay")
                       : "\n")
      << format("the first, which compiles: %.0f ms; inputs to the device: %.3f ms; outputs back: %.3f ms\n",
                first, copy_in, copy_out)
      << format("memory on the device: %.1f MB, at most %.1f MB before\n", megabytes(memory.allocated),
                megabytes(memory.allocated_peak));
  return 0;
}

}  // namespace dlprim::cli
