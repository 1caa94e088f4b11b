// What a recording in progress is told: launches, and the memory that they use.
#pragma once

#include <array>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include <dlprim/recording.hpp>
#include <dlprim/tensor.hpp>

#include "core/launch.hpp"
#include "core/memory.hpp"
#include "core/memory_plan.hpp"
#include "core/program_cache.hpp"

namespace dlprim::detail {

/// One block of the pool, whose parts tensors have. It goes back with the last of them and of its recordings.
struct Arena {
  Arena(Context context_, std::shared_ptr<QueueState> queue_, uint64_t bytes);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  bool holds(const Block& part) const noexcept;
  /// Who else used a part of it.
  void note(const std::vector<PendingUse>& uses);

  Context context;
  std::shared_ptr<QueueState> queue;
  Block* block;

 private:
  std::mutex mutex_;
  std::vector<PendingUse> users_;
};

struct ArenaPart {
  Block block;
  std::shared_ptr<Arena> arena;
};

/// Memory that the recordings of one model share: what one replay leaves in it, the next may overwrite, if
/// they are on one stream. It lives as long as a recording uses it.
class DLPRIM_API ReplayMemory {
 public:
  /// An arena of at least `bytes`. Recordings that ask for more and more get few of them: a new one is at
  /// least half as long again as those before.
  std::shared_ptr<Arena> arena(const Context& context, const std::shared_ptr<QueueState>& queue,
                               uint64_t bytes);
  /// The same for what is written before a replay: at least so many bytes, row-major.
  std::shared_ptr<const Tensor> inputs(const Stream& stream, uint64_t bytes);

 private:
  struct Inputs {
    std::weak_ptr<const Tensor> tensor;
    std::shared_ptr<QueueState> queue;
  };
  std::vector<std::weak_ptr<Arena>> arenas_;
  std::vector<Inputs> inputs_;
};

/// Memory of the pool that belongs to a recording, and goes back to the pool with it. Without a plan blocks
/// go from one tensor to the next while it is made; with one, tensors are parts of one block. Later they stay
/// as they are.
class RecordedMemory {
 public:
  /// `lifetimes`: of the tensors that a rehearsal of the same work had, in their order. `shared`: where the
  /// arena comes from; null: it is the recording's own.
  RecordedMemory(const Context& context, std::shared_ptr<QueueState> queue,
                 std::vector<Lifetime> lifetimes = {}, ReplayMemory* shared = nullptr);
  ~RecordedMemory();
  RecordedMemory(const RecordedMemory&) = delete;
  RecordedMemory& operator=(const RecordedMemory&) = delete;

  /// The arena that the block is a part of, if it is.
  std::pair<Block*, std::shared_ptr<ArenaPart>> allocate(uint64_t bytes);
  void release(Block* block) noexcept;
  void close() noexcept {
    log_.close();
    shared_ = nullptr;
  }
  /// With the arena, which others may share.
  uint64_t bytes() const noexcept { return bytes_; }
  const std::shared_ptr<Arena>& arena() const noexcept { return arena_; }
  /// Of all tensors that were made, in their order.
  std::vector<Lifetime> lifetimes() const { return log_.list(); }
  const Context& context() const noexcept { return context_; }

 private:
  Block* reused(uint64_t bytes);
  std::shared_ptr<ArenaPart> planned(size_t tensor, uint64_t bytes);

  Context context_;
  std::shared_ptr<QueueState> queue_;
  std::mutex mutex_;
  std::vector<Block*> idle_;
  uint64_t bytes_ = 0;
  LifetimeLog log_;
  std::unordered_map<const Block*, size_t> living_;  ///< their places in the log
  const std::vector<Lifetime> expected_;
  const MemoryPlan plan_;
  ReplayMemory* shared_;  ///< null once it is recorded
  std::shared_ptr<Arena> arena_;
};

struct RecordedLaunch {
  cl::Kernel kernel;  ///< with its arguments
  std::shared_ptr<Kernel::Shared> shared;
  cl_uint dimensions = 0;
  std::array<size_t, 3> global{}, local{};
  std::optional<OffsetArgument> continues;
};

struct RecordingState {
  explicit RecordingState(const Stream& stream_, std::vector<Lifetime> lifetimes = {},
                          ReplayMemory* shared = nullptr);

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
class DLPRIM_API RecordingPause {
 public:
  RecordingPause() noexcept;
  ~RecordingPause();
  RecordingPause(const RecordingPause&) = delete;
  RecordingPause& operator=(const RecordingPause&) = delete;

 private:
  RecordingState* const before_;
};

}  // namespace dlprim::detail
