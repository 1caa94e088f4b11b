// The pool of device memory, and what tensors share of it.
//
// With DLPRIM_POISON=1 a block is filled with 0x7fff when it is new and whenever it is freed: NaN in every
// floating dtype, a large number in integers. What reads memory that nobody wrote is then wrong on every
// device, also where fresh memory is 0.
#include "core/memory.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <tuple>

#include <dlprim/rehearsal.hpp>

#include "core/check.hpp"
#include "core/memory_plan.hpp"
#include "core/recorder.hpp"
#include "core/rehearsed.hpp"
#include "core/state.hpp"

namespace dlprim::detail {
namespace {

constexpr uint64_t kAlign = kBlockAlign;
constexpr uint64_t kSmall = uint64_t{1} << 20;  // blocks up to here are cut from small segments
constexpr uint64_t kSmallSegment = uint64_t{2} << 20;
constexpr uint64_t kLargeSegment = uint64_t{20} << 20;
constexpr int kCandidates = 32;  // free blocks looked at for one that needs no waiting

uint64_t round_to(uint64_t value, uint64_t unit) {
  return (value + unit - 1) / unit * unit;
}

/// Multiples of 512 bytes up to 1 MiB; above, of a sixteenth of the power of two below the size, so that
/// rounding adds at most a sixteenth.
uint64_t size_class(uint64_t bytes) {
  if (bytes <= kSmall) return std::max(round_to(bytes, kAlign), kAlign);
  uint64_t unit = kSmall / 16;
  while (unit * 32 <= bytes) unit *= 2;
  return round_to(bytes, unit);
}

bool usable_by(const Block& block, const QueueState* queue) {
  return std::all_of(block.pending.begin(), block.pending.end(),
                     [&](const PendingUse& use) { return use.queue.get() == queue || use.done(); });
}

/// Makes `queue` wait for what another one was given.
void wait_for(const PendingUse& use, QueueState& queue) {
  cl_event marker = nullptr;
  cl_check(clEnqueueMarkerWithWaitList(use.queue->queue(), 0, nullptr, &marker),
           "clEnqueueMarkerWithWaitList");
  const cl::Event owner(marker);
  cl_check(clFlush(use.queue->queue()), "clFlush");
  cl_check(clEnqueueBarrierWithWaitList(queue.queue(), 1, &marker, nullptr), "clEnqueueBarrierWithWaitList");
  queue.submitted++;  // whoever gets the block after this queue waits for the barrier
}

bool poison_asked() {
  const char* text = std::getenv("DLPRIM_POISON");
  return text && std::strcmp(text, "1") == 0;
}

void enqueue_poison(const cl::CommandQueue& queue, const Block& block) {
  constexpr cl_ushort kPoison = 0x7fff;
  cl_check(clEnqueueFillBuffer(queue(), block.segment->buffer(), &kPoison, sizeof kPoison, block.offset,
                               block.size / sizeof kPoison * sizeof kPoison, 0, nullptr, nullptr),
           "clEnqueueFillBuffer");
}

/// Memory that no queue uses. It is filled in a queue of its own: nobody has to wait for that later.
void poison_idle(const cl::Context& context, const Block& block) {
  cl_int code = CL_SUCCESS;
  const std::vector<cl::Device> devices = context.getInfo<CL_CONTEXT_DEVICES>(&code);
  cl_check(code, "clGetContextInfo");
  const cl::CommandQueue queue(context, devices.front(), 0, &code);
  cl_check(code, "clCreateCommandQueue");
  enqueue_poison(queue, block);
  cl_check(clFinish(queue()), "clFinish");
}

/// A block that was just freed, in the last of the queues that may still use it: that is one more use of the
/// block by its earlier owner, which others wait for as for those before it.
void poison_freed(const cl::Context& context, Block& block) {
  if (block.pending.empty()) return poison_idle(context, block);
  const PendingUse last = block.pending.back();
  for (const PendingUse& use : block.pending)
    if (use.queue != last.queue) wait_for(use, *last.queue);
  enqueue_poison(last.queue->queue, block);
  cl_check(clFlush(last.queue->queue()), "clFlush");
  block.pending = {{last.queue, ++last.queue->submitted}};
}

}  // namespace

Allocator::Allocator(cl::Context context, uint64_t limit, uint64_t max_allocation, BufferSource source,
                     Log log, std::function<bool()> give_back)
    : context_(std::move(context)),
      max_allocation_(max_allocation),
      source_(std::move(source)),
      log_(std::move(log)),
      give_back_(std::move(give_back)),
      poisons_(poison_asked()) {
  stats_.limit = limit;
}

Allocator::~Allocator() {
  for (auto& [segment, owner] : segments_) {
    try {
      return_buffer(*segment);
    } catch (...) {  // of the user's function, or a queue that failed: nobody is left to be told
    }
    for (Block* block = segment->first; block;) delete std::exchange(block, block->next);
  }
}

Block* Allocator::allocate(uint64_t bytes, const QueueState* queue) {
  std::unique_lock<std::mutex> lock(mutex_);
  if (bytes > max_allocation_)
    throw OutOfMemory(
        cat("asked for ", bytes, " bytes, the device gives at most ", max_allocation_, " in one piece"),
        bytes, stats_.held, stats_.limit);
  const uint64_t size =
      std::min(size_class(bytes), std::max(round_to(max_allocation_, kAlign) - kAlign, bytes));
  Block* block = take(size, queue);
  if (!block) {
    stats_.retries++;
    free_unused_segments();
    block = take(size, queue);
  }
  while (!block) {
    // What goes comes back here, by release().
    lock.unlock();
    const bool given = give_back_ && give_back_();
    lock.lock();
    if (!given) break;
    block = take(size, queue);
    if (block) break;
    free_unused_segments();
    block = take(size, queue);
  }
  if (!block) throw OutOfMemory(bytes, stats_.held, stats_.limit);
  if (block->size - size >= (size <= kSmall ? kAlign : kSmall)) split(block, size);
  block->free = false;
  stats_.allocations++;
  stats_.allocated += block->size;
  stats_.allocated_peak = std::max(stats_.allocated_peak, stats_.allocated);
  return block;
}

/// One of the pool's, or a new one; null if there is no room.
Block* Allocator::take(uint64_t size, const QueueState* queue) {
  const bool small = size <= kSmall;
  FreeList& list = small ? small_ : large_;
  Block* const block = find(list, size, queue);
  if (!block) return grow(size, small);
  list.erase(block);
  return block;
}

Block* Allocator::find(FreeList& list, uint64_t size, const QueueState* queue) {
  Block wanted;
  wanted.size = size;
  auto it = list.lower_bound(&wanted);
  while (it != list.begin() && (*std::prev(it))->size == size) --it;  // equal sizes sort by address
  Block* fallback = nullptr;
  for (int looked = 0; it != list.end() && looked < kCandidates; ++it, ++looked) {
    if (usable_by(**it, queue)) return *it;
    if (!fallback) fallback = *it;
  }
  return fallback;
}

Block* Allocator::grow(uint64_t size, bool small) {
  uint64_t wanted = small ? kSmallSegment : size <= kLargeSegment / 2 ? kLargeSegment : size;
  if (wanted > max_allocation_ || stats_.held + wanted > stats_.limit) wanted = size;
  if (stats_.held + wanted > stats_.limit) return nullptr;
  cl::Buffer buffer = make_buffer(wanted);
  if (buffer() == nullptr) return nullptr;
  if (log_.level() >= 2) log_.line(cat("buffer bytes=", wanted, " held=", stats_.held + wanted));

  auto segment = std::make_unique<Segment>();
  auto block = std::make_unique<Block>();
  segment->buffer = buffer;
  segment->size = wanted;
  segment->small = small;
  segment->first = block.get();
  block->segment = segment.get();
  block->size = wanted;
  if (poisons_) poison_idle(context_, *block);
  Segment* key = segment.get();
  segments_.emplace(key, std::move(segment));
  stats_.held += wanted;
  stats_.held_peak = std::max(stats_.held_peak, stats_.held);
  stats_.device_allocations++;
  return block.release();
}

/// A null one if there is no room.
cl::Buffer Allocator::make_buffer(uint64_t size) const {
  if (!source_.allocate) {
    cl_int code = CL_SUCCESS;
    cl::Buffer buffer(clCreateBuffer(context_(), CL_MEM_READ_WRITE, size, nullptr, &code));
    if (code == CL_MEM_OBJECT_ALLOCATION_FAILURE || code == CL_OUT_OF_RESOURCES ||
        code == CL_OUT_OF_HOST_MEMORY)
      return {};
    cl_check(code, "clCreateBuffer");
    return buffer;
  }
  cl::Buffer buffer = source_.allocate(size);
  if (buffer() == nullptr) return buffer;
  cl_context owner = nullptr;
  size_t bytes = 0;
  cl_check(clGetMemObjectInfo(buffer(), CL_MEM_CONTEXT, sizeof owner, &owner, nullptr), "clGetMemObjectInfo");
  cl_check(clGetMemObjectInfo(buffer(), CL_MEM_SIZE, sizeof bytes, &bytes, nullptr), "clGetMemObjectInfo");
  require(owner == context_(), "ContextConfig::allocate", "gave a buffer of another OpenCL context");
  require(bytes >= size, "ContextConfig::allocate", "gave ", bytes, " bytes, asked for ", size);
  return buffer;
}

/// The driver keeps a buffer until commands on it are done; of the user's function nobody knows.
void Allocator::return_buffer(const Segment& segment) const {
  if (!source_.free) return;
  for (const Block* block = segment.first; block; block = block->next)
    for (const PendingUse& use : block->pending)
      if (!use.done()) cl_check(use.queue->finish(), "clFinish");
  source_.free(segment.buffer);
}

void Allocator::split(Block* block, uint64_t size) {
  auto rest = std::make_unique<Block>(*block);
  rest->offset += size;
  rest->size -= size;
  rest->previous = block;
  if (rest->next) rest->next->previous = rest.get();
  block->next = rest.get();
  block->size = size;
  (block->segment->small ? small_ : large_).insert(rest.release());
}

/// Joins two free neighbours, neither of them in a list; the later one vanishes.
Block* Allocator::merge(Block* block, Block* neighbour) {
  Block* first = block->offset < neighbour->offset ? block : neighbour;
  Block* second = first == block ? neighbour : block;
  for (PendingUse& use : second->pending) {
    auto same = std::find_if(first->pending.begin(), first->pending.end(),
                             [&](const PendingUse& p) { return p.queue == use.queue; });
    if (same == first->pending.end())
      first->pending.push_back(std::move(use));
    else
      same->submitted = std::max(same->submitted, use.submitted);
  }
  first->size += second->size;
  first->next = second->next;
  if (first->next) first->next->previous = first;
  delete second;
  return first;  // NOLINT(clang-analyzer-cplusplus.NewDelete): the two are never one
}

void Allocator::release(Block* block, std::vector<PendingUse> pending) {
  std::lock_guard<std::mutex> lock(mutex_);
  stats_.allocated -= block->size;
  FreeList& list = block->segment->small ? small_ : large_;
  pending.erase(
      std::remove_if(pending.begin(), pending.end(), [](const PendingUse& use) { return use.done(); }),
      pending.end());
  block->pending = std::move(pending);
  block->free = true;
  try {
    if (poisons_) poison_freed(context_, *block);
  } catch (const Error&) {  // of a queue that failed: its user is told by it, and this memory stays as it was
  }
  for (Block* neighbour : {block->previous, block->next}) {
    if (!neighbour || !neighbour->free) continue;
    list.erase(neighbour);
    block = merge(block, neighbour);
  }
  list.insert(block);
}

void Allocator::free_unused_segments() {
  for (auto it = segments_.begin(); it != segments_.end();) {
    Block* block = it->first->first;
    if (!block->free || block->next) {
      ++it;
      continue;
    }
    return_buffer(*it->first);
    (it->first->small ? small_ : large_).erase(block);
    stats_.held -= it->first->size;
    delete block;
    it = segments_.erase(it);
  }
}

void Allocator::empty_cache() {
  std::lock_guard<std::mutex> lock(mutex_);
  free_unused_segments();
}

void Allocator::set_limit(uint64_t bytes) {
  std::lock_guard<std::mutex> lock(mutex_);
  stats_.limit = bytes;
}

MemoryStats Allocator::stats() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return stats_;
}

