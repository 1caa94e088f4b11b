// The operators that are made again of their lines in the log. One that comes is a function and a row.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/tune/measure.hpp"
#include "core/tune/problem_line.hpp"

namespace dlprim::detail {

struct LoggedKind {
  const char* op;
  /// Takes all fields of the line, makes the plan, then the tensors.
  TuneRun (*make)(const Stream& stream, ProblemLine& line, const Options& options);
};

/// logged_products.cpp: matrix products and convolutions; logged_elements.cpp: the rest.
std::vector<LoggedKind> logged_products();
std::vector<LoggedKind> logged_elements();

/// What runs the plan; `run` has its tensors.
template <class P, class Run>
TuneRun logged_run(std::shared_ptr<const P> plan, Run run) {
  return {plan->request(), [plan, run = std::move(run)] { run(*plan); }};
}

}  // namespace dlprim::detail
