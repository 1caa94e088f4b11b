// Addresses, blocks, and the allocators that PyTorch asks.
#include "memory.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <fstream>
#include <limits>
#include <string>

#include <c10/core/Allocator.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <dlprim/copy.hpp>

namespace ocl {

namespace {

constexpr size_t kLargestRange = size_t{1} << 42, kSmallestRange = size_t{1} << 32;

/// Addresses go to whoever asks for as many: an eighth of a power of two apart, at least 512 bytes.
size_t size_class(size_t bytes) {
  const size_t step = std::max<size_t>(512, std::bit_floor(std::max<size_t>(bytes, 1)) / 8);
  return (bytes + step - 1) / step * step + (bytes == 0 ? step : 0);
}

/// Bytes that the host can still give; as many as there can be where nobody says.
size_t available_on_host() {
  std::ifstream file("/proc/meminfo");
  std::string name, unit;
  for (size_t kib = 0; file >> name >> kib; std::getline(file, unit))
    if (name == "MemAvailable:") return kib * 1024;
  return std::numeric_limits<size_t>::max();
}

void tell_profiler(const Block& block, int64_t change, int64_t allocated) {
  if (!c10::memoryProfilingEnabled()) return;
  const auto held = static_cast<size_t>(block.device->context.memory_stats().held);
  c10::reportMemoryUsageToProfiler(reinterpret_cast<void*>(block.address), change,
                                   static_cast<size_t>(allocated), held,
                                   c10::Device(kOcl, block.device->index));
}

}  // namespace

Memory::Memory(Device& device) : device_(device) {
  for (size_t bytes = kLargestRange; bytes >= kSmallestRange && base_ == 0; bytes /= 2) {
    void* range = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (range == MAP_FAILED) continue;
    base_ = next_ = reinterpret_cast<uintptr_t>(range);
    end_ = base_ + bytes;
  }
  TORCH_CHECK(base_ != 0, "no addresses can be reserved for ocl:", int{device.index}, ": ",
              std::strerror(errno), " (is the address space limited, as by ulimit -v?)");
}

uintptr_t Memory::take_address(size_t bytes) {
  const size_t size = size_class(bytes);
  std::vector<uintptr_t>& free = free_[size];
  if (!free.empty()) {
    const uintptr_t address = free.back();
    free.pop_back();
    return address;
  }
  TORCH_CHECK_WITH(OutOfMemoryError, size <= end_ - next_, "ocl:", int{device_.index}, " has no ", size,
                   " addresses left of the ", end_ - base_, " that are reserved");
  return std::exchange(next_, next_ + size);
}

c10::DataPtr Memory::hold(std::unique_ptr<Block> block) {
  const auto size = static_cast<int64_t>(block->bytes);
  int64_t allocated;
  {
    const std::lock_guard lock(mutex_);
    block->address = take_address(block->bytes);
    live_.emplace(block->address, block.get());
    if (!block->foreign) {
      usage_.allocated += size, usage_.total += size;
      usage_.peak = std::max(usage_.peak, usage_.allocated);
      usage_.blocks++, usage_.total_blocks++;
      usage_.peak_blocks = std::max(usage_.peak_blocks, usage_.blocks);
    }
    allocated = usage_.allocated;
  }
  if (!block->foreign) tell_profiler(*block, size, allocated);
  void* address = reinterpret_cast<void*>(block->address);
  return {address, block.release(), &Memory::release, c10::Device(kOcl, device_.index)};
}

c10::DataPtr Memory::adopt(const dlprim::Tensor& bytes, size_t size, std::shared_ptr<void> owner) {
  return hold(std::make_unique<Block>(Block{&device_, 0, size, bytes, true, std::move(owner)}));
}

c10::DataPtr Memory::allocate(size_t bytes) {
  if (bytes == 0) return {nullptr, nullptr, &Memory::release, c10::Device(kOcl, device_.index)};
  // Whole 16-byte words: a view of any dtype divides them.
  const dlprim::Shape shape{static_cast<int64_t>((bytes + 15) / 16 * 16)};
  Queue& queue = device_.queue(current_stream(device_.index));
  try {
    return hold(std::make_unique<Block>(Block{&device_, 0, bytes, queue.use([&](const dlprim::Stream& s) {
                                                return dlprim::Tensor(s, shape, dlprim::DType::u8);
                                              })}));
  } catch (const dlprim::OutOfMemory& e) {
    const std::lock_guard lock(mutex_);
    usage_.failures++;
    TORCH_CHECK_WITH(OutOfMemoryError, false, "ocl:", int{device_.index}, " (",
                     device_.context.device().name(), ") cannot allocate ", bytes, " bytes: ", e.what(),
                     "; tensors hold ", usage_.allocated, " bytes");
  }
}

void Memory::release(void* context) {
  if (!context) return;
  auto* block = static_cast<Block*>(context);
  // In a forked child the pool's locks may be held by threads that are gone: the memory is the parent's.
  if (in_bad_fork()) return;
  Memory& self = *block->device->memory;
  if (block->owner) {
    try {
      block->device->finish();
    } catch (const std::exception& e) {
      TORCH_WARN("before memory of another library is given back: ", e.what());
    }
  }
  const auto size = static_cast<int64_t>(block->bytes);
  int64_t allocated;
  {
    const std::lock_guard lock(self.mutex_);
    self.live_.erase(block->address);
    self.free_[size_class(block->bytes)].push_back(block->address);
    if (!block->foreign) self.usage_.allocated -= size, self.usage_.blocks--;
    allocated = self.usage_.allocated;
  }
  if (!block->foreign) tell_profiler(*block, -size, allocated);
  delete block;
}

Block* Memory::find(const void* address) {
  const std::lock_guard lock(mutex_);
  const auto found = live_.find(reinterpret_cast<uintptr_t>(address));
  return found == live_.end() ? nullptr : found->second;
}

Block* Memory::find_around(const void* address) {
  const auto at = reinterpret_cast<uintptr_t>(address);
  const std::lock_guard lock(mutex_);
  for (const auto& [begin, block] : live_)
    if (at >= begin && at < begin + block->bytes) return block;
  return nullptr;
}

const Block& Memory::nothing() {
  const std::lock_guard lock(mutex_);
  if (!nothing_)
    nothing_ = std::make_unique<Block>(
        Block{&device_, 0, 0, dlprim::Tensor(device_.context, {16}, dlprim::DType::u8)});
  return *nothing_;
}

Block* Memory::held_by(const c10::DataPtr& data) noexcept {
  return data.get_deleter() == &Memory::release ? static_cast<Block*>(data.get_context()) : nullptr;
}

bool Memory::contains(const void* address) const noexcept {
  const auto at = reinterpret_cast<uintptr_t>(address);
  return at >= base_ && at < end_;
}

Usage Memory::usage() {
  const std::lock_guard lock(mutex_);
  return usage_;
}

void Memory::reset_total() {
  const std::lock_guard lock(mutex_);
  usage_.total = usage_.total_blocks = usage_.failures = 0;
}

void Memory::reset_peak() {
  const std::lock_guard lock(mutex_);
  usage_.peak = usage_.allocated, usage_.peak_blocks = usage_.blocks;
}

Place place_of(const c10::Storage& storage) {
  const c10::DataPtr& data = storage.data_ptr();
  TORCH_CHECK(data.device().type() == kOcl,
              "Expected all tensors to be on the same device, but found at least two devices, ocl and ",
              data.device(), "!");
  const auto begin = reinterpret_cast<uintptr_t>(data.get());
  if (const Block* block = Memory::held_by(data))
    return {*block, static_cast<int64_t>(begin - block->address)};
  Memory& memory = *device(data.device().index()).memory;
  if (begin == 0) return {memory.nothing(), 0};
  const Block* block = memory.find_around(data.get());
  TORCH_CHECK(block, "a storage on ", data.device(), " is not in the memory of that device");
  return {*block, static_cast<int64_t>(begin - block->address)};
}

Device* device_of_address(const void* address) noexcept {
  if (in_bad_fork()) return nullptr;
  for (c10::DeviceIndex i = 0; i < kMaxDevices; i++)
    if (is_made(i) && device(i).memory->contains(address)) return &device(i);
  return nullptr;
}

void resize_storage(c10::StorageImpl& storage, size_t bytes) {
  TORCH_CHECK(storage.resizable(), "this storage cannot be resized");
  Device& on = device(storage.device().index());
  c10::DataPtr data = on.memory->allocate(bytes);
  const auto kept = static_cast<int64_t>(std::min(bytes, storage.nbytes()));
  if (kept > 0) {
    const Block* held = Memory::held_by(storage.data_ptr());
    TORCH_CHECK(held, "this storage does not own its memory and cannot be resized");
    const Block &from = *held, &to = *Memory::held_by(data);
    submit(on, [&](const dlprim::Stream& stream) {
      dlprim::copy(stream, from.memory.slice(0, 0, kept), to.memory.slice(0, 0, kept));
    });
  }
  storage.set_data_ptr_noswap(std::move(data));
  storage.set_nbytes(bytes);
}

namespace {

struct DeviceAllocator final : c10::DeviceAllocator {
  c10::DataPtr allocate(size_t bytes) override { return device(-1).memory->allocate(bytes); }

