// Blocks of pinned memory by their addresses, and what is free of them by size.
#include "host_memory.hpp"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <vector>

#include <ATen/core/CachingHostAllocator.h>
#include <c10/util/Exception.h>

#include "device.hpp"

namespace ocl {

namespace {

/// A device's buffers are mapped in a queue of its own: streams may be busy.
cl::CommandQueue make_queue(const Device& on) {
  cl_int error = CL_SUCCESS;
  cl::CommandQueue queue(on.context.cl(), on.context.device().cl(), 0, &error);
  if (error != CL_SUCCESS) throw dlprim::DeviceError("clCreateCommandQueue", error);
  return queue;
}

struct HostBlock {
  char* memory = nullptr;
  size_t size = 0;
  cl::Buffer buffer;       ///< mapped at `memory`; null where no device has room for one: plain memory
  cl::CommandQueue queue;  ///< of the map
  std::vector<dlprim::Event> uses;  ///< by copies

  /// Whether all copies are done; those that failed are, too.
  bool idle() {
    const auto done = [](const dlprim::Event& use) {
      try {
        return use.done();
      } catch (const std::exception&) {
        return true;
      }
    };
    uses.erase(std::remove_if(uses.begin(), uses.end(), done), uses.end());
    return uses.empty();
  }
};

/// An eighth of a power of two apart, at least a page.
size_t size_class(size_t bytes) {
  const size_t step = std::max<size_t>(4096, std::bit_floor(bytes) / 8);
  return (bytes + step - 1) / step * step;
}

struct HostMemory final : at::HostAllocator {
  c10::DataPtr allocate(size_t bytes) override {
    const c10::Device here(c10::kCPU);
    if (bytes == 0) return {nullptr, nullptr, &release, here};
    const size_t size = size_class(bytes);
    const std::lock_guard lock(mutex_);
    HostBlock* block = reused(size);
    if (!block) block = make(size);
    if (!block) {
      give_back_idle();
      block = make(size);
    }
    TORCH_CHECK_WITH(OutOfMemoryError, block, "the host cannot allocate ", bytes, " bytes of pinned memory");
    return {block->memory, block->memory, &release, here};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, size_t bytes) const override { std::memcpy(to, from, bytes); }

  bool record_event(void* memory, void*, c10::Stream stream) override {
    if (!contains(memory)) return false;
    Queue& queue = device(stream.device_index()).queue(stream.id());
    return keep(memory, queue.use([](const dlprim::Stream& s) { return s.record(); }));
  }
  void empty_cache() override {
    const std::lock_guard lock(mutex_);
    give_back_idle();
  }
  at::HostStats get_stats() override { return {}; }
  void reset_accumulated_stats() override {}
  void reset_peak_stats() override {}

  bool contains(const void* address) {
    const std::lock_guard lock(mutex_);
    return find(address) != nullptr;
  }
  bool keep(const void* address, const dlprim::Event& done) {
    const std::lock_guard lock(mutex_);
    HostBlock* block = find(address);
    if (!block) return false;
    block->idle();  // lets go of uses that are done
    block->uses.push_back(done);
    return true;
  }

 private:
  static HostMemory& self() { return *static_cast<HostMemory*>(host_allocator()); }

  static void release(void* memory) {
    if (!memory || in_bad_fork()) return;
    const std::lock_guard lock(self().mutex_);
    if (HostBlock* block = self().find(memory)) self().free_.emplace(block->size, block);
  }

  HostBlock* find(const void* address) {
    const auto at = reinterpret_cast<uintptr_t>(address);
    auto after = blocks_.upper_bound(at);
    if (after == blocks_.begin()) return nullptr;
    HostBlock& block = std::prev(after)->second;
    return at < std::prev(after)->first + block.size ? &block : nullptr;
  }

  HostBlock* reused(size_t size) {
    const auto [begin, end] = free_.equal_range(size);
    const auto idle = std::find_if(begin, end, [](const auto& entry) { return entry.second->idle(); });
    if (idle == end) return nullptr;
    HostBlock* block = idle->second;
    free_.erase(idle);
    return block;
  }

  /// Null if there is no room.
  HostBlock* make(size_t size) {
    HostBlock block;
    block.size = size;
    const Device& on = device(-1);
    if (size <= on.context.device().facts().max_allocation) {
      cl_int error = CL_SUCCESS;
      cl::Buffer buffer(on.context.cl(), CL_MEM_READ_WRITE | CL_MEM_ALLOC_HOST_PTR, size, nullptr, &error);
      if (error == CL_SUCCESS) {
        block.queue = make_queue(on);
        block.memory = static_cast<char*>(block.queue.enqueueMapBuffer(
            buffer, CL_TRUE, CL_MAP_READ | CL_MAP_WRITE, 0, size, nullptr, nullptr, &error));
      }
      if (error == CL_SUCCESS && block.memory) block.buffer = std::move(buffer);
    }
    if (!block.buffer()) block.memory = static_cast<char*>(std::aligned_alloc(4096, size));
    if (!block.memory) return nullptr;
    const auto at = reinterpret_cast<uintptr_t>(block.memory);
    return &blocks_.insert_or_assign(at, std::move(block)).first->second;
  }

  void give_back_idle() {
    for (auto it = free_.begin(); it != free_.end();) {
      HostBlock* block = it->second;
      if (!block->idle()) {
        ++it;
        continue;
      }
      it = free_.erase(it);
      char* memory = block->memory;
      if (block->buffer()) {
        block->queue.enqueueUnmapMemObject(block->buffer, memory);
        block->queue.finish();
      } else {
        std::free(memory);
      }
      blocks_.erase(reinterpret_cast<uintptr_t>(memory));
    }
  }

  std::mutex mutex_;
  std::map<uintptr_t, HostBlock> blocks_;
  std::multimap<size_t, HostBlock*> free_;
};

HostMemory& host_memory() {
  static auto* const memory = new HostMemory;  // never destroyed, as devices are not
  return *memory;
}

const at::HostAllocatorRegistry<kOcl> registered(&host_memory());

}  // namespace

c10::Allocator* host_allocator() {
  return &host_memory();
}

bool is_pinned(const void* address) noexcept {
  return address && !in_bad_fork() && host_memory().contains(address);
}

bool keep_until(const void* address, const dlprim::Event& done) {
  return host_memory().keep(address, done);
}

}  // namespace ocl
