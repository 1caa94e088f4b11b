// A plan's choice as text, what Plan::serialize() gives and Options::plan takes: lines of a name and a value,
// the last one a hash of those before.
//
//   dlprim-plan 2
//   version 0.1.0
//   platform Portable Computing Language
//   device cpu-skylake-avx512
//   units 2
//   op conv
//   engine cpu:kc=128,nc=256,mc=240
//   math standard
//   workspace_limit 1073741824
//   workspace 147456
//   description n=8 c=64 ...
//   check 0f1e2d3c4b5a6978
//
// Nothing of it depends on the driver's version: its compiled kernels are the binary cache's business.
#pragma once

#include <string>

#include "core/engine.hpp"

namespace dlprim::detail {

struct PlanRecord {
  std::string version;           ///< of the library
  std::string platform, device;  ///< names
  int units = 0;                 ///< compute units: engines' own choices depend on them
  std::string op, description;   ///< words NAME=VALUE that say all that the operator was described by
  Options options;               ///< engine, math, workspace_limit
  size_t workspace = 0;          ///< bytes that the plan needs
};

std::string plan_record_text(const PlanRecord& record);
/// Throws ValidationError ("plan") if the text is none, or damaged.
PlanRecord parse_plan_record(const std::string& text);

/// What a plan is made with: the options themselves or, if they have a plan, that one's. Throws
/// ValidationError if it is of another version, device, operator or description, or needs more workspace than
/// the options allow.
Options recorded_options(const Options& options, const Context& context, const char* op,
                         const std::string& description);
/// Notes in a finished plan's info how to make it again. `made_with`: what recorded_options() gave. Throws
/// ValidationError if a loaded plan did not become what it was.
void record_plan(PlanInfo& info, const Options& options, const Options& made_with, const Context& context,
                 const char* op, const std::string& description);

}  // namespace dlprim::detail
