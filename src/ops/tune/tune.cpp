// Tuning for users: the list of operators that are tuned, and what comes out of a measurement as a file.
#include <dlprim/tune.hpp>

#include <cstdio>

#include "core/check.hpp"
#include "core/state.hpp"
#include "core/text.hpp"
#include "core/tune/database.hpp"
#include "core/tune/measure.hpp"
#include "core/tune/problem_line.hpp"

namespace dlprim {
namespace detail {

extern const TuneFamily kGemmTuning, kConvTuning;

namespace {

const std::vector<TuneFamily>& families() {
  static const std::vector<TuneFamily> list = {kGemmTuning, kConvTuning};
  return list;
}

const TuneFamily& family(const char* argument, const std::string& op) {
  std::string names;
  for (const TuneFamily& family : families()) {
    if (op == family.op) return family;
    names += (names.empty() ? "" : ", ") + std::string(family.op);
  }
  throw ValidationError(argument, cat("operator '", op, "' is not tuned; these are: ", names));
}

std::unique_ptr<TuneSubject> subject_of(const Context& context, const std::string& problem,
                                        TuneMode mode = TuneMode::measure) {
  return family("problem", ProblemLine(problem).op()).subject(context, problem, mode);
}

std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += static_cast<unsigned char>(c) < 32 ? ' ' : c;
  }
  return result + '"';
}

/// Four digits.
std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", value);
  return text;
}

std::string row_text(const TuneResult& r) {
  const TuneProblem& p = r.problem;
  std::string text =
      cat("{\"dtype\": ", quoted(name_of(p.dtype)), ", \"result\": ", quoted(name_of(p.result)),
          ", \"math\": ", quoted(name_of(p.math)), ", \"form\": ", quoted(p.form));
  for (const auto& [name, size] : p.sizes) text += cat(", ", quoted(name), ": ", size);
  if (r.spread > kUnsteady) text += cat(", \"spread\": ", number(r.spread));  // of a busy device
  text += cat(", \"engine\": ", quoted(r.best.engine), ", \"us\": ", number(r.best.microseconds));
  if (!r.second.engine.empty())
    text +=
        cat(", \"second\": ", quoted(r.second.engine), ", \"second_us\": ", number(r.second.microseconds));
  return text + "}";
}

}  // namespace
}  // namespace detail

using namespace detail;

std::vector<std::string> tuned_operators() {
  std::vector<std::string> names;
  for (const TuneFamily& family : families()) names.emplace_back(family.op);
  return names;
}

std::vector<std::string> tuning_problems(const Context& context, const std::string& op, bool full) {
  return family("op", op).problems(context, full);
}

TuneProblem tune_problem(const Context& context, const std::string& problem) {
  return subject_of(context, problem)->problem();
}

TuneResult tune(const Context& context, const std::string& problem, const TuneProgress& progress,
                TuneMode mode) {
  require(mode != TuneMode::table, "mode", "TuneMode::table measures nothing");
  return measure_and_store(context, *subject_of(context, problem, mode), progress);
}

TuneDatabase tune_database(const Context& context) {
  return context.state().tuning.database();
}

std::string tuning_json(const Context& context, const std::vector<TuneResult>& results) {
  const DeviceFacts& f = context.device().facts();
  std::string text = "{\n";
  const auto field = [&](const char* name, const std::string& value) {
    text += cat(" ", quoted(name), ": ", quoted(value), ",\n");
  };
  field("device", f.name);
  field("architecture", f.architecture);
  field("vendor", f.vendor);
  field("kind", name_of(f.kind));
  field("platform", f.platform);
  field("driver", f.driver);
  field("date", today());
  field("op", results.empty() ? "" : results[0].problem.op);
  text += " \"sizes\": [";
  if (!results.empty())
    for (const auto& [name, size] : results[0].problem.sizes)
      text += cat(&name == &results[0].problem.sizes[0].first ? "" : ", ", quoted(name));
  text += "],\n \"rows\": [";
  for (size_t i = 0; i < results.size(); i++) text += cat(i ? ",\n  " : "\n  ", row_text(results[i]));
  return text + "\n ]\n}\n";
}

}  // namespace dlprim
