// Recordings: made by a thread's flag that launches and tensors look at; replayed as an array.
#include <dlprim/recording.hpp>

#include <algorithm>

#include <dlprim/rehearsal.hpp>

#include "core/check.hpp"
#include "core/launch.hpp"
#include "core/recorder.hpp"
#include "core/state.hpp"

namespace dlprim {
namespace detail {
namespace {

thread_local RecordingState* in_progress = nullptr;

/// Sets the flag for its life.
class InProgress {
 public:
  explicit InProgress(RecordingState& state) { in_progress = &state; }
  ~InProgress() { in_progress = nullptr; }
  InProgress(const InProgress&) = delete;
  InProgress& operator=(const InProgress&) = delete;
};

}  // namespace

Block* RecordedMemory::allocate(uint64_t bytes) {
  // A block serves tensors of a quarter of its size and more, so that a large one does not go for a small
  // one.
  const uint64_t most = 4 * std::max<uint64_t>(bytes, 512);
  std::lock_guard<std::mutex> lock(mutex_);
  auto best = idle_.end();
  for (auto it = idle_.begin(); it != idle_.end(); ++it)
    if ((*it)->size >= bytes && (*it)->size <= most && (best == idle_.end() || (*it)->size < (*best)->size))
      best = it;
  if (best != idle_.end()) {
    Block* const block = *best;
    idle_.erase(best);
    return block;
  }
  idle_.reserve(idle_.size() + 1);
  Block* const block = context_.state().allocator.allocate(bytes, queue_.get());
  bytes_ += block->size;
  return block;
}

void RecordedMemory::release(Block* block) noexcept {
  std::lock_guard<std::mutex> lock(mutex_);
  try {
    idle_.push_back(block);
  } catch (...) {  // no room to note it: the block stays unused
  }
}

RecordedMemory::~RecordedMemory() {
  for (Block* block : idle_) {
    try {
      context_.state().allocator.release(block, {{queue_, queue_->submitted.load()}});
    } catch (...) {  // as above
    }
  }
}

RecordingState::RecordingState(const Stream& stream_)
    : stream(stream_), memory(std::make_shared<RecordedMemory>(stream_.context(), stream_.state().queue)) {}

RecordingState* RecordingState::active(const Context& context) noexcept {
  return in_progress && in_progress->stream.context() == context ? in_progress : nullptr;
}

RecordingState* RecordingState::active(const StreamState& stream) noexcept {
  return in_progress && in_progress->stream.state().queue == stream.queue ? in_progress : nullptr;
}

void RecordingState::use(const std::shared_ptr<Storage>& storage) {
  if (storage->belongs_to(memory)) return;
  if (std::find(used.begin(), used.end(), storage) == used.end()) used.push_back(storage);
}

RecordingPause::RecordingPause() noexcept : before_(in_progress) {
  in_progress = nullptr;
}
RecordingPause::~RecordingPause() {
  in_progress = before_;
}

}  // namespace detail

Recording::Recording(const Stream& stream, const std::function<void()>& work) {
  detail::require(!active(), "work", "is recorded in a recording");
  detail::require(!Rehearsal::active(), "work", "is recorded in a rehearsal, where nothing is computed");
  const auto state = std::make_shared<detail::RecordingState>(stream);
  {
    const detail::InProgress flag(*state);
    work();
  }
  state->memory->close();
  state_ = state;
}

void Recording::replay() const {
  detail::require(state_ != nullptr, "recording", "is empty");
  detail::require(!active(), "recording", "is replayed in a recording");
  detail::StreamState& stream = state_->stream.state();
  for (const auto& storage : state_->used) storage->touch(stream.queue);
  if (stream.profiled) stream.records.push_back({"op=replay", 0, 0, {}});
  for (const detail::RecordedLaunch& launch : state_->launches) {
    cl_event event = nullptr;
    detail::enqueue_command(state_->stream.context(), "clEnqueueNDRangeKernel", launch.shared->name, [&] {
      return clEnqueueNDRangeKernel(stream.queue->queue(), launch.kernel(), launch.dimensions, nullptr,
                                    launch.global.data(), launch.local.data(), 0, nullptr,
                                    stream.profiled ? &event : nullptr);
    });
    stream.queue->submitted++;
    if (stream.profiled) stream.records.back().kernels.emplace_back(launch.shared->name, cl::Event(event));
  }
}

int64_t Recording::launches() const noexcept {
  return state_ ? static_cast<int64_t>(state_->launches.size()) : 0;
}

uint64_t Recording::bytes() const noexcept {
  return state_ ? state_->memory->bytes() : 0;
}

bool Recording::active() noexcept {
  return detail::in_progress != nullptr;
}

}  // namespace dlprim
