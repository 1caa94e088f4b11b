// Engines: the ways an operator can be computed. An operator has one ordered list of them, best first; each
// says why it cannot or should not serve a problem, and makes the implementation that does.
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

/// What an engine says of a problem.
struct EngineVerdict {
  std::string name;
  std::string refusal;    ///< why it cannot serve; empty: it can
  std::string avoidance;  ///< why it should not, though it can; empty: it may
  double prediction = 0;  ///< in microseconds; 0: none
};

/// What Plan shows of itself.
struct PlanInfo {
  std::string text;  ///< "op=gemm engine=cpu m=64 ..." for the log
  std::string engine;
  std::string request;  ///< Options::engine that makes the plan again
  std::string reason;   ///< what chose the engine
  std::string record;   ///< see plan_record.hpp; empty for operators that have none
  size_t workspace = 0;
  double flops = 0;  ///< of one run
  double bytes = 0;  ///< least device memory traffic of one run
  std::vector<EngineVerdict> engines;
  const ContextState* context = nullptr;  ///< whose plan it is. Never a Context: the context owns its plans.
};

/// What Options::engine asks for: "auto", a name, or a name with parameters of that engine,
/// "fma:tm=64,parts=4".
class EngineRequest {
 public:
  /// Throws ValidationError if what stands behind the colon is not NAME=NUMBER,...
  explicit EngineRequest(const Options& options);
  bool automatic() const { return name_ == "auto"; }
  bool names(const char* engine) const { return name_ == engine; }
  /// Sets those of `values` that were given, if the engine was asked for. Throws ValidationError if others
  /// were given.
  void take(const char* engine, std::initializer_list<std::pair<const char*, int*>> values) const;

 private:
  std::string name_;
  std::vector<std::pair<std::string, int>> parameters_;
};

/// Options as engines see them.
struct EngineOptions : Options {
  /// Throws ValidationError as EngineRequest does.
  explicit EngineOptions(const Options& options) : Options(options), request(options) {}

  EngineRequest request;  ///< what `engine` says
};

/// Why the device does without the operator's engine (dlprim/engines_off.hpp); empty if it does not.
std::string switched_off(const Device& device, const char* op, const char* engine);

template <class Problem, class Impl>
struct Engine {
  using Text = std::string (*)(const Context&, const Problem&, const EngineOptions&);
  using Make = std::unique_ptr<const Impl> (*)(const Context&, const Problem&, const EngineOptions&);

  const char* name;
  /// Why the engine cannot serve, with the value that failed; empty if it can. Null: it always can.
  Text refuse;
  Make make;
  /// Why it should not serve though it can; empty if it may. It serves if it is asked for by name, or if all
  /// others refuse. Asked only where it does not refuse. Null: it always may.
  Text avoid = nullptr;
  /// Microseconds that a run will take, to compare with other engines that predict; null, or 0: it ranks by
  /// its place.
  double (*predict)(const Context&, const Problem&, const EngineOptions&) = nullptr;
  /// What tuning tries of the engine, as texts of Options::engine, those first that fit near problems best;
  /// null: its name. A few, or with TuneMode::exhaustive all that may be worth a measurement.
  std::vector<std::string> (*candidates)(const Context&, const Problem&, const EngineOptions&) = nullptr;
  /// Tuning tries it also where it avoids a problem.
  bool tried = false;

  std::string refusal(const char* op, const Context& context, const Problem& problem,
                      const EngineOptions& options) const {
    std::string off = switched_off(context.device(), op, name);
    return off.empty() && refuse ? refuse(context, problem, options) : off;
  }
  EngineVerdict judge(const char* op, const Context& context, const Problem& problem,
                      const EngineOptions& options) const {
    EngineVerdict verdict{name, refusal(op, context, problem, options), {}};
    if (!verdict.refusal.empty()) return verdict;
    if (avoid) verdict.avoidance = avoid(context, problem, options);
    if (predict) verdict.prediction = predict(context, problem, options);
    return verdict;
  }
};

/// The engines of an operator, best first, in one order for every device and problem. Constants in static
/// memory: `constexpr EngineList<Problem, Impl> kEngines = {&kFirst, &kSecond};`
template <class Problem, class Impl>
using EngineList = std::initializer_list<const Engine<Problem, Impl>*>;

/// Why an engine that is the slower one on all other devices should not serve; empty on CPUs.
std::string for_cpus(const Device& device);
/// The same of an engine that is the slower one on CPUs.
std::string for_gpus(const Device& device);
// As Engine::avoid.
template <class Problem>
std::string avoid_unless_cpu(const Context& context, const Problem&, const EngineOptions&) {
  return for_cpus(context.device());
}
template <class Problem>
std::string avoid_on_cpus(const Context& context, const Problem&, const EngineOptions&) {
  return for_gpus(context.device());
}

/// The base of implementations.
struct EngineImpl {
  virtual ~EngineImpl() = default;
  /// Bytes of workspace that a run needs.
  virtual size_t workspace_size() const { return 0; }
  /// What its engine chose that it would choose differently with other options, as parameters to ask for:
  /// "m=4".
  virtual std::string parameters() const { return {}; }
};

/// What tuning measures, and what it compares results with: see TuneSubject.
struct TuneCandidates {
  std::vector<std::string> timed, references;
};

/// Whether a run of the plain engine takes about a second at most.
bool plain_is_cheap(const Device& device, double flops);

