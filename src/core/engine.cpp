// The text of Options::engine, and what tables say.
#include "core/engine.hpp"

#include <algorithm>

#include "core/log.hpp"
#include "core/state.hpp"

namespace dlprim::detail {
namespace {

/// A number from 0 to 99999; -1 if the text is none.
int small_number(const std::string& text) {
  const bool digits =
      !text.empty() && text.size() < 6 && text.find_first_not_of("0123456789") == std::string::npos;
  return digits ? std::stoi(text) : -1;
}

}  // namespace

EngineRequest::EngineRequest(const Options& options) {
  const size_t colon = options.engine.find(':');
  name_ = options.engine.substr(0, colon);
  if (colon == std::string::npos) return;
  const std::string text = options.engine.substr(colon + 1);
  for (size_t from = 0; from <= text.size();) {
    const size_t end = std::min(text.find(',', from), text.size());
    const size_t equals = std::min(text.find('=', from), end);
    const int value = equals < end ? small_number(text.substr(equals + 1, end - equals - 1)) : -1;
    require(equals > from && value >= 0, "engine", "'", options.engine, "': '", text.substr(from, end - from),
            "' is not NAME=NUMBER");
    parameters_.emplace_back(text.substr(from, equals - from), value);
    from = end + 1;
  }
}

void EngineRequest::take(const char* engine,
                         std::initializer_list<std::pair<const char*, int*>> values) const {
  if (!names(engine)) return;
  for (const auto& [name, number] : parameters_) {
    const auto* known =
        std::find_if(values.begin(), values.end(), [&, &n = name](const auto& v) { return n == v.first; });
    require(known != values.end(), "engine", name_, " has no parameter '", name, "'");
    *known->second = number;
  }
}

std::string for_cpus(const Device& device) {
  return device.kind() == DeviceKind::cpu ? std::string()
                                          : cat("is for CPUs, the device is a ", name_of(device.kind()));
}

std::string for_gpus(const Device& device) {
  return device.kind() == DeviceKind::cpu ? "is for GPUs, the device is a CPU" : std::string();
}

bool ranks_above(const EngineVerdict& b, const EngineVerdict& a) {
  if (a.avoidance.empty() != b.avoidance.empty()) return b.avoidance.empty();
  return a.prediction > 0 && b.prediction > 0 && b.prediction < a.prediction;
}

std::string reason_for(const EngineVerdict& chosen, const EngineRequest& request) {
  if (!request.automatic()) return "asked for by name";
  if (!chosen.avoidance.empty()) return cat("all others refused; avoided, ", chosen.avoidance);
  return chosen.prediction > 0 ? cat("predicted to take ", chosen.prediction, " us")
                               : "first of those that accept";
}

bool plain_is_cheap(const Device& device, double flops) {
  const double rate = device.kind() == DeviceKind::cpu ? 2.5e8 : 1e10;  // of a compute unit, in a second
  return flops <= rate * std::max(1, device.facts().compute_units);
}

std::vector<TuneAnswer> tuned_answers(const Context& context, const TuneProblem& problem) {
  return context.state().tuning.answers(problem);
}

void log_useless_row(const Context& context, const TuneAnswer& answer, const std::string& reason) {
  if (const Log& log = context.state().log; log.level() >= 1)
    log.line(cat("tuning: ", answer.engine, " of ", answer.source, " is left out: ", reason));
}

}  // namespace dlprim::detail