void Allocator::count_cross_stream_wait() {
  std::lock_guard<std::mutex> lock(mutex_);
  stats_.cross_stream_waits++;
}

Storage::Storage(const Context& owner, uint64_t bytes, const QueueState* queue)
    : context(owner), size(bytes) {
  if (Rehearsal::active()) {
    offset = rehearsed_offset(round_to(std::max<uint64_t>(bytes, 1), kAlign));
    rehearsed_ = RehearsedLifetimes::active();
    if (rehearsed_) place_ = rehearsed_->begin(bytes);
    return;
  }
  if (const RecordingState* recording = RecordingState::active(owner)) {
    recorded_ = recording->memory;
    std::tie(block_, part_) = recording->memory->allocate(bytes);
  } else {
    block_ = owner.state().allocator.allocate(bytes, queue);
  }
  buffer = block_->segment->buffer;
  offset = block_->offset;
}

Storage::Storage(const Context& owner, const cl::Buffer& user_buffer, uint64_t bytes)
    : context(owner), buffer(user_buffer), size(bytes) {}

Storage::~Storage() {
  if (prepared) context.state().constants->end(*prepared);
  if (rehearsed_) rehearsed_->end(place_);
  if (!block_) return;
  if (const auto recorded = recorded_.lock()) {
    recorded->release(block_);
    return;
  }
  for (PendingUse& use : users_) use.submitted = use.queue->submitted.load();
  try {
    if (part_) {
      part_->arena->note(users_);
      return;
    }
    // A block that nobody touched still waits for what its earlier owner left.
    context.state().allocator.release(block_, std::move(users_.empty() ? block_->pending : users_));
  } catch (const std::bad_alloc&) {  // the pool cannot note the block, which stays unused
  }
}

bool Storage::belongs_to(const std::shared_ptr<RecordedMemory>& memory) const noexcept {
  return !recorded_.owner_before(memory) && !memory.owner_before(recorded_);
}

void Storage::touch(const std::shared_ptr<QueueState>& queue) {
  if (!block_ || last_user_.load(std::memory_order_acquire) == queue.get()) return;
  std::lock_guard<std::mutex> lock(mutex_);
  const auto same = [&](const PendingUse& use) { return use.queue == queue; };
  if (std::none_of(users_.begin(), users_.end(), same)) {
    users_.reserve(users_.size() + 1);
    for (const PendingUse& use : block_->pending) {
      if (use.queue == queue || use.done()) continue;
      wait_for(use, *queue);
      context.state().allocator.count_cross_stream_wait();
    }
    users_.push_back({queue, 0});
  }
  last_user_.store(queue.get(), std::memory_order_release);
}

}  // namespace dlprim::detail
