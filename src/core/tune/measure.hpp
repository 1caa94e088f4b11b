// Measuring: candidates of one problem take turns, the fastest that is right wins.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <dlprim/stream.hpp>
#include <dlprim/tune.hpp>

namespace dlprim::detail {

/// A plan made for one engine, and one run of it put into the stream.
struct TuneRun {
  std::string request;  ///< Options::engine that makes the plan again
  std::function<void()> enqueue;
};

/// A problem with operands and a result of its own. The operands hold small integers, so that every right
/// engine gives the same result bit for bit. Everything throws as operators do.
class TuneSubject {
 public:
  virtual ~TuneSubject() = default;

  virtual const TuneProblem& problem() const = 0;
  /// What Options::engine may be, those first that fit near problems best: up to 24, but any number of them
  /// if exhaustive().
  virtual std::vector<std::string> candidates() const = 0;
  /// The engines whose result may be what the others' are compared with; the first that runs is taken. What
  /// is no candidate too is not timed.
  virtual std::vector<std::string> references() const = 0;
  /// Measured with TuneMode::exhaustive.
  virtual bool exhaustive() const { return false; }
  /// A plan with this engine, "auto" included; it does not outlive the subject. Throws ValidationError,
  /// BuildError.
  virtual TuneRun plan(const std::string& engine) = 0;
  virtual const Stream& stream() const = 0;
  /// Overwrites the result with what no engine gives.
  virtual void poison() = 0;
  /// Keeps the result as the one to compare with.
  virtual void keep_result() = 0;
  /// Elements of the result that are not as in the one kept. Waits for the device.
  virtual int64_t wrong_elements() = 0;
};

/// What an operator brings to be tuned; src/ops/tune/tune.cpp has the list.
struct TuneFamily {
  const char* op;
  /// See tuning_problems().
  std::vector<std::string> (*problems)(const Context&, bool full);
  /// Takes no memory yet. Throws ValidationError if the line says no problem of the operator.
  std::unique_ptr<TuneSubject> (*subject)(const Context&, const std::string& line, TuneMode mode);
};

/// Candidates that fail or give other numbers than the reference are struck out, with a line in the log.
/// Throws what the last of the references or "auto" throws, and what `progress` throws.
TuneResult measure(TuneSubject& subject, const TuneProgress& progress = {});

/// The subject is measured and its best stored, in the context and in the user's database.
TuneResult measure_and_store(const Context& context, TuneSubject& subject, const TuneProgress& progress = {});

/// What TuneMode::measure and exhaustive do: measures if the user has no such row for the problem. Throws
/// nothing; a failure is a line in the log.
void measure_on_first_use(const Context& context, const TuneProblem& problem, TuneMode mode,
                          const std::function<std::unique_ptr<TuneSubject>()>& subject);

}  // namespace dlprim::detail
