// What a recording in progress is told: launches, and the memory that they use.
#pragma once

#include <array>
#include <memory>
#include <mutex>
#include <vector>

#include <dlprim/recording.hpp>
#include <dlprim/tensor.hpp>

#include "core/memory.hpp"
#include "core/program_cache.hpp"

namespace dlprim::detail {

/// Blocks of the pool that belong to a recording. While it is made, they go from one tensor to the next;
/// later they stay as they are. They go back to the pool with the recording.
class RecordedMemory {
 public:
  RecordedMemory(const Context& context, std::shared_ptr<QueueState> queue)
      : context_(context), queue_(std::move(queue)) {}
  ~RecordedMemory();
  RecordedMemory(const RecordedMemory&) = delete;
  RecordedMemory& operator=(const RecordedMemory&) = delete;

  Block* allocate(uint64_t bytes);
  void release(Block* block) noexcept;
  void close() noexcept { open_ = false; }
  uint64_t bytes() const noexcept { return bytes_; }
  const Context& context() const noexcept { return context_; }

 private:
  Context context_;
  std::shared_ptr<QueueState> queue_;
  std::mutex mutex_;
  std::vector<Block*> idle_;
  uint64_t bytes_ = 0;
  bool open_ = true;
};

struct RecordedLaunch {
  cl::Kernel kernel;  ///< with its arguments
  std::shared_ptr<Kernel::Shared> shared;
  cl_uint dimensions = 0;
  std::array<size_t, 3> global{}, local{};
};

struct RecordingState {
  explicit RecordingState(const Stream& stream_);

  Stream stream;
  std::shared_ptr<RecordedMemory> memory;
  std::vector<RecordedLaunch> launches;
  std::vector<std::shared_ptr<Storage>>
      used;  ///< memory that was there before, and what was written from the host

  /// The one that the calling thread makes, of this context, or null.
  static RecordingState* active(const Context& context) noexcept;
  /// The same, if it is of this stream.
  DLPRIM_API static RecordingState* active(const StreamState& stream) noexcept;
  /// The memory stays as long as the recording, unless it is the recording's own.
  void use(const std::shared_ptr<Storage>& storage);
};

/// While it lives, the calling thread is not recording.
class RecordingPause {
 public:
  RecordingPause() noexcept;
  ~RecordingPause();
  RecordingPause(const RecordingPause&) = delete;
  RecordingPause& operator=(const RecordingPause&) = delete;

 private:
  RecordingState* const before_;
};

}  // namespace dlprim::detail
