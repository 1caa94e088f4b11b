#include <dlprim/net_loader.hpp>

#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>

#include "core/check.hpp"

namespace dlprim {

struct BatchLoader::State {
  /// A batch, or why there is none.
  struct Made {
    Batch batch;
    std::exception_ptr error;
  };

  void run() {
    for (int64_t k = 0; k < batches; k++) {
      {
        std::unique_lock<std::mutex> lock(mutex);
        changed.wait(lock, [&] { return stopped || static_cast<int64_t>(made.size()) < ahead; });
        if (stopped) return;
      }
      Made one;
      try {
        one.batch = make(k);
      } catch (...) {
        one.error = std::current_exception();
      }
      const bool failed = one.error != nullptr;
      const std::lock_guard<std::mutex> lock(mutex);
      made.push_back(std::move(one));
      changed.notify_all();
      if (failed) return;
    }
  }

  int64_t batches, ahead, given = 0;
  std::function<Batch(int64_t)> make;
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Made> made;
  bool stopped = false;
  std::thread thread;
};

BatchLoader::BatchLoader(int64_t batches, std::function<Batch(int64_t)> make, int64_t ahead)
    : state_(std::make_unique<State>()) {
  using detail::require;
  require(batches >= 0, "batches", batches, " must not be negative");
  require(ahead >= 1, "ahead", ahead, " must be 1 or more");
  require(static_cast<bool>(make), "make", "is empty");
  state_->batches = batches;
  state_->ahead = ahead;
  state_->make = std::move(make);
  state_->thread = std::thread([state = state_.get()] { state->run(); });
}

BatchLoader::~BatchLoader() {
  {
    const std::lock_guard<std::mutex> lock(state_->mutex);
    state_->stopped = true;
    state_->changed.notify_all();
  }
  state_->thread.join();
}

std::optional<BatchLoader::Batch> BatchLoader::next() {
  State& s = *state_;
  if (s.given == s.batches) return std::nullopt;
  std::unique_lock<std::mutex> lock(s.mutex);
  s.changed.wait(lock, [&] { return !s.made.empty(); });
  State::Made one = std::move(s.made.front());
  s.made.pop_front();
  s.changed.notify_all();
  s.given = one.error ? s.batches : s.given + 1;
  if (one.error) std::rethrow_exception(one.error);
  return std::move(one.batch);
}

}  // namespace dlprim
