// Constants: what a plan keeps of tensors whose contents do not change: weights packed into panels, split
// into parts. It is made at the first run that meets the tensor and serves all later ones, on every stream
// and thread.
//
// Only plans that a program holds itself may have some: kept tensors hold the context, which must not own
// them.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include <dlprim/stream.hpp>
#include <dlprim/tensor.hpp>

namespace dlprim::detail {

struct QueueState;

class Constants {
 public:
  /// What `prepare` made of `source`, which is known by its memory and offset. If nothing is kept of it,
  /// `prepare` is called: it makes a tensor and enqueues on `stream` what fills it. Work that `stream` is
  /// given after get() comes after that, whichever stream it was enqueued on. Throws what `prepare` throws,
  /// DeviceError.
  Tensor get(const Stream& stream, const Tensor& source, const std::function<Tensor()>& prepare) const;
  /// What `fill` writes of `source`: to `room` if it is defined, in every run, or else to a tensor of that
  /// shape which is kept.
  template <class Fill>
  Tensor filled(const Stream& stream, const Tensor& source, const Tensor& room, const Shape& shape,
                DType dtype, const Fill& fill) const {
    if (room.defined()) {
      fill(room);
      return room;
    }
    return get(stream, source, [&] {
      const Tensor kept(stream, shape, dtype);
      fill(kept);
      return kept;
    });
  }
  /// Everything is made anew when it is next asked for. Work already enqueued is not disturbed.
  void forget() const;

 private:
  struct Entry {
    std::weak_ptr<Storage> memory;  ///< it may end, and its address be used again
    int64_t offset = 0;
    Tensor prepared;
    std::shared_ptr<QueueState> queue;  ///< where it was prepared,
    Event ready;                        ///< and when; empty once it is known to be done
  };

  mutable std::mutex mutex_;
  mutable std::vector<Entry> entries_;
};

}  // namespace dlprim::detail
