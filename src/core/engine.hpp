// Engines: the ways an operator can be computed. An operator has one ordered list of them, best first; each
// says why it cannot serve a problem, or makes the implementation that does.
#pragma once

#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <dlprim/context.hpp>
#include <dlprim/plan.hpp>
#include <dlprim/tune.hpp>

#include "core/check.hpp"
#include "core/text.hpp"
#include "core/tune/lookup.hpp"

namespace dlprim::detail {

/// What Plan shows of itself.
struct PlanInfo {
  std::string text;  ///< "op=gemm engine=cpu m=64 ..." for the log
  std::string engine;
  std::string request;  ///< Options::engine that makes the plan again
  std::string reason;   ///< what chose the engine
  std::string record;   ///< see plan_record.hpp; empty for operators that have none
  size_t workspace = 0;
  double flops = 0;                                          ///< of one run
  double bytes = 0;                                          ///< least device memory traffic of one run
  std::vector<std::pair<std::string, std::string>> engines;  ///< name and refusal (empty: it could serve)
  std::vector<double> predictions;                           ///< of the engines, in microseconds; 0: none
  const ContextState* context = nullptr;  ///< whose plan it is. Never a Context: the context owns its plans.
};

template <class Problem, class Impl>
struct Engine {
  const char* name;
  /// Why the engine cannot serve, with the value that failed; empty if it can.
  std::string (*refuse)(const Context&, const Problem&, const Options&);
  std::unique_ptr<const Impl> (*make)(const Context&, const Problem&, const Options&);
  /// Microseconds that a run will take, to compare with other engines that predict; null, or 0: it ranks by
  /// its place.
  double (*predict)(const Context&, const Problem&, const Options&) = nullptr;
  /// What tuning tries of the engine, as texts of Options::engine, those first that fit near problems best;
  /// null: its name. A few, or with TuneMode::exhaustive all that may be worth a measurement.
  std::vector<std::string> (*candidates)(const Context&, const Problem&, const Options&) = nullptr;
  /// Tuning tries it also where it serves only if asked for by name.
  bool tried = false;
};

/// The base of implementations.
struct EngineImpl {
  virtual ~EngineImpl() = default;
  /// Bytes of workspace that a run needs.
  virtual size_t workspace_size() const { return 0; }
  /// What its engine chose that it would choose differently with other options, as parameters to ask for:
  /// "m=4".
  virtual std::string parameters() const { return {}; }
};

/// What Options::engine asks for: "auto", a name, or a name with parameters of that engine,
/// "fma:tm=64,parts=4".
class EngineRequest {
 public:
  /// Throws ValidationError if what stands behind the colon is not NAME=NUMBER,...
  explicit EngineRequest(const Options& options);
  bool automatic() const { return name_ == "auto"; }
  bool names(const char* engine) const { return name_ == engine; }
  /// Sets those of `values` that were given. Throws ValidationError if others were.
  void take(std::initializer_list<std::pair<const char*, int*>> values) const;

