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

#include "core/check.hpp"
#include "core/text.hpp"

namespace dlprim::detail {

/// What Plan shows of itself.
struct PlanInfo {
  std::string text;  ///< "op=gemm engine=cpu m=64 ..." for the log
  std::string engine;
  size_t workspace = 0;
  double flops = 0;                                          ///< of one run
  double bytes = 0;                                          ///< least device memory traffic of one run
  std::vector<std::pair<std::string, std::string>> engines;  ///< name and refusal (empty: it could serve)
  const ContextState* context = nullptr;  ///< whose plan it is. Never a Context: the context owns its plans.
};

template <class Problem, class Impl>
struct Engine {
  const char* name;
  /// Why the engine cannot serve, with the value that failed; empty if it can.
  std::string (*refuse)(const Context&, const Problem&, const Options&);
  std::unique_ptr<const Impl> (*make)(const Context&, const Problem&, const Options&);
  /// Microseconds that a run will take, to compare with other engines that predict; null: it ranks by its
  /// place.
  double (*predict)(const Context&, const Problem&, const Options&) = nullptr;
};

/// The base of implementations.
struct EngineImpl {
  virtual ~EngineImpl() = default;
  /// Bytes of workspace that a run needs.
  virtual size_t workspace_size() const { return 0; }
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

/// Of the engines that accept, the one that `options.engine` names; else the first, or one behind it that
/// predicts less time than it. Fills `info`. Throws ValidationError when none accepts, or the named one does
/// not exist or refuses.
template <class Problem, class Impl>
std::unique_ptr<const Impl> choose_engine(const char* op, const std::vector<Engine<Problem, Impl>>& engines,
                                          const Context& context, const Problem& problem,
                                          const Options& options, PlanInfo& info) {
  const EngineRequest request(options);
  bool known = request.automatic();
  for (const auto& engine : engines) {
    known |= request.names(engine.name);
    info.engines.emplace_back(engine.name, engine.refuse(context, problem, options));
  }
  require(known, "engine", op, " has no engine '", options.engine, "'");

  std::unique_ptr<const Impl> chosen;
  while (!chosen) {
    size_t best = engines.size();
    double best_time = 0;
    for (size_t i = 0; i < engines.size(); i++) {
      if (!info.engines[i].second.empty() || !(request.automatic() || request.names(engines[i].name)))
        continue;
      const double time = engines[i].predict ? engines[i].predict(context, problem, options) : 0;
      if (best < engines.size() && !(engines[i].predict && engines[best].predict && time < best_time))
        continue;
      best = i;
      best_time = time;
    }
    if (best == engines.size()) break;
    chosen = engines[best].make(context, problem, options);
    info.engine = engines[best].name;
    if (chosen->workspace_size() <= options.workspace_limit) break;
    info.engines[best].second = cat("needs ", chosen->workspace_size(), " bytes of workspace, the limit is ",
                                    options.workspace_limit);
    chosen.reset();
  }
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
