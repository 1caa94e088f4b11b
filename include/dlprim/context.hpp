// Context: a device with its memory pool and its caches of programs and plans. Copies share one state.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

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

/// What a context takes from its user instead of from the environment. What is not set is as the
/// environment's variables say (docs/layout.md).
struct ContextConfig {
  /// Folder of compiled programs and of the tuning database; empty: none are kept. Without it, and without
  /// $DLPRIM_CACHE_DIR, a driver that keeps programs itself (DeviceFacts::keeps_programs) is left to do so.
  /// What probes found of the device, before there was a context, stays in the folder of the environment.
  std::optional<std::string> cache_folder;
  /// Most bytes of compiled programs there; the oldest go. The environment has $DLPRIM_CACHE_MB, or 512 MiB.
  std::optional<uint64_t> cache_bytes;
  /// Most processes that compile programs for a Rehearsal or a net, 16 at most; 0: its own threads do. The
  /// environment has $DLPRIM_BUILD_PROCESSES; without it there are some where the driver compiles one program
  /// at a time (DeviceFacts::compiles_one_at_a_time). They are the program dlprim-compiler, from where it was
  /// installed or $DLPRIM_COMPILER says, and need a folder of compiled programs. They start when the context
  /// first compiles a program, each makes a context on the device, and end when there was none for 10 s.
  /// Where the driver keeps programs itself, the folder has a mark for each, and programs with a mark start
  /// none.
  std::optional<int> build_processes;
  /// File of the tuning database; empty: none. Without it, and without $DLPRIM_TUNE_DB or with a
  /// cache_folder: tuning.sqlite in the folder of compiled programs.
  std::optional<std::string> tuning_database;

  /// As $DLPRIM_LOG: 0 nothing, 1 a line for each operator and program, 2 also for kernels and buffers.
  /// Where only `log` is set: 1.
  std::optional<int> log_level;
  /// Gets each line of the log, without a line end, in place of stderr. Called by the thread that has
  /// something to say, by one at a time. It must not throw (what it throws is dropped) nor use the library.
  std::function<void(const std::string& line)> log;

  /// Most bytes of buffers that the pool may hold; without it, the device's memory.
  std::optional<uint64_t> memory_limit;
  /// Makes a buffer of at least `bytes` on the context for the pool, which cuts tensors out of it; a null
  /// one if there is no room. Without it: clCreateBuffer.
  std::function<cl::Buffer(uint64_t bytes)> allocate;
  /// Takes a buffer of `allocate` back, with all work on it done: when the pool gives up what it does not
  /// need, and when the context ends. It must not throw (in the context's destructor what it throws is
  /// dropped). Neither of the two may use the library. Set both or none.
  std::function<void(const cl::Buffer& buffer)> free;
};

/// Several threads and streams may use one context at once.
class DLPRIM_API Context {
 public:
  /// A context of its own on `device`. Throws DeviceError, and ValidationError for a bad configuration.
  explicit Context(const Device& device, const ContextConfig& config = {});
  /// The default device, or the one that `selector` names (see Device::find).
  explicit Context(const char* selector, const ContextConfig& config = {})
      : Context(Device::find(selector ? selector : ""), config) {}
  /// Around an OpenCL context that the user owns; it is retained. Throws ValidationError if `device` is not
  /// one of its devices.
  Context(const cl::Context& context, const Device& device, const ContextConfig& config = {});

  const Device& device() const noexcept;
  const cl::Context& cl() const noexcept;

  MemoryStats memory_stats() const;
  /// Gives up what is kept for later and can be made again (models' recordings, but of a model that another
  /// thread runs; what was prepared of constants; plans of calls), and gives unused buffers back to the
  /// driver, or to ContextConfig::free: that waits for their work.
  void empty_cache() const;
  /// Most bytes of buffers that the pool may hold.
  void set_memory_limit(uint64_t bytes) const;

  ProgramStats program_stats() const;

  /// Whether operators that read or write by index search their index tensors for elements that are out of
  /// range. Each search is a kernel of its own before the operator's. The first bad element that a stream's
  /// device found makes Stream::finish() and the next read into host memory throw IndexError. Off, unless the
  /// environment has DLPRIM_CHECK_INDEX=1: such elements read as zero, write nothing, and count as labels
  /// that are ignored. Recordings and models repeat what they were recorded with: switch it on before their
  /// first run.
  void check_indices(bool on) const;
  bool checks_indices() const noexcept;

  /// The library's own part; not for users.
  detail::ContextState& state() const noexcept { return *state_; }

  friend bool operator==(const Context& a, const Context& b) noexcept { return a.state_ == b.state_; }
  friend bool operator!=(const Context& a, const Context& b) noexcept { return a.state_ != b.state_; }

 private:
  std::shared_ptr<detail::ContextState> state_;
};

}  // namespace dlprim