 private:
  std::string name_;
  std::vector<std::pair<std::string, int>> parameters_;
};

/// What tuning measures, and what it compares results with: see TuneSubject.
struct TuneCandidates {
  std::vector<std::string> timed, references;
};

/// Whether a run of the plain engine takes about a second at most.
bool plain_is_cheap(const Device& device, double flops);

/// The candidates of every engine that accepts, or that is tried all the same, in the list's order. The last,
/// the plain one, is timed if it is alone, or (`times_plain`) where it does not take long, by the `flops` of
/// a run. Results are compared with its, or where it would take long with those of the last engine before it.
template <class Problem, class Impl>
TuneCandidates candidates_of(const std::vector<Engine<Problem, Impl>>& engines, const Context& context,
                             const Problem& problem, const Options& options, double flops, bool times_plain) {
  TuneCandidates result;
  const char* last = nullptr;
  const bool cheap = plain_is_cheap(context.device(), flops);
  for (const auto& engine : engines) {
    const bool plain = &engine == &engines.back();
    Options asked = options;
    if (engine.tried) asked.engine = engine.name;
    if (!engine.refuse(context, problem, asked).empty()) continue;
    if (plain && last && !(times_plain && cheap)) continue;
    if (!plain) last = engine.name;
    if (!engine.candidates) result.timed.emplace_back(engine.name);
    if (engine.candidates)
      for (std::string& request : engine.candidates(context, problem, options))
        result.timed.push_back(std::move(request));
  }
  result.references = {engines.back().name};
  if (last && !cheap) result.references.insert(result.references.begin(), last);
  return result;
}

/// What the context's tables say of the problem, best first.
std::vector<TuneAnswer> tuned_answers(const Context& context, const TuneProblem& problem);
/// A row's engine does not serve after all: a line in the log.
void log_useless_row(const Context& context, const TuneAnswer& answer, const std::string& reason);

/// Why an engine that needs so many bytes cannot serve; empty if it can.
inline std::string workspace_refusal(size_t bytes, const Options& options) {
  if (bytes <= options.workspace_limit) return {};
  return cat("needs ", bytes, " bytes of workspace, the limit is ", options.workspace_limit);
}

/// The engine of the first row for `tuned` that serves; null if none does.
template <class Problem, class Impl>
std::unique_ptr<const Impl> tuned_engine(const std::vector<Engine<Problem, Impl>>& engines,
                                         const Context& context, const Problem& problem,
                                         const Options& options, const TuneProblem& tuned, PlanInfo& info) {
  for (const TuneAnswer& answer : tuned_answers(context, tuned)) {
    Options asked = options;
    asked.engine = answer.engine;
    std::string reason = "there is no such engine";
    try {
      const EngineRequest request(asked);
      for (const auto& engine : engines) {
        if (!request.names(engine.name)) continue;
        reason = engine.refuse(context, problem, asked);
        if (!reason.empty()) break;
        auto impl = engine.make(context, problem, asked);
        reason = workspace_refusal(impl->workspace_size(), options);
        if (!reason.empty()) break;
        info.engine = engine.name;
        info.request = answer.engine;
        info.reason = answer.source;
        return impl;
      }
    } catch (const ValidationError& error) {
      reason = error.what();
    } catch (const BuildError& error) {
      reason = error.what();
    }
    log_useless_row(context, answer, reason);
  }
  return nullptr;
}

/// The first engine that accepts and that `request` allows, or one behind it that predicts less time.
template <class Problem, class Impl>
std::unique_ptr<const Impl> predicted_engine(const std::vector<Engine<Problem, Impl>>& engines,
                                             const Context& context, const Problem& problem,
                                             const Options& options, const EngineRequest& request,
                                             PlanInfo& info) {
  for (;;) {
    size_t best = engines.size();
    for (size_t i = 0; i < engines.size(); i++) {
      if (!info.engines[i].second.empty() || !(request.automatic() || request.names(engines[i].name)))
        continue;
      const auto predicts = [&](size_t engine) { return info.predictions[engine] > 0; };
      if (best == engines.size() ||
          (predicts(i) && predicts(best) && info.predictions[i] < info.predictions[best]))
        best = i;
    }
    if (best == engines.size()) return nullptr;
    auto impl = engines[best].make(context, problem, options);
    info.engines[best].second = workspace_refusal(impl->workspace_size(), options);
    if (info.engines[best].second.empty()) {
      info.engine = engines[best].name;
      const std::string parameters = impl->parameters();
      info.request = !request.automatic() ? options.engine
                     : parameters.empty() ? info.engine
                                          : cat(info.engine, ":", parameters);
      info.reason = !request.automatic()         ? "asked for by name"
                    : info.predictions[best] > 0 ? cat("predicted to take ", info.predictions[best], " us")
                                                 : "first of those that accept";
      return impl;
    }
  }
}

/// Of the engines that accept: the one that `options.engine` names; else what the tables say of `tuned`, if
/// it is given; else the first, or one behind it that predicts less time than it. Fills `info`. Throws
/// ValidationError when none accepts, or the named one does not exist or refuses.
template <class Problem, class Impl>
std::unique_ptr<const Impl> choose_engine(const char* op, const std::vector<Engine<Problem, Impl>>& engines,
                                          const Context& context, const Problem& problem,
                                          const Options& options, PlanInfo& info,
                                          const TuneProblem* tuned = nullptr) {
  require(options.plan.empty(), "plan", "is given, but ", op, " loads none");
  const EngineRequest request(options);
  bool known = request.automatic();
  for (const auto& engine : engines) {
    known |= request.names(engine.name);
    info.engines.emplace_back(engine.name, engine.refuse(context, problem, options));
    const bool predicts = engine.predict && info.engines.back().second.empty();
    info.predictions.push_back(predicts ? engine.predict(context, problem, options) : 0);
  }
  require(known, "engine", op, " has no engine '", options.engine, "'");

  std::unique_ptr<const Impl> chosen;
  if (request.automatic() && tuned) chosen = tuned_engine(engines, context, problem, options, *tuned, info);
  if (!chosen) chosen = predicted_engine(engines, context, problem, options, request, info);
  std::string refusals;
  for (const auto& [name, refusal] : info.engines)
    if (!refusal.empty()) refusals += cat("\n  ", name, ": ", refusal);
  require(chosen != nullptr, "engine", op, ": ", request.automatic() ? "every engine" : options.engine,
          " refused:", refusals);
  info.workspace = chosen->workspace_size();
  info.context = &context.state();
  return chosen;
}

/// The workspace that a run uses: the given one, checked, or one from the pool.
Tensor workspace_for(const PlanInfo& info, const Stream& stream, const Tensor& given);
/// The stream belongs to the plan's context.
void require_stream(const PlanInfo& info, const Stream& stream);

}  // namespace dlprim::detail
