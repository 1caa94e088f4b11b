// Allocator: a context's pool of device memory. It hands out (buffer, offset) blocks cut from larger OpenCL
// buffers ("segments") and takes them back without asking the driver.
//
// A block that was freed may still be read or written by work that a stream has not finished. The same stream
// may have it again at once, since its work is in order. Another stream that gets it waits, on the device,
// for a marker put on the first stream: that is arranged at the block's first use (Storage::touch), so
// programs with one stream pay nothing.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include <dlprim/context.hpp>
#include <dlprim/opencl.hpp>

#include "core/log.hpp"

namespace dlprim::detail {

/// The part of a stream that blocks remember. `submitted` counts commands given to the queue, `drained` those
/// known to be done.
struct QueueState {
  cl::CommandQueue queue;
  std::atomic<uint64_t> submitted{0};
  std::atomic<uint64_t> drained{0};
  bool waits_for_flushed = true;  ///< see DriverLimits

  /// Blocks until what has been submitted is done. Returns clFinish's code.
  cl_int finish() noexcept;
  /// What had been submitted when `submitted` was `before` is done.
  void done(uint64_t before) noexcept;
};

/// Work that may still use a freed block.
struct PendingUse {
  std::shared_ptr<QueueState> queue;
  uint64_t submitted = 0;
  bool done() const { return queue->drained.load() >= submitted; }
};

/// What blocks and their parts begin at multiples of; covers any device's base address alignment.
constexpr uint64_t kBlockAlign = 512;

struct Segment;

struct Block {
  Segment* segment = nullptr;
  uint64_t offset = 0, size = 0;
  bool free = true;
  Block *previous = nullptr, *next = nullptr;  ///< neighbours in the segment
  std::vector<PendingUse> pending;
};

struct Segment {
  cl::Buffer buffer;
  uint64_t size = 0;
  bool small = false;
  Block* first = nullptr;
};

/// Where a pool's buffers come from and go to, as ContextConfig has it; empty: the driver.
struct BufferSource {
  std::function<cl::Buffer(uint64_t bytes)> allocate;
  std::function<void(const cl::Buffer&)> free;
};

class Allocator {
 public:
  /// `give_back`: makes something that is kept for later give its memory back to the pool; false once there
  /// is nothing more.
  Allocator(cl::Context context, uint64_t limit, uint64_t max_allocation, BufferSource source, Log log,
            std::function<bool()> give_back);
  ~Allocator();
  Allocator(const Allocator&) = delete;
  Allocator& operator=(const Allocator&) = delete;

  /// A block of at least `bytes`, preferably one that `queue` (may be null) can use without waiting.
  /// Throws OutOfMemory, once an emptied cache and all that could be given back were not enough.
  Block* allocate(uint64_t bytes, const QueueState* queue);
  void release(Block* block, std::vector<PendingUse> pending);
  void empty_cache();
  void set_limit(uint64_t bytes);
  MemoryStats stats() const;
  void count_cross_stream_wait();

 private:
  struct BySize {
    bool operator()(const Block* a, const Block* b) const {
      return a->size != b->size ? a->size < b->size : a < b;
    }
  };
  using FreeList = std::set<Block*, BySize>;

  Block* take(uint64_t size, const QueueState* queue);
  Block* find(FreeList& list, uint64_t size, const QueueState* queue);
  Block* grow(uint64_t size, bool small);
  cl::Buffer make_buffer(uint64_t size) const;
  void return_buffer(const Segment& segment) const;
  void split(Block* block, uint64_t size);
  Block* merge(Block* block, Block* neighbour);
  void free_unused_segments();

  mutable std::mutex mutex_;
  cl::Context context_;
  uint64_t max_allocation_;
  BufferSource source_;
  Log log_;
  std::function<bool()> give_back_;
  const bool poisons_;
  std::map<Segment*, std::unique_ptr<Segment>> segments_;
  FreeList small_, large_;
  MemoryStats stats_;
};

class RecordedMemory;
class LifetimeLog;
struct ArenaPart;
struct PreparedConstants;

/// What tensors share: a block of the pool, or of a recording, or a buffer of the user's. What is made in a
/// rehearsal has no buffer.
struct Storage {
  Storage(const Context& context, uint64_t bytes, const QueueState* queue);
  Storage(const Context& context, const cl::Buffer& buffer, uint64_t bytes);
  ~Storage();
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  /// Notes that a command about to be put on `queue` uses this memory, and makes the queue wait for what an
  /// earlier owner of the block may still be doing on other queues.
  void touch(const std::shared_ptr<QueueState>& queue);
  /// Whether the block is one of that recording's.
  bool belongs_to(const std::shared_ptr<RecordedMemory>& memory) const noexcept;

  Context context;
  cl::Buffer buffer;
  uint64_t offset = 0;  ///< bytes, from the buffer's start; in a rehearsal no two tensors lie at one place
  uint64_t size = 0;    ///< bytes
  std::unique_ptr<PreparedConstants> prepared;  ///< of a weight: see constants.hpp, whose store has the lock

 private:
  Block* block_ = nullptr;
  std::weak_ptr<RecordedMemory> recorded_;  ///< where the block comes from, and goes back to
  std::shared_ptr<ArenaPart> part_;         ///< the block, if it is a part of an arena
  std::shared_ptr<LifetimeLog> rehearsed_;  ///< where its end is put down, if it has no buffer
  size_t place_ = 0;                        ///< in that
  std::atomic<const QueueState*> last_user_{nullptr};
  std::mutex mutex_;
  std::vector<PendingUse> users_;  ///< their `submitted` is set when the memory goes back
};

}  // namespace dlprim::detail
