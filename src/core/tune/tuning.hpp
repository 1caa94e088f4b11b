// A context's tuning: the user's rows for its device, read once from the database, and those measured since.
#pragma once

#include <mutex>
#include <string>
#include <vector>

#include "core/tune/database.hpp"
#include "core/tune/lookup.hpp"

namespace dlprim::detail {

/// Several threads may use it at once.
class Tuning {
 public:
  Tuning(const DeviceFacts& device, UserDatabase database, const TuneSheet* sheets)
      : device_(device), database_(std::move(database)), sheets_(sheets) {}

  /// What to try for the problem, best first.
  std::vector<TuneAnswer> answers(const TuneProblem& problem);
  /// Whether the user has a row for this very problem, measured exhaustively if so asked. Looks into the
  /// database once more if there is none in memory: another process may have measured meanwhile.
  bool knows(const TuneProblem& problem, bool exhaustive);
  /// Keeps the row here, and in the database; false if it is not in the database.
  bool store(const UserRow& row);
  TuneDatabase database();

 private:
  void load();  ///< under the lock
  const UserRow* find(const TuneProblem& problem) const;

  const DeviceFacts& device_;
  UserDatabase database_;
  const TuneSheet* sheets_;
  std::mutex mutex_;
  bool loaded_ = false;
  std::vector<UserRow> rows_;
};

}  // namespace dlprim::detail
