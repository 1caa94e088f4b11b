#include "core/build_pool.hpp"

#include <algorithm>
#include <cstdlib>
#include <set>
#include <utility>

namespace dlprim::detail {
namespace {

constexpr size_t kMostThreads = 16;

/// The pools that have had jobs. Never destroyed: pools may be static.
struct Pools {
  std::mutex mutex;
  std::set<BuildPool*> pools;
};
Pools& pools() {
  static Pools* all = new Pools;
  return *all;
}

void for_all_pools(void (BuildPool::*action)() noexcept) {
  std::lock_guard<std::mutex> lock(pools().mutex);
  for (BuildPool* pool : pools().pools) (pool->*action)();
}

/// Ends the jobs of all pools before the process' statics go. exit() first ends the calling thread's own
/// objects. Its handlers would come too late for what a compiler makes in its first builds (LLVM's file
/// system is such a static): they run in the reverse order of registration. They serve where another thread
/// calls it.
void watch_the_end() {
  thread_local const struct End {
    ~End() { for_all_pools(&BuildPool::drop); }
  } end;
  static const int handler = std::atexit([] { for_all_pools(&BuildPool::stop); });
  static_cast<void>(handler);
}

}  // namespace

BuildPool::BuildPool(int at_once)
    : most_(
          std::clamp<size_t>(at_once > 0 ? static_cast<size_t>(at_once) : std::thread::hardware_concurrency(),
                             1, kMostThreads)) {}

BuildPool::~BuildPool() {
  {
    std::lock_guard<std::mutex> lock(pools().mutex);
    pools().pools.erase(this);
  }
  stop();
}

void BuildPool::add(Job job) {
  watch_the_end();
  {
    std::lock_guard<std::mutex> lock(pools().mutex);
    pools().pools.insert(this);
  }
  std::unique_lock<std::mutex> lock(mutex_);
  if (stopped_) {
    lock.unlock();
    return job.drop();
  }
  if (working_ < most_) {
    if (working_ == 0) {
      for (std::thread& ended : threads_) ended.join();
      threads_.clear();
    }
    threads_.emplace_back([this] { work(); });
    working_++;
  }
  jobs_.push_back(std::move(job));
}

void BuildPool::work() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (!jobs_.empty()) {
    const Job job = std::move(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    job.run();
    lock.lock();
  }
  working_--;
  ended_.notify_all();
}

void BuildPool::drop() noexcept {
  std::deque<Job> dropped;
  std::vector<std::thread> threads;
  std::unique_lock<std::mutex> lock(mutex_);
  dropped.swap(jobs_);
  lock.unlock();
  for (const Job& job : dropped) job.drop();
  lock.lock();
  ended_.wait(lock, [&] { return working_ == 0; });
  threads.swap(threads_);
  lock.unlock();
  for (std::thread& thread : threads) thread.join();
}

void BuildPool::stop() noexcept {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stopped_ = true;
  }
  drop();
}

}  // namespace dlprim::detail
