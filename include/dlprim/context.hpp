// Context: a device with its memory pool and its caches of programs and plans. Copies share one state.
#pragma once

#include <cstdint>
#include <memory>

#include <dlprim/device.hpp>
#include <dlprim/export.hpp>
#include <dlprim/opencl.hpp>

namespace dlprim {

namespace detail {
struct ContextState;
}

/// Bytes and counts of a context's memory pool.
struct MemoryStats {
  uint64_t allocated = 0;  ///< bytes in live tensors, rounded up to size classes
  uint64_t allocated_peak = 0;
  uint64_t held = 0;  ///< bytes of OpenCL buffers held, live and cached
  uint64_t held_peak = 0;
  uint64_t limit = 0;               ///< most bytes the pool may hold
  uint64_t allocations = 0;         ///< calls served so far
  uint64_t device_allocations = 0;  ///< of those, calls that made a new OpenCL buffer
  uint64_t cross_stream_waits = 0;  ///< reuses that made one stream wait for another
  uint64_t retries = 0;             ///< times the cache was emptied because the device had no room
};

/// How the context's kernels came to be. It keeps 512 programs, or 256 MiB of their texts and binaries, the
/// least recently used go; and plans that calls made go while those in memory are more than that. What a plan
/// of yours needs stays.
struct ProgramStats {
  uint64_t built = 0;       ///< compiled from source
  uint64_t from_disk = 0;   ///< loaded from the binary cache
  uint64_t reused = 0;      ///< found in memory
  uint64_t held = 0;        ///< in memory now, by the context and by plans
  uint64_t held_bytes = 0;  ///< of texts and binaries; drivers add what they need
};

/// Several threads and streams may use one context at once.
class DLPRIM_API Context {
 public:
  /// A context of its own on `device`. Throws DeviceError.
  explicit Context(const Device& device);
  /// The default device, or the one that `selector` names (see Device::find).
  explicit Context(const char* selector) : Context(Device::find(selector ? selector : "")) {}
  /// Around an OpenCL context that the user owns; it is retained. Throws ValidationError if `device` is not
  /// one of its devices.
  Context(const cl::Context& context, const Device& device);

  const Device& device() const noexcept;
  const cl::Context& cl() const noexcept;

  MemoryStats memory_stats() const;
  /// Gives cached, unused buffers back to the driver.
  void empty_cache() const;
  /// Most bytes of buffers that the pool may hold; the default is the device's memory.
  void set_memory_limit(uint64_t bytes) const;

  ProgramStats program_stats() const;

  /// The library's own part; not for users.
  detail::ContextState& state() const noexcept { return *state_; }

  friend bool operator==(const Context& a, const Context& b) noexcept { return a.state_ == b.state_; }
  friend bool operator!=(const Context& a, const Context& b) noexcept { return a.state_ != b.state_; }

 private:
  std::shared_ptr<detail::ContextState> state_;
};

}  // namespace dlprim
