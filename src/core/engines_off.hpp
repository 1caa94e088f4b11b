// Choosing an engine among those that are not switched off for the device (dlprim/engines_off.hpp).
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <dlprim/engines_off.hpp>

#include "core/engine.hpp"

namespace dlprim::detail {

/// Why the device does without the operator's engine; empty if it does not.
std::string switched_off(const Device& device, const char* op, const std::string& engine);

/// choose_engine(), and where it takes one that is switched off, the one that ranks first among the others.
/// An engine that was asked for by name and is switched off is refused. Throws as that.
template <class Problem, class Impl>
std::unique_ptr<const Impl> choose_enabled_engine(const char* op, const EngineList<Problem, Impl>& engines,
                                                  const Context& context, const Problem& problem,
                                                  const Options& asked, PlanInfo& info,
                                                  const TuneProblem* tuned = nullptr) {
  PlanInfo before = info;
  std::unique_ptr<const Impl> chosen = choose_engine(op, engines, context, problem, asked, info, tuned);
  const std::string reason = switched_off(context.device(), op, info.engine);
  if (reason.empty()) return chosen;
  require(EngineRequest(asked).automatic(), "engine", op, ": ", info.engine, " ", reason);
  chosen.reset();
  std::vector<EngineVerdict> verdicts = std::move(info.engines);
  for (EngineVerdict& verdict : verdicts)
    if (const std::string off = switched_off(context.device(), op, verdict.name); !off.empty())
      verdict.refusal = off;
  for (;;) {
    const EngineVerdict* best = nullptr;
    for (const EngineVerdict& verdict : verdicts)
      if (verdict.refusal.empty() && (!best || ranks_above(verdict, *best))) best = &verdict;
    std::string refusals;
    for (const EngineVerdict& verdict : verdicts)
      if (!verdict.refusal.empty()) refusals += cat("\n  ", verdict.name, ": ", verdict.refusal);
    require(best != nullptr, "engine", op, ": every engine refused:", refusals);
    Options by_name = asked;
    by_name.engine = best->name;
    PlanInfo next = before;
    try {
      chosen = choose_engine(op, engines, context, problem, by_name, next);
    } catch (const ValidationError& error) {  // its workspace is above the limit
      verdicts[static_cast<size_t>(best - verdicts.data())].refusal = error.what();
      continue;
    }
    next.reason = cat("first of those that are not switched off");
    next.engines = std::move(verdicts);
    info = std::move(next);
    return chosen;
  }
}

}  // namespace dlprim::detail
