// KeptPieces: what others keep in a context's memory for later and can make again: a model's recordings. A
// context that is short of memory takes the least recently used away, whichever model has it.
#pragma once

#include <atomic>
#include <cstdint>
#include <limits>
#include <memory>
#include <mutex>
#include <vector>

namespace dlprim::detail {

/// Keeps pieces. Any thread may call these two; neither may wait for another thread's work with the pieces,
/// which may itself be waiting for memory.
class PieceKeeper {
 public:
  virtual ~PieceKeeper() = default;
  static constexpr uint64_t kNone = std::numeric_limits<uint64_t>::max();
  /// When its least recently used piece that may go was used, by KeptPieces::now(); kNone: none may go.
  virtual uint64_t oldest() noexcept = 0;
  /// Gives that piece up; false if it did not.
  virtual bool drop_oldest() noexcept = 0;
};

class KeptPieces {
 public:
  void add(const std::shared_ptr<PieceKeeper>& keeper) {
    const std::lock_guard<std::mutex> lock(mutex_);
    keepers_.push_back(keeper);
  }
  /// Counts uses.
  uint64_t now() noexcept { return clock_++; }
  /// Gives up the least recently used piece of all; false if there is none.
  bool drop_oldest() {
    while (const std::shared_ptr<PieceKeeper> keeper = holder_of_oldest())
      if (keeper->drop_oldest()) return true;
    return false;
  }

 private:
  std::shared_ptr<PieceKeeper> holder_of_oldest() {
    std::shared_ptr<PieceKeeper> result;
    uint64_t age = PieceKeeper::kNone;
    std::vector<std::shared_ptr<PieceKeeper>>
        held;  // the last handle of one may be this one's: ends behind the lock
    const std::lock_guard<std::mutex> lock(mutex_);
    for (size_t i = keepers_.size(); i-- > 0;) {
      std::shared_ptr<PieceKeeper> keeper = keepers_[i].lock();
      if (!keeper) {
        keepers_.erase(keepers_.begin() + static_cast<std::ptrdiff_t>(i));
        continue;
      }
      const uint64_t oldest = keeper->oldest();
      if (oldest < age) age = oldest, result = keeper;
      held.push_back(std::move(keeper));
    }
    return result;
  }

  std::mutex mutex_;
  std::vector<std::weak_ptr<PieceKeeper>> keepers_;
  std::atomic<uint64_t> clock_{0};
};

}  // namespace dlprim::detail
