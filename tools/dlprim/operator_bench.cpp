// `dlprim bench --operator LINE`: how long an operator takes that is made again of its line in the log. Turns
// of runs enqueued together are timed as a user's program meets them, launches included; between them turns
// whose kernels the device times.
#include <algorithm>
#include <cmath>
#include <iostream>
#include <nlohmann/json.hpp>

#include <dlprim/logged_operator.hpp>
#include <dlprim/profile.hpp>

#include "clock.hpp"
#include "commands.hpp"
#include "device_choice.hpp"
#include "format.hpp"
#include "model_commands.hpp"
#include "model_input.hpp"
#include "percentile.hpp"
#include "trace_report.hpp"

namespace dlprim::cli {
namespace {

constexpr double kTurn = 0.006;  // seconds, so that waiting for its end hardly counts
constexpr int kMostRuns = 200;

/// In microseconds.
struct OperatorTimes {
  OperatorTime what;           ///< of one run
  std::vector<double> device;  ///< of each run's kernels, sorted
  std::vector<double> runs;    ///< of a run, by turns, sorted

  double median() const { return percentile(device, 0.5); }
};

OperatorTimes measured(const Stream& stream, const LoggedOperator& op, double seconds) {
  OperatorTimes times;
  const auto turn = [&](int runs) {
    const auto start = Clock::now();
    for (int i = 0; i < runs; i++) op.run();
    stream.finish();
    return seconds_since(start) / runs;
  };
  turn(1);  // compiles what its plan did not
  double once = turn(1);
  for (int i = 0; i < 4; i++) once = std::min(once, turn(1));
  const int runs = static_cast<int>(std::clamp(kTurn / std::max(once, 1e-9), 1.0, double{kMostRuns}));
  turn(runs);  // clocks
  for (const auto start = Clock::now(); times.runs.size() < 5 || seconds_since(start) < seconds;) {
    times.runs.push_back(turn(runs) * 1e6);
    Profile profile(stream);
    for (int i = 0; i < runs; i++) op.run();
    const std::vector<OperatorTime> operators = profile.take();
    for (const OperatorTime& run : operators) times.device.push_back(run.microseconds());
    times.what = operators.back();
  }
  std::sort(times.device.begin(), times.device.end());
  std::sort(times.runs.begin(), times.runs.end());
  return times;
}

/// The engine to ask for.
std::string engine_of(const BenchModelOptions& options, const std::string& logged) {
  if (options.engine != "line") return options.engine;
  if (logged.empty()) throw BadInput("--engine line: the line of --operator has no engine=");
  return logged;
}

void print(const OperatorTimes& t, const TraceSum& rates, const std::string& device) {
  std::cout << device << "\n"
            << t.what.text << "\n"
            << format("%zu runs: %s on the device in half of them or less (p90 %s, least %s), %lld %s",
                      t.device.size(), time_text(t.median()).c_str(),
                      time_text(percentile(t.device, 0.9)).c_str(), time_text(t.device.front()).c_str(),
                      static_cast<long long>(rates.launches), rates.launches == 1 ? "launch" : "launches");
  if (rates.flops > 0 && !std::isnan(rates.us)) std::cout << format(", %.4g GFLOP/s", rates.gflops());
  if (rates.bytes > 0 && !std::isnan(rates.us)) std::cout << format(", %.4g GB/s", rates.gbytes());
  std::cout << "\n"
            << format("as a program meets it, launches included: %s\n",
                      time_text(percentile(t.runs, 0.5)).c_str());
}

/// Under the option that it is of.
BadInput refusal(const ValidationError& error) {
  const bool engine = error.argument() == "engine";
  return BadInput(std::string(engine ? "--engine: " : "--operator: ") + error.what());
}

}  // namespace

int run_operator_bench(const BenchModelOptions& options) {
  std::string logged;
  try {
    logged = logged_engine(options.operator_line);
  } catch (const ValidationError& error) {
    throw refusal(error);
  }
  const Device device = choose_device(options.device);
  const Context context(device);
  const Stream stream = profiling_stream(context);
  Options asked = options_of(options);
  asked.engine = engine_of(options, logged);
  const auto made = [&] {
    try {
      return LoggedOperator(stream, options.operator_line, asked);
    } catch (const ValidationError& error) {
      throw refusal(error);
    }
  };
  const LoggedOperator op = made();
  const OperatorTimes t = measured(stream, op, options.seconds);
  TraceSum rates;
  rates.add(t.what);
  rates.us = t.median();
  if (options.json) {
    std::cout << nlohmann::json{{"operator", t.what.text},
                                {"device", describe(device)},
                                {"engine", op.engine()},
                                {"line_engine", logged},
                                {"runs", t.device.size()},
                                {"launches", rates.launches},
                                {"p50_us", rounded(rates.us)},
                                {"p90_us", rounded(percentile(t.device, 0.9))},
                                {"least_us", rounded(t.device.front())},
                                {"flops", rates.flops},
                                {"bytes", rates.bytes},
                                {"gflops", rates.gflops()},
                                {"gbytes", rates.gbytes()},
                                {"with_launch_p50_us", rounded(percentile(t.runs, 0.5))},
                                {"with_launch_p90_us", rounded(percentile(t.runs, 0.9))}}
                     .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)
              << std::endl;
    return 0;
  }
  print(t, rates, describe(device));
  if (!logged.empty() && logged != op.engine())
    std::cout << "the line's engine is " << logged << ": --engine line measures that one\n";
  return 0;
}

}  // namespace dlprim::cli
