// The log: silent unless the environment variable DLPRIM_LOG, or ContextConfig, asks. 1: a line per operator
// and per program made; 2: also a line per kernel launch with its device time, and per OpenCL buffer, and
// what the device's compiler remarks on a program.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace dlprim::detail {

/// How much is logged, and where it goes. Copies share the way out; any thread may use it.
class Log {
 public:
  /// What the environment says, to stderr.
  Log();
  /// `level` or, without it, the environment's, but 1 if that is silent and there is a sink. Lines go to
  /// `sink`, one at a time, or to stderr if it is empty.
  Log(std::optional<int> level, std::function<void(const std::string&)> sink);

  int level() const { return level_; }
  /// Writes "text" to the sink, or "dlprim: text" and a line end to stderr in one call. Callers ask level()
  /// first. Never throws.
  void line(const std::string& text) const noexcept;

 private:
  struct Sink;
  int level_;
  std::shared_ptr<Sink> sink_;  ///< null: stderr
};

}  // namespace dlprim::detail
