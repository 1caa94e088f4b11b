// What the user sees while the program waits for something that has no progress bar: a line on the standard
// error, at once on a terminal, elsewhere after two seconds.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace dlprim::cli {

/// Shows `text()` until it ends. Another thread calls it; while it gives "" there is nothing to wait for.
class Waiting {
 public:
  explicit Waiting(std::function<std::string()> text);
  ~Waiting();
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

 private:
  void watch();

  const std::function<std::string()> text_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ending_ = false;
  std::thread thread_;
};

/// "compiling 31 of 81 kernels" while the process compiles: those that were asked for since this call.
std::function<std::string()> compiling();

}  // namespace dlprim::cli
