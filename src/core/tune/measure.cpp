// The turns. A time is wall-clock time of runs enqueued together, between two waits, as the benchmarks
// measure it: what launching costs is in it, as it is for the user. Candidates take turns, so that a device
// that gets slower, or other work on it, meets all of them; medians are compared.
#include "core/tune/measure.hpp"

#include <algorithm>
#include <chrono>
#include <mutex>

#include "core/log.hpp"
#include "core/state.hpp"
#include "core/text.hpp"
#include "core/tune/problem_line.hpp"

namespace dlprim::detail {
namespace {

constexpr double kBatch = 0.006;  // seconds that runs between two waits take, so that waiting hardly counts
constexpr int kMostRuns = 200;
constexpr int kRounds = 9, kFewRounds = 3;  // three times as many if the measurement is exhaustive
constexpr double kLong = 0.05;              // seconds of one run from which few rounds do
constexpr double kHopeless = 3;             // times the fastest: not worth measuring
constexpr double kSlow = 1.25;  // the same after some rounds, by the fastest of each: other work only adds
/// Differences below this are noise: what fits other problems too, or was there before, is preferred. Medians
/// of nine turns repeat to 1 to 2 % on an idle device.
constexpr double kNoise = 0.02;

struct Candidate {
  TuneRun run;
  double once = 0;  ///< seconds of one run and the wait
  std::vector<double> times;
  bool in_race = true;

  double fastest() const { return times.empty() ? once : *std::min_element(times.begin(), times.end()); }
  double median() const {
    std::vector<double> sorted = times;
    std::sort(sorted.begin(), sorted.end());
    return sorted.empty() ? once : sorted[sorted.size() / 2];
  }
};

double seconds_of(const TuneSubject& subject, const TuneRun& run, int runs) {
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < runs; i++) run.enqueue();
  subject.stream().finish();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// One run and the wait: the fastest of a few, as one alone may have met other work.
double seconds_once(const TuneSubject& subject, const TuneRun& run) {
  double best = seconds_of(subject, run, 1);
  for (int i = 0; i < 4 && best < kLong; i++) best = std::min(best, seconds_of(subject, run, 1));
  return best;
}

class Race {
 public:
  Race(TuneSubject& subject, const TuneProgress& progress)
      : subject_(subject),
        progress_(progress),
        requests_(subject.candidates()),
        times_(subject.exhaustive() ? 3 : 1),
        steps_(static_cast<int>(requests_.size()) + 2 + times_ * kRounds) {}

  TuneResult run() {
    compute_right();
    for (const std::string& request : requests_) admit(request);
    if (candidates_.empty()) {  // nothing else works
      right_.once = seconds_once(subject_, right_.run);
      candidates_.push_back(right_);
    }
    right_.run = {};  // its memory
    admit_automatic();
    take_turns();
    return result();
  }

 private:
  void say(const std::string& engine) {
    if (progress_) progress_(engine, step_, steps_);
    step_++;
  }

  /// Made, and run once: that compiles and warms up.
  Candidate prepare(const std::string& request) {
    Candidate candidate;
    candidate.run = subject_.plan(request);
    subject_.poison();
    candidate.run.enqueue();
    subject_.stream().finish();
    return candidate;
  }

  void compute_right() {
    const std::vector<std::string> references = subject_.references();
    say(references[0]);
    for (const std::string& reference : references) {
      try {
        right_ = prepare(reference);
        reference_ = reference;
        subject_.keep_result();
        return;
      } catch (const Error& error) {
        if (reference == references.back()) throw;  // without a right result nothing can be judged
        strike_out(reference, error.what());
      }
    }
  }

  void admit(const std::string& request) {
    say(request);
    std::string reason;
    try {
      const bool right = request == reference_;
      Candidate candidate = right ? right_ : prepare(request);
      if (const int64_t wrong = right ? 0 : subject_.wrong_elements(); wrong > 0)
        reason = cat(wrong, " elements are not as ", reference_, " computes them");
      else
        candidate.once = seconds_once(subject_, candidate.run);
      if (reason.empty()) candidates_.push_back(std::move(candidate));
    } catch (const Error& error) {
      reason = error.what();
    }
    if (!reason.empty()) strike_out(request, reason);
  }

  /// What "auto" chooses takes part under its own name, once.
  void admit_automatic() {
    say("auto");
    before_.engine = subject_.plan("auto").request;
    const auto same = [&](const Candidate& c) { return c.run.request == before_.engine; };
    if (std::any_of(candidates_.begin(), candidates_.end(), same)) return;
    const std::vector<std::string> references = subject_.references();
    if (std::count(references.begin(), references.end(), before_.engine)) return;
    Candidate automatic = prepare("auto");
    automatic.once = seconds_once(subject_, automatic.run);
    before_ = tuned(automatic);
    if (subject_.wrong_elements() > 0)
      strike_out(before_.engine, "chosen by a table, and wrong");
    else
      candidates_.insert(candidates_.begin(), std::move(automatic));
  }

