// Recordings: made by a thread's flag that launches and tensors look at; replayed as an array.
#include <dlprim/recording.hpp>

#include <algorithm>

#include <dlprim/rehearsal.hpp>

#include "core/check.hpp"
#include "core/launch.hpp"
#include "core/recorder.hpp"
#include "core/rehearsed.hpp"
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

Arena::Arena(Context context_, std::shared_ptr<QueueState> queue_, uint64_t bytes)
    : context(std::move(context_)), queue(std::move(queue_)) {
  Allocator& allocator = context.state().allocator;
  allocator.empty_cache();  // what recordings before this one had would stay beside it
  block = allocator.allocate(bytes, queue.get());
}

Arena::~Arena() {
  try {
    users_.push_back({queue, queue->submitted.load()});
    context.state().allocator.release(block, std::move(users_));
  } catch (...) {  // no room to note it: the block stays unused
  }
}

bool Arena::holds(const Block& part) const noexcept {
  return part.segment == block->segment && part.offset >= block->offset &&
         part.offset < block->offset + block->size;
}

void Arena::note(const std::vector<PendingUse>& uses) {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const PendingUse& use : uses) {
    const auto same = std::find_if(users_.begin(), users_.end(),
                                   [&](const PendingUse& other) { return other.queue == use.queue; });
    if (same == users_.end())
      users_.push_back(use);
    else
      same->submitted = std::max(same->submitted, use.submitted);
  }
}

namespace {

/// Makes a new piece of `bytes`, or half as long again as the longest before, if there is room.
template <class Make>
auto grown(uint64_t bytes, uint64_t longest, const Context& context, const Make& make) {
  const uint64_t longer = std::min(longest + longest / 2, context.device().facts().max_allocation);
  if (longer > bytes) {
    try {
      return make(longer);
    } catch (const OutOfMemory&) {  // what is needed may fit
    }
  }
  return make(bytes);
}

}  // namespace

std::shared_ptr<Arena> ReplayMemory::arena(const Context& context, const std::shared_ptr<QueueState>& queue,
                                           uint64_t bytes) {
  uint64_t longest = 0;
  std::shared_ptr<Arena> best;
  for (size_t i = arenas_.size(); i-- > 0;) {
    const std::shared_ptr<Arena> arena = arenas_[i].lock();
    if (!arena) {
      arenas_.erase(arenas_.begin() + static_cast<std::ptrdiff_t>(i));
      continue;
    }
    if (arena->queue != queue || !(arena->context == context)) continue;
    longest = std::max(longest, arena->block->size);
    if (arena->block->size >= bytes && (!best || arena->block->size > best->block->size)) best = arena;
  }
  if (best) return best;
  best = grown(bytes, longest, context,
               [&](uint64_t size) { return std::make_shared<Arena>(context, queue, size); });
  arenas_.push_back(best);
  return best;
}

std::shared_ptr<const Tensor> ReplayMemory::inputs(const Stream& stream, uint64_t bytes) {
  uint64_t longest = 0;
  std::shared_ptr<const Tensor> best;
  for (size_t i = inputs_.size(); i-- > 0;) {
    const std::shared_ptr<const Tensor> tensor = inputs_[i].tensor.lock();
    if (!tensor) {
      inputs_.erase(inputs_.begin() + static_cast<std::ptrdiff_t>(i));
      continue;
    }
    if (inputs_[i].queue != stream.state().queue) continue;
    const auto size = static_cast<uint64_t>(tensor->bytes());
    longest = std::max(longest, size);
    if (size >= bytes && (!best || tensor->bytes() > best->bytes())) best = tensor;
  }
  if (best) return best;
  best = grown(bytes, longest, stream.context(), [&](uint64_t size) {
    return std::make_shared<const Tensor>(stream, Shape{static_cast<int64_t>(size)}, DType::u8);
  });
  inputs_.push_back({best, stream.state().queue});
  return best;
}

RecordedMemory::RecordedMemory(const Context& context, std::shared_ptr<QueueState> queue,
                               std::vector<Lifetime> lifetimes, ReplayMemory* shared)
    : context_(context),
      queue_(std::move(queue)),
      expected_(std::move(lifetimes)),
      plan_(plan_memory(expected_, kBlockAlign)),
      shared_(shared) {}

/// A block serves tensors of a quarter of its size and more, so that a large one does not go for a small one.
Block* RecordedMemory::reused(uint64_t bytes) {
  const uint64_t most = 4 * std::max<uint64_t>(bytes, kBlockAlign);
  auto best = idle_.end();
  for (auto it = idle_.begin(); it != idle_.end(); ++it)
    if ((*it)->size >= bytes && (*it)->size <= most && (best == idle_.end() || (*it)->size < (*best)->size))
      best = it;
  if (best == idle_.end()) return nullptr;
  Block* const block = *best;
  idle_.erase(best);
  return block;
}

