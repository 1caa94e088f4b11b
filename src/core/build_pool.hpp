// BuildPool: jobs in the background, as many at once as the host has cores, 16 at most. Threads start with
// the first jobs and end with the last. When the pool or the process ends, jobs that have not begun are
// dropped, and those that have are waited for: no thread of the library may be inside a driver that takes
// itself apart.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace dlprim::detail {

class BuildPool {
 public:
  BuildPool() = default;
  ~BuildPool() { stop(); }
  BuildPool(const BuildPool&) = delete;
  BuildPool& operator=(const BuildPool&) = delete;

  /// `job` must not throw. Jobs begin in the order in which they come. Throws std::system_error if there is
  /// no thread to be had; the job was not taken then.
  void add(std::function<void()> job);
  /// Drops what has not begun, waits for the rest, and takes no more.
  void stop() noexcept;

 private:
  void work();

  std::mutex mutex_;
  std::deque<std::function<void()>> jobs_;
  std::vector<std::thread> threads_;
  size_t working_ = 0;  ///< threads that look for jobs
  bool stopped_ = false;
};

}  // namespace dlprim::detail