  void strike_out(const std::string& request, const std::string& reason) {
    if (log_.level() >= 1)
      log_.line(cat("tuning ", subject_.problem().op, " ", sizes_text(subject_.problem()), ": ", request,
                    " is struck out: ", reason));
    struck_out_.push_back(request + ": " + reason.substr(0, reason.find('\n')));
  }

  void take_turns() {
    double fastest = candidates_[0].once;
    for (const Candidate& c : candidates_) fastest = std::min(fastest, c.once);
    for (Candidate& c : candidates_) c.in_race = c.once <= kHopeless * fastest;
    const int few = times_ * kFewRounds, rounds = fastest > kLong ? few : times_ * kRounds;
    for (int round = 0; round < rounds; round++) {
      say("turn " + std::to_string(round + 1));
      for (Candidate& c : candidates_)
        if (c.in_race) turn(c);
      if (round != few - 1) continue;
      fastest = candidates_[0].fastest();
      for (const Candidate& c : candidates_) fastest = std::min(fastest, c.fastest());
      for (Candidate& c : candidates_) c.in_race &= c.fastest() <= kSlow * fastest;
    }
  }

  void turn(Candidate& c) {
    const int runs = static_cast<int>(std::clamp(kBatch / std::max(c.once, 1e-9), 1.0, double{kMostRuns}));
    c.times.push_back(seconds_of(subject_, c.run, runs) / runs);
    c.once = std::min(c.once, c.times.back());
  }

  /// Of the engine that was found best: see TuneResult::spread.
  double spread_of(const std::string& engine) const {
    for (const Candidate& c : candidates_)
      if (c.run.request == engine && !c.times.empty()) return c.median() / std::max(c.fastest(), 1e-12) - 1;
    return 0;
  }

  static TunedEngine tuned(const Candidate& c) { return {c.run.request, c.median() * 1e6}; }

  TuneResult result() {
    TuneResult result;
    result.problem = subject_.problem();
    result.struck_out = struck_out_;
    result.before = before_;
    result.exhaustive = subject_.exhaustive();
    std::vector<TunedEngine> ranked;
    for (const Candidate& c : candidates_) ranked.push_back(tuned(c));
    double fastest = ranked[0].microseconds;
    for (const TunedEngine& e : ranked) fastest = std::min(fastest, e.microseconds);
    const auto good = [&](const TunedEngine& e) { return e.microseconds <= (1 + kNoise) * fastest; };
    result.best = *std::find_if(ranked.begin(), ranked.end(), good);
    for (const TunedEngine& e : ranked) {
      if (e.engine != before_.engine) continue;
      result.before = e;
      if (good(e)) result.best = e;
    }
    for (const TunedEngine& e : ranked)
      if (e.engine != result.best.engine &&
          (result.second.engine.empty() || e.microseconds < result.second.microseconds))
        result.second = e;
    result.spread = spread_of(result.best.engine);
    if (log_.level() >= 1)
      for (const TunedEngine& e : ranked)
        log_.line(cat("tuning ", result.problem.op, " ", sizes_text(result.problem),
                      " dtype=", name_of(result.problem.dtype), " math=", name_of(result.problem.math),
                      " form=", result.problem.form, ": engine=", e.engine, " us=", e.microseconds));
    return result;
  }

  TuneSubject& subject_;
  const TuneProgress& progress_;
  const Log& log_ = subject_.stream().context().state().log;
  std::vector<std::string> requests_;
  const int times_;
  int step_ = 0, steps_;
  Candidate right_;  ///< what computed the right result, until the others were compared with it
  std::string reference_;
  std::vector<Candidate> candidates_;
  TunedEngine before_;
  std::vector<std::string> struck_out_;
};

}  // namespace

TuneResult measure(TuneSubject& subject, const TuneProgress& progress) {
  // Two measurements at once would measure each other.
  static std::mutex mutex;
  std::lock_guard<std::mutex> lock(mutex);
  return Race(subject, progress).run();
}

TuneResult measure_and_store(const Context& context, TuneSubject& subject, const TuneProgress& progress) {
  TuneResult result = measure(subject, progress);
  result.stored = context.state().tuning.store(
      {result.problem, result.best, result.second, result.exhaustive, result.spread});
  return result;
}

void measure_on_first_use(const Context& context, const TuneProblem& problem, TuneMode mode,
                          const std::function<std::unique_ptr<TuneSubject>()>& subject) {
  if (context.state().tuning.knows(problem, mode == TuneMode::exhaustive)) return;
  try {
    measure_and_store(context, *subject());
  } catch (const std::exception& error) {
    if (const Log& log = context.state().log; log.level() >= 1)
      log.line(cat("tuning ", problem.op, " ", sizes_text(problem), " failed: ", error.what()));
  }
}

}  // namespace dlprim::detail
