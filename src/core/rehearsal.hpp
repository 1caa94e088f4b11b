// Rehearsal: operators are called to learn which programs they need, before they are called to compute.
//
// While one lives, what its thread calls checks its arguments, makes its plans and asks for its programs,
// which then are compiled in the background, side by side. Nothing is put on a queue, outputs keep what they
// hold, no plan is kept, nothing is measured, nothing is logged. What is called after it waits for those
// programs alone that it needs. Not for operators that read results back before they go on.
#pragma once

namespace dlprim::detail {

class Rehearsal {
 public:
  Rehearsal() : before_(active()) { active() = true; }
  ~Rehearsal() { active() = before_; }
  Rehearsal(const Rehearsal&) = delete;
  Rehearsal& operator=(const Rehearsal&) = delete;

  /// Whether the calling thread is in one.
  static bool& active() noexcept {
    static thread_local bool active = false;
    return active;
  }

 private:
  const bool before_;
};

}  // namespace dlprim::detail
