// Rehearsal: operators are called to learn which programs they need, before they are called to compute.
//
//   {
//     const Rehearsal rehearsal;
//     step();  // checks, plans, begins to compile; computes nothing
//   }
//   step();    // compiles or waits for each program where it is needed first
//
// While one lives, what its thread calls checks its arguments, makes its plans and asks for its programs,
// which then are compiled in the background, side by side. Nothing is put on a queue, tensors keep what they
// hold, those made meanwhile have no memory, no plan is kept, nothing is measured or logged. read() throws
// ValidationError, and so does what reads results back before it goes on, such as unique(). A program that
// does not compile is no error yet. Net rehearses its passes by itself.
#pragma once

#include <dlprim/export.hpp>

namespace dlprim {

class DLPRIM_API Rehearsal {
 public:
  Rehearsal() noexcept;
  ~Rehearsal();
  Rehearsal(const Rehearsal&) = delete;
  Rehearsal& operator=(const Rehearsal&) = delete;

  /// Whether the calling thread is in one.
  static bool active() noexcept;

 private:
  const bool before_;
};

}  // namespace dlprim
