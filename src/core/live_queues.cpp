#include "core/live_queues.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <thread>
#include <vector>

#include "core/memory.hpp"

namespace dlprim::detail {
namespace {

/// Never destroyed: streams may be static.
struct LiveQueues {
  std::mutex mutex;
  std::vector<std::weak_ptr<QueueState>> queues;
  const pid_t process = getpid();
};
LiveQueues& live() {
  static LiveQueues* all = new LiveQueues;
  return *all;
}

/// The thread that loads the library, which in most programs is the one that ends the process.
const std::thread::id first_thread = std::this_thread::get_id();

void finish_all() noexcept {
  if (live().process != getpid()) return;  // drivers' threads do not live in a forked process
  std::vector<std::weak_ptr<QueueState>> queues;
  {
    const std::lock_guard<std::mutex> lock(live().mutex);
    queues.swap(live().queues);
  }
  for (const auto& weak : queues)
    if (const auto queue = weak.lock()) queue->finish();
}

}  // namespace

void finish_at_the_end(const std::shared_ptr<QueueState>& queue) {
  {
    const std::lock_guard<std::mutex> lock(live().mutex);
    auto& queues = live().queues;
    queues.erase(std::remove_if(queues.begin(), queues.end(), [](const auto& q) { return q.expired(); }),
                 queues.end());
    queues.push_back(queue);
  }
  // exit() ends the calling thread's own objects before any handler runs.
  thread_local const struct End {
    ~End() {
      if (std::this_thread::get_id() == first_thread) finish_all();
    }
  } end;
  static const int handler = std::atexit(finish_all);
  static_cast<void>(handler);
}

void first_commands_done() {
  static const int handler = std::atexit(finish_all);
  static_cast<void>(handler);
}

}  // namespace dlprim::detail