/// Null if the work is not the one that the plan is for, so that another tensor lies in this one's place.
std::shared_ptr<ArenaPart> RecordedMemory::planned(size_t tensor, uint64_t bytes) {
  if (tensor >= expected_.size() || expected_[tensor].bytes != bytes) return nullptr;
  if (plan_.bytes > context_.device().facts().max_allocation) return nullptr;
  if (!arena_) {
    arena_ = shared_ ? shared_->arena(context_, queue_, plan_.bytes)
                     : std::make_shared<Arena>(context_, queue_, plan_.bytes);
    bytes_ += arena_->block->size;
  }
  const uint64_t begin = arena_->block->offset + plan_.offsets[tensor], end = begin + bytes;
  for (const auto& [other, place] : living_)
    if (other->segment == arena_->block->segment && begin < other->offset + other->size &&
        other->offset < end)
      return nullptr;
  auto part = std::make_shared<ArenaPart>();
  part->arena = arena_;
  part->block.segment = arena_->block->segment;
  part->block.offset = begin;
  part->block.size = bytes;
  part->block.pending = arena_->block->pending;
  return part;
}

std::pair<Block*, std::shared_ptr<ArenaPart>> RecordedMemory::allocate(uint64_t bytes) {
  std::lock_guard<std::mutex> lock(mutex_);
  const size_t tensor = log_.begin(bytes);
  if (std::shared_ptr<ArenaPart> part = planned(tensor, bytes)) {
    living_.emplace(&part->block, tensor);
    return {&part->block, part};
  }
  Block* block = reused(bytes);
  if (!block) {
    idle_.reserve(idle_.size() + 1);
    block = context_.state().allocator.allocate(bytes, queue_.get());
    bytes_ += block->size;
  }
  living_[block] = tensor;
  return {block, nullptr};
}

void RecordedMemory::release(Block* block) noexcept {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto life = living_.find(block);
  if (life != living_.end()) {
    log_.end(life->second);
    living_.erase(life);
  }
  if (arena_ && arena_->holds(*block)) return;
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

RecordingState::RecordingState(const Stream& stream_, std::vector<Lifetime> lifetimes, ReplayMemory* shared)
    : stream(stream_),
      memory(std::make_shared<RecordedMemory>(stream_.context(), stream_.state().queue, std::move(lifetimes),
                                              shared)) {}

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

namespace {

void require_plain_calls() {
  detail::require(!Recording::active(), "work", "is recorded in a recording");
  detail::require(!Rehearsal::active(), "work", "is recorded in a rehearsal, where nothing is computed");
}

std::shared_ptr<detail::RecordingState> record(const Stream& stream, const std::function<void()>& work,
                                               std::vector<detail::Lifetime> lifetimes = {},
                                               detail::ReplayMemory* shared = nullptr) {
  require_plain_calls();
  auto state = std::make_shared<detail::RecordingState>(stream, std::move(lifetimes), shared);
  {
    const detail::InProgress flag(*state);
    work();
  }
  state->memory->close();
  return state;
}

}  // namespace

Recording::Recording(const Stream& stream, const std::function<void()>& work)
    : state_(record(stream, work)) {}

Recording Recording::packed(const Stream& stream, const std::function<void()>& work,
                            detail::ReplayMemory* shared) {
  require_plain_calls();
  std::vector<detail::Lifetime> lifetimes;
  {
    const Rehearsal rehearsal;
    const detail::RehearsedLifetimes tensors;
    work();
    lifetimes = tensors.list();
  }
  Recording made;
  made.state_ = record(stream, work, std::move(lifetimes), shared);
  return made;
}

void Recording::replay(uint64_t drawn) const {
  detail::require(state_ != nullptr, "recording", "is empty");
  // Kernels know from the recording whether words begin a block.
  detail::require(drawn % 4 == 0, "drawn", drawn, " is no multiple of 4");
  detail::require(!active(), "recording", "is replayed in a recording");
  detail::StreamState& stream = state_->stream.state();
  for (const auto& storage : state_->used) storage->touch(stream.queue);
  if (stream.profiled) stream.records.push_back({"op=replay", 0, 0, {}});
  for (const detail::RecordedLaunch& launch : state_->launches) {
    if (launch.continues) {
      const uint64_t offset = launch.continues->offset + drawn;
      detail::cl_check(clSetKernelArg(launch.kernel(), launch.continues->index, sizeof offset, &offset),
                       "clSetKernelArg");
    }
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

uint64_t Recording::own_bytes() const noexcept {
  const auto* const arena = static_cast<const detail::Arena*>(memory());
  return bytes() - (arena ? arena->block->size : 0);
}

const void* Recording::memory() const noexcept {
  return state_ ? state_->memory->arena().get() : nullptr;
}

uint64_t Recording::live_bytes() const {
  return state_ ? detail::largest_live_set(state_->memory->lifetimes(), detail::kBlockAlign) : 0;
}

bool Recording::active() noexcept {
  return detail::in_progress != nullptr;
}

}  // namespace dlprim