  void copy_data(void* to, const void* from, size_t bytes) const override {
    if (bytes == 0) return;
    Device* on = device_of_address(to);
    Block* y = on ? on->memory->find(to) : nullptr;
    Block* x = on ? on->memory->find(from) : nullptr;
    TORCH_CHECK(x && y, "copy_data: both addresses must be the beginnings of storages on one OpenCL device");
    const auto count = static_cast<int64_t>(bytes);
    submit(*on, [&](const dlprim::Stream& stream) {
      dlprim::copy(stream, x->memory.slice(0, 0, count), y->memory.slice(0, 0, count));
    });
  }

  bool initialized() override { return device_count() > 0; }

  void emptyCache(c10::MempoolId_t) override {
    for (c10::DeviceIndex i = 0; i < kMaxDevices; i++)
      if (is_made(i)) device(i).context.empty_cache();
  }

  /// dlprim's pool learns of every stream that uses a block when a kernel is given it.
  void recordStream(const c10::DataPtr&, c10::Stream) override {}

  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex index) override {
    const Usage usage = device(index).memory->usage();
    const dlprim::MemoryStats pool = device(index).context.memory_stats();
    c10::CachingDeviceAllocator::DeviceStats stats;
    const auto set = [](c10::CachingAllocator::StatArray& array, int64_t now, int64_t peak, int64_t total) {
      array[0].current = now, array[0].peak = peak, array[0].allocated = total, array[0].freed = total - now;
    };
    set(stats.allocated_bytes, usage.allocated, usage.peak, usage.total);
    set(stats.active_bytes, usage.allocated, usage.peak, usage.total);
    set(stats.requested_bytes, usage.allocated, usage.peak, usage.total);
    set(stats.allocation, usage.blocks, usage.peak_blocks, usage.total_blocks);
    set(stats.active, usage.blocks, usage.peak_blocks, usage.total_blocks);
    const auto held = static_cast<int64_t>(pool.held), peak = static_cast<int64_t>(pool.held_peak);
    set(stats.reserved_bytes, held, peak, peak);
    stats.num_alloc_retries = static_cast<int64_t>(pool.retries);
    stats.num_ooms = usage.failures;
    stats.num_device_alloc = static_cast<int64_t>(pool.device_allocations);
    return stats;
  }
  void resetAccumulatedStats(c10::DeviceIndex index) override { device(index).memory->reset_total(); }
  void resetPeakStats(c10::DeviceIndex index) override { device(index).memory->reset_peak(); }

  // No `override`: not every version of torch has it.
  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex index) {
    const Device& on = device(index);
    const dlprim::MemoryStats pool = on.context.memory_stats();
    size_t free = pool.limit - std::min(pool.limit, pool.allocated);
    // OpenCL does not tell what other programs hold; of a CPU's memory the system does.
    if (const size_t idle = pool.held - pool.allocated, most = available_on_host();
        on.context.device().kind() == dlprim::DeviceKind::cpu &&
        most < std::numeric_limits<size_t>::max() - idle)
      free = std::min(free, most + idle);
    return {free, pool.limit};
  }
};

}  // namespace

c10::Allocator* device_allocator() {
  static auto* const allocator = new DeviceAllocator;
  return allocator;
}

namespace {

const c10::AllocatorRegisterer<kOcl> register_device_allocator(device_allocator());

}  // namespace

}  // namespace ocl
