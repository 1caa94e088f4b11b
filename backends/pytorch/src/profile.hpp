// What profilers are told of work that is given to streams.
#pragma once

#include <atomic>

namespace ocl {

class Device;
class Queue;
struct Note;

/// Whether somebody takes notes.
inline std::atomic<bool> profiling{false};

/// Lives while an operator gives work to a stream, whose lock the thread holds.
class Submission {
 public:
  Submission(Device& device, Queue& queue) {
    if (profiling.load(std::memory_order_relaxed)) begin(device, queue);
  }
  ~Submission() {
    if (note_) end();
  }
  Submission(const Submission&) = delete;
  Submission& operator=(const Submission&) = delete;

 private:
  void begin(Device& device, Queue& queue) noexcept;
  void end() noexcept;

  Note* note_ = nullptr;
};

}  // namespace ocl
