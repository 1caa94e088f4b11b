// Devices of the backend: a dlprim context for each OpenCL device, its streams, and which of them a thread
// uses. No tensors and no memory here.
//
// A stream of dlprim is one thread's at a time, and PyTorch's backward pass runs on a thread of its own:
// every use of a stream goes through submit(), which holds the stream's lock.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include <c10/core/Device.h>
#include <c10/core/Stream.h>
#include <dlprim/context.hpp>
#include <dlprim/stream.hpp>

#include "profile.hpp"

namespace ocl {

inline constexpr c10::DeviceType kOcl = c10::DeviceType::PrivateUse1;
/// Streams of a device: the default one is number 0, the others are given out in turn.
inline constexpr int kStreams = 33;
inline constexpr int kMaxDevices = 64;

class Memory;

/// A stream and its lock. The lock is recursive: what an operator submits may allocate, and so use the
/// stream.
class Queue {
 public:
  explicit Queue(const dlprim::Context& context) : plain_(context), stream_(plain_) {}

  std::recursive_mutex mutex;  ///< held by who uses the stream, and for what follows, which takes it itself

  /// Calls work(stream).
  template <class Work>
  decltype(auto) use(Work&& work) {
    const std::lock_guard lock(mutex);
    given_++;
    return work(std::as_const(stream_));
  }
  void finish();
  /// Whether all work is done. Does not block; the first answer after new work may be a late "no".
  bool idle();
  /// Whether time_of() takes the stream's events: commands are slower then. A change waits for all work.
  void measure(bool times);

 private:
  const dlprim::Stream plain_;
  std::optional<dlprim::Stream> measuring_;
  dlprim::Stream stream_;          ///< one of the two
  uint64_t given_ = 0, done_ = 0;  ///< uses; so many of them are known to be done
  uint64_t asked_ = 0;             ///< uses that `mark_` is behind
  dlprim::Event mark_;
};

/// One device. It is made at first use and never destroyed: tensors may outlive everything at exit.
class Device {
 public:
  Device(c10::DeviceIndex index, const dlprim::Device& device);

  const c10::DeviceIndex index;
  const dlprim::Context context;
  const bool fp64;  ///< it computes in double
  const std::unique_ptr<Memory> memory;

  /// Stream `id`, made at first use.
  Queue& queue(c10::StreamId id);
  /// Blocks until the work on all streams is done.
  void finish();
  /// Queue::measure() of all streams, those to come too.
  void measure(bool times);
  /// The next stream in turn, never the default one.
  c10::StreamId next_stream() noexcept;
  /// An event for time_of(), done when `after` is.
  dlprim::Event timed(const dlprim::Event& after);

 private:
  std::mutex mutex_;
  std::array<std::atomic<Queue*>, kStreams> queues_{};
  std::atomic<unsigned> turn_{0};
  std::atomic<bool> measures_;
  cl::CommandQueue timing_;  ///< it alone measures time: the streams that compute do not pay for it
  cl::Buffer timed_;         ///< what it writes to
};

/// Waits for an event of Device::timed(), or of a stream that measures; nanoseconds on the device's clock.
uint64_t time_of(const dlprim::Event& event);

/// How many devices there are; 0 if OpenCL fails. GPUs come first, then accelerators, CPUs, others; else in
/// the loader's order. The first call asks OpenCL, after which a forked child cannot use it.
int device_count() noexcept;
/// What dlprim says of a device; makes no context. Throws for a number that is none.
const dlprim::Device& device_facts(c10::DeviceIndex index);
/// The device of that number; -1 is the current one. Throws for a number that is none, and in a child that
/// was forked after OpenCL was used.
Device& device(c10::DeviceIndex index);
/// Context::check_indices() of all devices, those to come too.
void check_indices(bool on);
/// Whether the device is made.
bool is_made(c10::DeviceIndex index) noexcept;
/// Whether this process was forked from one that used OpenCL.
bool in_bad_fork() noexcept;

// Of the calling thread.
c10::DeviceIndex current_device() noexcept;
/// Throws for a number that is none. Returns the one before.
c10::DeviceIndex exchange_device(c10::DeviceIndex index);
c10::StreamId current_stream(c10::DeviceIndex index) noexcept;
c10::StreamId exchange_stream(c10::DeviceIndex index, c10::StreamId stream) noexcept;

/// Rethrows what is in flight: dlprim's OutOfMemory as torch.OutOfMemoryError, IndexError as Python's, all
/// else as it is.
[[noreturn]] void rethrow(const Device& device);

/// Calls work(stream) with the thread's current stream of the device, under its lock.
template <class Work>
decltype(auto) submit(Device& device, Work&& work) {
  Queue& queue = device.queue(current_stream(device.index));
  try {
    return queue.use([&](const dlprim::Stream& stream) -> decltype(auto) {
      const Submission submission(device, queue);
      return work(stream);
    });
  } catch (const dlprim::Error&) {
    rethrow(device);
  }
}

}  // namespace ocl
