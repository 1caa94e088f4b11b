// Lines of the log as problems, and who makes them.
#include <dlprim/logged_operator.hpp>

#include "core/check.hpp"
#include "ops/tune/logged_kinds.hpp"

namespace dlprim {
namespace detail {
namespace {

const std::vector<LoggedKind>& kinds() {
  static const std::vector<LoggedKind> list = [] {
    std::vector<LoggedKind> all = logged_products();
    for (const LoggedKind& kind : logged_elements()) all.push_back(kind);
    return all;
  }();
  return list;
}

/// "gemm m=64 ...": what stands behind "op=".
ProblemLine problem_of(const std::string& line) {
  const size_t begin = line.find_first_not_of(" \t\r\n");
  std::string text = begin == std::string::npos ? "" : line.substr(begin);
  const std::string said_by = "dlprim: ", op = "op=";
  if (text.rfind(said_by, 0) == 0) text.erase(0, said_by.size());
  require(text.rfind(op, 0) == 0, "line", "'", line,
          "' is no operator of the log: it does not begin with op=NAME");
  return ProblemLine(text.substr(op.size()));
}

const LoggedKind& kind_of(const std::string& op) {
  std::string names;
  for (const LoggedKind& kind : kinds()) {
    if (op == kind.op) return kind;
    names += (names.empty() ? "" : ", ") + std::string(kind.op);
  }
  throw ValidationError("line",
                        cat("operator '", op, "' cannot be made again of its line; these can: ", names));
}

}  // namespace
}  // namespace detail

struct LoggedOperator::State {
  detail::TuneRun run;
};

std::vector<std::string> logged_operators() {
  std::vector<std::string> names;
  for (const detail::LoggedKind& kind : detail::kinds()) names.emplace_back(kind.op);
  return names;
}

std::string logged_engine(const std::string& line) {
  return detail::problem_of(line).text("engine", "");
}

LoggedOperator::LoggedOperator(const Stream& stream, const std::string& line, const Options& options) {
  detail::ProblemLine problem = detail::problem_of(line);
  const detail::LoggedKind& kind = detail::kind_of(problem.op());
  for (const char* said : {"engine", "workspace", "kernels", "us", "gflops", "gbytes"})
    problem.text(said, "");
  state_ = std::make_shared<const State>(State{kind.make(stream, problem, options)});
}

const std::string& LoggedOperator::engine() const noexcept {
  return state_->run.request;
}

void LoggedOperator::run() const {
  state_->run.enqueue();
}

}  // namespace dlprim
