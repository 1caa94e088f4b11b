#include "core/build_pool.hpp"

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <limits>
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

BuildPool::BuildPool(int at_once, Prepare prepare, std::chrono::milliseconds patience)
    : most_(std::clamp<size_t>(
          at_once > 0 ? static_cast<size_t>(at_once) : std::thread::hardware_concurrency(), 1, kMostThreads)),
      prepare_(std::move(prepare)),
      patience_(patience) {}

BuildPool::~BuildPool() {
  {
    std::lock_guard<std::mutex> lock(pools().mutex);
    pools().pools.erase(this);
  }
  stop();
}

void BuildPool::enter() {
  watch_the_end();
  std::lock_guard<std::mutex> lock(pools().mutex);
  pools().pools.insert(this);
}

BuildPool::Ticket BuildPool::add(Job job) {
  enter();
  join_ended();
  std::unique_lock<std::mutex> lock(mutex_);
  const Ticket ticket{std::numeric_limits<size_t>::max() - job.length, ++added_};
  if (ending_) {
    lock.unlock();
    job.drop();
    return ticket;
  }
  if (threads_.size() < most_ && jobs_.size() + busy_ >= threads_.size()) start_thread();
  jobs_.emplace(ticket, std::move(job));
  changed_.notify_one();
  return ticket;
}

void BuildPool::warm() noexcept {
  try {
    enter();
    std::lock_guard<std::mutex> lock(mutex_);
    while (!ending_ && threads_.size() < most_) start_thread();
  } catch (const std::exception&) {  // then there are fewer
  }
}

void BuildPool::start_thread() {
  std::thread thread([this] { work(); });
  const std::thread::id id = thread.get_id();
  threads_.emplace(id, std::move(thread));
}

BuildPool::Job BuildPool::take(std::map<Ticket, Job>::iterator place) {
  Job job = std::move(place->second);
  jobs_.erase(place);
  return job;
}

bool BuildPool::idle() {
  std::lock_guard<std::mutex> lock(mutex_);
  return ready_ > busy_ + jobs_.size();
}

void BuildPool::run_here(Ticket ticket) {
  std::unique_lock<std::mutex> lock(mutex_);
  const auto place = jobs_.find(ticket);
  if (place == jobs_.end()) return;
  const Job job = take(place);
  lock.unlock();
  job.run_here();
}

void BuildPool::work() {
  std::unique_lock<std::mutex> lock(mutex_);
  for (bool ready = !prepare_; !ready && !ending_;) {
    lock.unlock();
    ready = prepare_();
    lock.lock();
  }
  ready_++;
  while (!ending_ && changed_.wait_for(lock, patience_, [this] { return ending_ || !jobs_.empty(); }) &&
         !ending_) {
    const Job job = take(jobs_.begin());
    busy_++;
    lock.unlock();
    job.run();
    lock.lock();
    busy_--;
  }
  ready_--;
  const auto self = threads_.find(std::this_thread::get_id());
  ended_.push_back(std::move(self->second));
  threads_.erase(self);
  changed_.notify_all();
}

void BuildPool::join_ended() {
  std::vector<std::thread> ended;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    ended.swap(ended_);
  }
  for (std::thread& thread : ended) thread.join();
}

void BuildPool::drop() noexcept {
  std::map<Ticket, Job> dropped;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    ending_ = true;
    dropped.swap(jobs_);
  }
  changed_.notify_all();
  for (const auto& [ticket, job] : dropped) job.drop();
  {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return threads_.empty(); });
    ending_ = stopped_;
  }
  join_ended();
}

void BuildPool::stop() noexcept {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stopped_ = true;
  }
  drop();
}

}  // namespace dlprim::detail
