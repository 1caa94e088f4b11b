// Recording: what one thread puts on a stream, kept, to be put there again. A replay does no look-up,
// allocation or check: it is an array of launches.
//
//   const Recording recording(stream, [&] { y = network(x); });  // runs it once, as always
//   write(stream, x, next);
//   recording.replay();  // y holds the next result
//
// A replay works on the same memory: what the work read and wrote when it was recorded. Tensors that were
// there before stay; the memory of those that were made while recording belongs to the recording, which gives
// it back when it ends. Host numbers are those of the recording: scalars, seeds, sizes, what write() wrote;
// but random numbers may go on, see replay().
// The work must not read back: read() throws ValidationError, as does what reads by itself, such as unique().
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include <dlprim/export.hpp>
#include <dlprim/stream.hpp>

namespace dlprim {

namespace detail {
struct RecordingState;
class ReplayMemory;
}  // namespace detail

/// Copies share the commands. One thread at a time may replay, as with a stream.
class DLPRIM_API Recording {
 public:
  /// Of nothing.
  Recording() = default;
  /// Calls `work`, whose commands on `stream` are enqueued as always, and kept. Commands on other streams are
  /// not. Throws what `work` throws, and ValidationError in a recording or a rehearsal.
  Recording(const Stream& stream, const std::function<void()>& work);

  /// The same in less memory: calls `work` in a Rehearsal first, and learns there how long each tensor lives.
  /// When it is called again they are parts of one block, and who lives later lies where others lay. Work
  /// that makes other tensors in its second call takes more memory. `shared` is the library's own.
  static Recording packed(const Stream& stream, const std::function<void()>& work,
                          detail::ReplayMemory* shared = nullptr);

  /// Enqueues the commands once more, on the same stream. Random numbers of states that continue (see
  /// RandomState) are those `drawn` further on than the recorded ones, a multiple of 4. Throws
  /// ValidationError, DeviceError, OutOfMemory.
  void replay(uint64_t drawn = 0) const;

  /// Whether there is anything to replay.
  explicit operator bool() const noexcept { return state_ != nullptr; }
  int64_t launches() const noexcept;
  /// Bytes of device memory that belong to the recording, alone or with others.
  uint64_t bytes() const noexcept;
  /// The library's own parts: bytes that no other recording shares; where the rest is.
  uint64_t own_bytes() const noexcept;
  const void* memory() const noexcept;
  /// Bytes of the tensors that lived at the same time, at most: with less no memory could do.
  uint64_t live_bytes() const;

  /// Whether the calling thread is recording.
  static bool active() noexcept;

 private:
  std::shared_ptr<detail::RecordingState> state_;
};

}  // namespace dlprim
