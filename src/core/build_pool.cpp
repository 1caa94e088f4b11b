#include "core/build_pool.hpp"

#include <algorithm>
#include <cstdlib>
#include <set>

namespace dlprim::detail {
namespace {

constexpr size_t kMostThreads = 16;

/// The pools with threads, for the end of the process. Never destroyed: pools may be static.
struct Pools {
  std::mutex mutex;
  std::set<BuildPool*> pools;
};
Pools& pools() {
  static Pools* all = new Pools;
  return *all;
}

/// Handlers run in the reverse order of their registration, so before those of the driver, which was loaded
/// before any program could be asked for.
void stop_at_exit() {
  static const int registered = std::atexit([] {
    std::set<BuildPool*> all;
    {
      std::lock_guard<std::mutex> lock(pools().mutex);
      all.swap(pools().pools);
    }
    for (BuildPool* pool : all) pool->stop();
  });
  static_cast<void>(registered);
}

}  // namespace

void BuildPool::add(std::function<void()> job) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (stopped_) return;
  const size_t most = std::clamp<size_t>(std::thread::hardware_concurrency(), 1, kMostThreads);
  if (working_ < most) {
    if (working_ == 0) {
      for (std::thread& ended : threads_) ended.join();
      threads_.clear();
      stop_at_exit();
      std::lock_guard<std::mutex> registry(pools().mutex);
      pools().pools.insert(this);
    }
    threads_.emplace_back([this] { work(); });
    working_++;
  }
  jobs_.push_back(std::move(job));
}

void BuildPool::work() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (!jobs_.empty()) {
    const std::function<void()> job = std::move(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    job();
    lock.lock();
  }
  working_--;
}

void BuildPool::stop() noexcept {
  std::vector<std::thread> threads;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stopped_ = true;
    jobs_.clear();
    threads.swap(threads_);
  }
  for (std::thread& thread : threads) thread.join();
  std::lock_guard<std::mutex> registry(pools().mutex);
  pools().pools.erase(this);
}

}  // namespace dlprim::detail
