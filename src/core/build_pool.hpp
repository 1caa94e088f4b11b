// BuildPool: jobs in the background, so many at once as it is told, or as the host has cores, 16 at most.
// Threads start with the first jobs and end with the last. When the pool or the process ends, jobs that have
// not begun are dropped, and those that have are waited for: no thread of the library may be inside a driver
// that takes itself apart.
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
  /// One of the two is called, once. Neither may throw.
  struct Job {
    std::function<void()> run, drop;
  };

  /// 0 at once: as many as there are cores.
  explicit BuildPool(int at_once);
  ~BuildPool();
  BuildPool(const BuildPool&) = delete;
  BuildPool& operator=(const BuildPool&) = delete;

  /// Jobs begin in the order in which they come. Throws std::system_error if there is no thread to be had;
  /// the job was not taken then.
  void add(Job job);
  /// Drops what has not begun, and waits for the rest. So does the end of any thread that has called add().
  void drop() noexcept;
  /// The same, and what is added from now on is dropped.
  void stop() noexcept;

 private:
  void work();

  const size_t most_;
  std::mutex mutex_;
  std::condition_variable ended_;
  std::deque<Job> jobs_;
  std::vector<std::thread> threads_;
  size_t working_ = 0;  ///< threads that look for jobs
  bool stopped_ = false;
};

}  // namespace dlprim::detail