/// The candidates of every engine that accepts, in the list's order; of those that avoid the problem only
/// where they are tried all the same. The last, the plain one, is timed if it is alone, or (`times_plain`)
/// where it does not take long, by the `flops` of a run. Results are compared with its, or where it would
/// take long with those of the last engine before it.
template <class Problem, class Impl>
TuneCandidates candidates_of(const char* op, const EngineList<Problem, Impl>& engines, const Context& context,
                             const Problem& problem, const Options& asked, double flops, bool times_plain) {
  TuneCandidates result;
  const EngineOptions options(asked);
  const auto* plain = *(engines.end() - 1);
  const char* last = nullptr;
  const bool cheap = plain_is_cheap(context.device(), flops);
  for (const auto* engine : engines) {
    const EngineVerdict verdict = engine->judge(op, context, problem, options);
    if (!verdict.refusal.empty() || !(engine->tried || verdict.avoidance.empty())) continue;
    if (engine == plain && last && !(times_plain && cheap)) continue;
    if (engine != plain) last = engine->name;
    if (!engine->candidates) result.timed.emplace_back(engine->name);
    if (engine->candidates)
      for (std::string& request : engine->candidates(context, problem, options))
        result.timed.push_back(std::move(request));
  }
  result.references = {plain->name};
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
std::unique_ptr<const Impl> tuned_engine(const char* op, const EngineList<Problem, Impl>& engines,
                                         const Context& context, const Problem& problem,
                                         const Options& options, const TuneProblem& tuned, PlanInfo& info) {
  for (const TuneAnswer& answer : tuned_answers(context, tuned)) {
    Options asked = options;
    asked.engine = answer.engine;
    std::string reason = "there is no such engine";
    try {
      const EngineOptions row(asked);
      for (const auto* engine : engines) {
        if (!row.request.names(engine->name)) continue;
        reason = engine->refusal(op, context, problem, row);
        if (!reason.empty()) break;
        auto impl = engine->make(context, problem, row);
        reason = workspace_refusal(impl->workspace_size(), options);
        if (!reason.empty()) break;
        info.engine = engine->name;
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

/// Of engines that accept, in the list's order: whether `b` serves before `a`.
bool ranks_above(const EngineVerdict& b, const EngineVerdict& a);
/// What chose the engine.
std::string reason_for(const EngineVerdict& chosen, const EngineRequest& request);

/// The first engine that accepts and that the request allows, or one behind it that predicts less time; one
/// that avoids the problem only if there is no other.
template <class Problem, class Impl>
std::unique_ptr<const Impl> ranked_engine(const EngineList<Problem, Impl>& engines, const Context& context,
                                          const Problem& problem, const EngineOptions& options,
                                          PlanInfo& info) {
  const EngineRequest& request = options.request;
  for (;;) {
    size_t best = engines.size();
    for (size_t i = 0; i < engines.size(); i++) {
      const EngineVerdict& verdict = info.engines[i];
      if (!verdict.refusal.empty() || !(request.automatic() || request.names(verdict.name.c_str()))) continue;
      if (best == engines.size() || ranks_above(verdict, info.engines[best])) best = i;
    }
    if (best == engines.size()) return nullptr;
    auto impl = engines.begin()[best]->make(context, problem, options);
    EngineVerdict& chosen = info.engines[best];
    chosen.refusal = workspace_refusal(impl->workspace_size(), options);
    if (!chosen.refusal.empty()) continue;
    const std::string parameters = impl->parameters();
    info.engine = chosen.name;
    info.request = !request.automatic() ? options.engine
                   : parameters.empty() ? info.engine
                                        : cat(info.engine, ":", parameters);
    info.reason = reason_for(chosen, request);
    return impl;
  }
}

/// The engine that `options.engine` names, of those that accept and are not switched off for the device;
/// else what the tables say of `tuned`, if it is given; else the one that ranks first. Fills `info`. Throws
/// ValidationError when none accepts, or the named one does not exist or refuses.
template <class Problem, class Impl>
std::unique_ptr<const Impl> choose_engine(const char* op, const EngineList<Problem, Impl>& engines,
                                          const Context& context, const Problem& problem,
                                          const Options& asked, PlanInfo& info,
                                          const TuneProblem* tuned = nullptr) {
  require(asked.plan.empty(), "plan", "is given, but ", op, " loads none");
  const EngineOptions options(asked);
  bool known = options.request.automatic();
  for (const auto* engine : engines) {
    known |= options.request.names(engine->name);
    info.engines.push_back(engine->judge(op, context, problem, options));
  }
  require(known, "engine", op, " has no engine '", options.engine, "'");

  std::unique_ptr<const Impl> chosen;
  if (tuned && options.request.automatic())
    chosen = tuned_engine(op, engines, context, problem, options, *tuned, info);
  if (!chosen) chosen = ranked_engine(engines, context, problem, options, info);
  std::string refusals;
  for (const EngineVerdict& verdict : info.engines)
    if (!verdict.refusal.empty()) refusals += cat("\n  ", verdict.name, ": ", verdict.refusal);
  require(chosen != nullptr, "engine", op, ": ",
          options.request.automatic() ? "every engine" : options.engine, " refused:", refusals);
  info.workspace = chosen->workspace_size();
  info.context = &context.state();
  return chosen;
}

/// The workspace that a run uses: the given one, checked, or one from the pool.
Tensor workspace_for(const PlanInfo& info, const Stream& stream, const Tensor& given);
/// The stream belongs to the plan's context.
void require_stream(const PlanInfo& info, const Stream& stream);

}  // namespace dlprim::detail
