// `dlprim tune`: measures problem by problem, keeps each best at once, and ends with a table. Ctrl-C ends it
// between two measurements of a candidate; what was finished before is kept.
#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <thread>

#include <dlprim/tune.hpp>

#include "commands.hpp"
#include "device_choice.hpp"
#include "format.hpp"
#include "output_folder.hpp"
#include "progress.hpp"

namespace dlprim::cli {
namespace {

volatile std::sig_atomic_t interrupted = 0;

/// Thrown through a measurement.
struct Interrupted {};

/// While it lives, the first Ctrl-C only sets the flag; the second ends the program.
class InterruptGuard {
 public:
  InterruptGuard() {
    struct sigaction action {};
    action.sa_handler = [](int) { interrupted = 1; };
    action.sa_flags = static_cast<int>(SA_RESETHAND);
    sigaction(SIGINT, &action, &before_);
  }
  ~InterruptGuard() { sigaction(SIGINT, &before_, nullptr); }
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

 private:
  struct sigaction before_ {};
};

/// The file's lines that are neither empty nor comments.
std::vector<std::string> read_problems(const Context& context, const std::string& path,
                                       const std::string& op) {
  std::ifstream file(path);
  if (!file) throw BadInput("cannot read '" + path + "'");
  std::vector<std::string> problems;
  for (std::string line; std::getline(file, line);) {
    line = line.substr(0, line.find('#'));
    const size_t begin = line.find_first_not_of(" \t\r");
    if (begin == std::string::npos) continue;
    line = line.substr(begin, line.find_last_not_of(" \t\r") + 1 - begin);
    if (line.substr(0, line.find(' ')) != op)
      throw BadInput("'" + path + "': '" + line + "' is no problem of '" + op + "'");
    try {
      tune_problem(context, line);
    } catch (const ValidationError& error) {
      throw BadInput("'" + path + "': " + error.what());
    }
    problems.push_back(line);
  }
  if (file.bad() || problems.empty()) throw BadInput("'" + path + "' holds no problem");
  return problems;
}

std::vector<std::string> choose_problems(const Context& context, const TuneOptions& options) {
  const std::vector<std::string> ops = tuned_operators();
  if (std::find(ops.begin(), ops.end(), options.op) == ops.end()) {
    std::string names;
    for (const std::string& op : ops) names += (names.empty() ? "" : ", ") + op;
    throw BadInput("--op '" + options.op + "' is not tuned; these are: " + names);
  }
  if (!options.shapes.empty()) return read_problems(context, options.shapes, options.op);
  return tuning_problems(context, options.op, options.full);
}

/// Says where results go. Throws if they would go nowhere.
void show_database(const Context& context, const TuneOptions& options, Progress& progress) {
  const TuneDatabase database = tune_database(context);
  std::string text = database.path;
  if (text.empty() && database.reason.empty())
    text = "there is none: DLPRIM_TUNE_DB or DLPRIM_CACHE_DIR is empty, or HOME is not set";
  else if (!database.reason.empty())
    text += (text.empty() ? "there is none: " : ": ") + database.reason;
  progress.line("database  " + text);
  if (database.path.empty() && options.out.empty())
    throw Error("what is measured would be lost: there is no database (" +
                (database.reason.empty() ? "none is named" : database.reason) + ") and no --export");
}

/// "gemm f32 mk-kn m=64 n=64 k=64"; sizes of 1 at the end are left out.
std::string text_of(const TuneProblem& p) {
  std::string text = name_of(p.dtype);
  if (p.result != p.dtype) text += std::string("->") + name_of(p.result);
  if (p.math != MathMode::standard) text += p.math == MathMode::tf32 ? " tf32" : " strict";
  text += " " + p.form;
  size_t shown = p.sizes.size();
  while (shown > 3 && p.sizes[shown - 1].second == 1) shown--;
  for (size_t i = 0; i < shown; i++) text += (i ? "x" : " ") + std::to_string(p.sizes[i].second);
  return text;
}

void print_summary(const std::vector<TuneResult>& results, Progress& progress) {
  size_t problem_width = 7, before_width = 6;
  for (const TuneResult& r : results) {
    problem_width = std::max(problem_width, text_of(r.problem).size());
    before_width = std::max(before_width, r.before.engine.size());
  }
  const auto padded = [](std::string text, size_t width) {
    text.resize(std::max(width, text.size()), ' ');
    return text;
  };
  progress.line("\n" + padded("problem", problem_width) + "  " + padded("before", before_width) +
                "       us     best us   gain  engine");
  double gains = 0;
  size_t compared = 0;
  for (const TuneResult& r : results) {
    const double gain = r.before.microseconds / r.best.microseconds;
    if (gain > 0) gains += std::log(gain), compared++;  // what was before may not have been measured
    progress.line(padded(text_of(r.problem), problem_width) + "  " + padded(r.before.engine, before_width) +
                  format("  %9.1f  %9.1f  %5.2f  %s", r.before.microseconds, r.best.microseconds, gain,
                         r.best.engine.c_str()));
  }
  progress.line(format("\ngain, geometric mean: %.3f over %zu problems",
                       std::exp(gains / static_cast<double>(std::max<size_t>(1, compared))), compared));
}

/// What else runs on the host takes part in every time; "" if little does.
std::string busy_text() {
  constexpr double kMuch = 0.5;  // programs that run, for each core
  const double cores = std::max(1u, std::thread::hardware_concurrency());
  double load = 0;
  if (getloadavg(&load, 1) != 1 || load < kMuch * cores) return "";
  return format(
      "the machine is busy: in the last minute %.1f programs ran on its %.0f cores. What is measured now may "
      "be "
      "wrong for an idle one",
      load, cores);
}

void warn_unsteady(const std::vector<TuneResult>& results, Progress& progress) {
  const auto unsteady =
      std::count_if(results.begin(), results.end(), [](const TuneResult& r) { return r.spread > kUnsteady; });
  if (unsteady > 0)
    progress.line(
        format("warning   %lld of %zu results are unsteady, as other work took part. They are kept, and "
               "marked so; run 'dlprim tune' again when nothing else runs",
               static_cast<long long>(unsteady), results.size()));
}

}  // namespace

int run_tune(const TuneOptions& options) {
  const Context context(choose_device(options.device));
  const std::vector<std::string> problems = choose_problems(context, options);
  require_writable(options.out);
  Progress progress(static_cast<int64_t>(problems.size()), "problems");
  progress.line("device    " + describe(context.device()));
  show_database(context, options, progress);
  if (const std::string busy = busy_text(); !busy.empty()) progress.line("warning   " + busy);

  const InterruptGuard guard;
  std::vector<TuneResult> results;
  size_t lost = 0;
  for (size_t i = 0; i < problems.size() && !interrupted; i++) {
    const std::string head = format("%zu/%zu", i + 1, problems.size());
    try {
      const auto show = [&](const std::string& engine, int step, int steps) {
        if (interrupted) throw Interrupted();
        const double share = (static_cast<double>(i) + static_cast<double>(step) / steps) /
                             static_cast<double>(problems.size());
        progress.show(static_cast<int64_t>(i), share, head, problems[i] + "  " + engine, false);
      };
      const TuneMode mode = options.exhaustive ? TuneMode::exhaustive : TuneMode::measure;
      results.push_back(tune(context, problems[i], show, mode));
      const TuneResult& r = results.back();
      for (const std::string& reason : r.struck_out) progress.line("  struck out: " + reason);
      if (!r.stored) lost++;
      if (r.spread > kUnsteady)
        progress.line(
            format("  unsteady: the times of %s spread by %.0f %%", r.best.engine.c_str(), 100 * r.spread));
      progress.show(static_cast<int64_t>(i + 1),
                    static_cast<double>(i + 1) / static_cast<double>(problems.size()), head, problems[i]);
    } catch (const OutOfMemory& error) {
      progress.line("  left out: " + problems[i] + ": " + error.what());
    } catch (const Interrupted&) {
    }
  }
  if (!results.empty()) {
    print_summary(results, progress);
    warn_unsteady(results, progress);
    if (!options.out.empty()) {
      write_file(options.out, tuning_json(context, results));
      progress.line("wrote " + options.out);
    }
  }
  const TuneDatabase database = tune_database(context);
  if (lost > 0 && !database.path.empty())
    progress.line(format("%zu results are not in the database: %s", lost, database.reason.c_str()));
  if (!interrupted) return lost > 0 && options.out.empty() ? 1 : 0;
  progress.line(
      format("interrupted: %zu of %zu problems were measured and are kept", results.size(), problems.size()));
  return 130;
}

}  // namespace dlprim::cli
