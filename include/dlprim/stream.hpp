// Stream: an in-order queue of a context, made or wrapped. Event: a point in a stream's work.
// Work given to a stream is asynchronous; only finish(), Event::wait(), reads into host memory and the end of
// a stream with a queue of its own block.
#pragma once

#include <cstdint>
#include <memory>

#include <dlprim/context.hpp>
#include <dlprim/export.hpp>
#include <dlprim/opencl.hpp>

namespace dlprim {

namespace detail {
struct StreamState;
}

class DLPRIM_API Event {
 public:
  Event() = default;
  explicit Event(cl::Event event) : event_(std::move(event)) {}
  /// Blocks until the work before the event is done. An empty event is done. Throws DeviceError.
  void wait() const;
  /// Whether that work is done; does not block. Throws DeviceError if it failed.
  bool done() const;
  const cl::Event& cl() const noexcept { return event_; }

 private:
  cl::Event event_;
};

/// Copies share one queue. One thread at a time may use a stream; several streams work side by side.
class DLPRIM_API Stream {
 public:
  /// A queue of its own, which measures device time if the log is on. The last copy's destructor waits for
  /// what was given. Throws DeviceError.
  explicit Stream(const Context& context);
  /// Around a queue that the user owns; it is retained. Throws ValidationError if the queue is out of order,
  /// or belongs to another context or device.
  Stream(const Context& context, const cl::CommandQueue& queue);

  const Context& context() const noexcept;
  const cl::CommandQueue& cl() const noexcept;

  /// Blocks until everything given so far is done. Throws DeviceError, once, if the driver says that the
  /// queue failed, or a write out of host memory, or, while the log is on, a kernel; other failures stay
  /// unknown.
  void finish() const;
  /// An event that is done when everything given so far is. Throws DeviceError.
  Event record() const;
  /// Later work in this stream waits for `event`; the host does not. Throws DeviceError.
  void wait(const Event& event) const;

  /// The library's own part; not for users.
  detail::StreamState& state() const noexcept { return *state_; }

  friend bool operator==(const Stream& a, const Stream& b) noexcept { return a.state_ == b.state_; }
  friend bool operator!=(const Stream& a, const Stream& b) noexcept { return a.state_ != b.state_; }

 private:
  std::shared_ptr<detail::StreamState> state_;
};

}  // namespace dlprim
