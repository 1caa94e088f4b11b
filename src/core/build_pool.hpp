// BuildPool: jobs in the background, so many at once as it is told, or as the host has cores, 16 at most.
// The longest job waiting begins first; one that is needed before it began is run by who needs it. When the
// pool or the process ends, jobs that have not begun are dropped, and those that have are waited for: no
// thread of the library may be inside a driver that takes itself apart.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace dlprim::detail {

class BuildPool {
 public:
  /// One of the three is called, once: by a thread of the pool, by a thread that needs it, or if it is
  /// dropped. None may throw.
  struct Job {
    size_t length = 0;  ///< how long it takes, beside others
    std::function<void()> run, run_here, drop;
  };
  /// A job's place among those that wait.
  using Ticket = std::pair<size_t, uint64_t>;

  /// What a thread of the pool needs before its first job: called until it is true, or the pool ends. A call
  /// takes some hundredths of a second at most.
  using Prepare = std::function<bool()>;

  /// 0 at once: as many as there are cores. Threads without jobs end after `patience`.
  explicit BuildPool(int at_once, Prepare prepare = {}, std::chrono::milliseconds patience = {});
  ~BuildPool();
  BuildPool(const BuildPool&) = delete;
  BuildPool& operator=(const BuildPool&) = delete;

  /// Throws std::system_error if there is no thread to be had; the job was not taken then.
  Ticket add(Job job);
  /// Starts all threads, since jobs will come. Without threads to be had it starts fewer.
  void warm() noexcept;
  /// True if more threads are ready than jobs run and wait.
  bool idle();
  /// Runs the job here, if it was added and has not begun.
  void run_here(Ticket ticket);
  /// Drops what has not begun, and waits for the rest. So does the end of any thread that has called add() or
  /// warm().
  void drop() noexcept;
  /// The same, and what is added from now on is dropped.
  void stop() noexcept;

 private:
  void enter();
  /// Under the lock, as take().
  void start_thread();
  Job take(std::map<Ticket, Job>::iterator place);
  void work();
  /// Waits for threads that ended by themselves.
  void join_ended();

  const size_t most_;
  const Prepare prepare_;
  const std::chrono::milliseconds patience_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<Ticket, Job> jobs_;  ///< in the order in which they begin
  uint64_t added_ = 0;
  std::map<std::thread::id, std::thread> threads_;
  std::vector<std::thread> ended_;
  size_t ready_ = 0;  ///< threads that are prepared
  size_t busy_ = 0;   ///< of those, the ones that run a job
  bool ending_ = false, stopped_ = false;
};

}  // namespace dlprim::detail
