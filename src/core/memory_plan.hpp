// Where tensors lie in one block, when it is known how long each lives: none overlaps another that lives at
// the same time. In the order in which they come, each goes into the smallest gap that holds it. While the
// block is longer than the largest live set, those that reach beyond that come sooner in the next round
// ("squeaky wheel optimization", Joslin and Clements 1999): networks end there within a few.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <mutex>
#include <vector>

namespace dlprim::detail {

/// From when on a tensor's memory is used, and from when on no more; in steps of any kind.
struct Lifetime {
  uint64_t bytes = 0;
  uint64_t begin = 0, end = std::numeric_limits<uint64_t>::max();
};

/// Puts down when tensors begin and end. Of any thread.
class LifetimeLog {
 public:
  /// The place of the new tensor in the list.
  size_t begin(uint64_t bytes);
  void end(size_t tensor) noexcept;
  /// What ends later counts as living for ever.
  void close() noexcept;
  std::vector<Lifetime> list() const;

 private:
  mutable std::mutex mutex_;
  std::vector<Lifetime> list_;
  uint64_t clock_ = 0;
  bool open_ = true;
};

struct MemoryPlan {
  std::vector<uint64_t> offsets;  ///< in the order of the lifetimes
  uint64_t bytes = 0;             ///< of the block
};

/// Offsets are multiples of `align`.
MemoryPlan plan_memory(const std::vector<Lifetime>& lifetimes, uint64_t align);

/// The largest sum of those that live at once, each rounded up to `align`: no plan is shorter.
uint64_t largest_live_set(const std::vector<Lifetime>& lifetimes, uint64_t align);

}  // namespace dlprim::detail
