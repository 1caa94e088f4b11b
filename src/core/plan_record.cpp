#include "core/plan_record.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <cstdio>
#include <sstream>

#include "core/state.hpp"
#include "core/tune/problem_line.hpp"

namespace dlprim::detail {
namespace {

constexpr const char* kHead = "dlprim-plan";
constexpr const char* kForm = "2";

std::string check_of(const std::string& text) {
  char digits[20];
  std::snprintf(digits, sizeof digits, "%016llx",
                static_cast<unsigned long long>(XXH3_64bits(text.data(), text.size())));
  return digits;
}

/// Drivers' names, on one line.
std::string one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

PlanRecord record_of(const Context& context, const char* op, const std::string& description) {
  const DeviceFacts& facts = context.device().facts();
  PlanRecord record;
  record.version = DLPRIM_VERSION;
  record.platform = one_line(facts.platform), record.device = one_line(facts.name);
  record.units = facts.compute_units;
  record.op = op, record.description = description;
  return record;
}

/// Takes the lines in their order.
class Lines {
 public:
  explicit Lines(const std::string& text) : in_(text) {}
  std::string take(const std::string& name) {
    std::string line;
    const bool there = std::getline(in_, line) && line.compare(0, name.size() + 1, name + " ") == 0;
    require(there, "plan", "has '", line.substr(0, 40), "' where a line '", name, "' should be");
    return line.substr(name.size() + 1);
  }
  size_t number(const std::string& name) {
    const std::string text = take(name);
    const bool digits =
        !text.empty() && text.size() < 20 && text.find_first_not_of("0123456789") == std::string::npos;
    require(digits, "plan", "has the line '", name, " ", text, "', which is no number");
    return std::stoull(text);
  }

 private:
  std::istringstream in_;
};

/// The first words that differ.
void require_same_words(const std::string& recorded, const std::string& described) {
  std::istringstream a(recorded), b(described);
  std::string was, is;
  do {
    was = is = "nothing more";
    a >> was, b >> is;
    require(was == is, "plan", "was made for a description with ", was, ", this one has ", is);
  } while (a && b);
}

}  // namespace

std::string plan_record_text(const PlanRecord& r) {
  const std::string text =
      cat(kHead, " ", kForm, "\nversion ", r.version, "\nplatform ", r.platform, "\ndevice ", r.device,
          "\nunits ", r.units, "\nop ", r.op, "\nengine ", r.options.engine, "\nmath ",
          name_of(r.options.math), "\nworkspace_limit ", r.options.workspace_limit, "\nworkspace ",
          r.workspace, "\ndescription ", r.description, "\n");
  return cat(text, "check ", check_of(text), "\n");
}

PlanRecord parse_plan_record(const std::string& text) {
  require(text.compare(0, std::char_traits<char>::length(kHead), kHead) == 0, "plan", "begins with '",
          text.substr(0, std::min<size_t>(20, text.find('\n'))), "', not with '", kHead, "'");
  Lines lines(text);
  const std::string form = lines.take(kHead);
  require(form == kForm, "plan", "is in form ", form, ", this library reads form ", kForm);
  const size_t last = text.rfind("\ncheck ");
  require(last != std::string::npos, "plan", "is cut off: it has no line 'check'");
  require(text.substr(last + 1) == cat("check ", check_of(text.substr(0, last + 1)), "\n"), "plan",
          "is damaged: its lines do not give its check");
  PlanRecord r;
  r.version = lines.take("version");
  r.platform = lines.take("platform"), r.device = lines.take("device");
  r.units = static_cast<int>(lines.number("units"));
  r.op = lines.take("op");
  r.options.engine = lines.take("engine");
  r.options.math = parse_math(lines.take("math"));
  r.options.workspace_limit = lines.number("workspace_limit");
  r.workspace = lines.number("workspace");
  r.description = lines.take("description");
  return r;
}

Options recorded_options(const Options& options, const Context& context, const char* op,
                         const std::string& description) {
  if (options.plan.empty()) return options;
  require(options.engine == "auto", "plan", "is given, and the engine '", options.engine, "' too");
  const PlanRecord r = parse_plan_record(options.plan), here = record_of(context, op, description);
  require(r.version == here.version, "plan", "was made by dlprim ", r.version, ", this is ", here.version);
  require(r.device == here.device && r.platform == here.platform && r.units == here.units, "plan",
          "was made for '", r.device, "' of ", r.units, " units (", r.platform, "), this is '", here.device,
          "' of ", here.units, " (", here.platform, ")");
  require(r.op == op, "plan", "was made for ", r.op, ", not for ", op);
  require_same_words(r.description, description);
  const std::string refusal = workspace_refusal(r.workspace, options);
  require(refusal.empty(), "plan", refusal);
  return r.options;
}

void record_plan(PlanInfo& info, const Options& options, const Options& made_with, const Context& context,
                 const char* op, const std::string& description) {
  PlanRecord r = record_of(context, op, description);
  r.options = made_with;
  r.options.engine = info.request;
  r.workspace = info.workspace;
  info.record = plan_record_text(r);
  if (options.plan.empty()) return;
  require(info.record == options.plan, "plan", "was made by another build: it needs ", info.workspace,
          " bytes of workspace now");
  info.reason = "loaded";
}

}  // namespace dlprim::detail
