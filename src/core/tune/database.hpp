// The user's tuning database: one SQLite file, which several processes may read and write at once.
//
// The contract: load() gives what some process stored for this device; nothing here throws. A file that
// SQLite finds damaged is set aside under the name PATH.damaged if it is ours, by its place or its mark, and
// a new one is begun. A file of somebody else's, or of another version, and one that cannot be opened, is
// left alone and counts as empty. Each of these is a line in the log, and reason() tells it.
//
// database_none.cpp has the same functions for a build without SQLite: load() is empty, store() false, and
// the first of them takes the path away.
#pragma once

#include <string>
#include <vector>

#include <dlprim/context.hpp>

#include "core/log.hpp"
#include "core/tune/lookup.hpp"

namespace dlprim::detail {

class UserDatabase {
 public:
  /// An empty path: nothing is stored or found. `ours`: what lies at the path is ours, whatever it holds.
  UserDatabase(std::string path, bool ours, Log log = {})
      : path_(std::move(path)), ours_(ours), log_(std::move(log)) {}
  /// As ContextConfig::tuning_database says. `folder`: of the context's compiled programs, empty if it keeps
  /// none. Looks at the environment each time.
  static UserDatabase configured(const ContextConfig& config, const std::string& folder, const Log& log);

  /// The rows of devices of this name on this platform.
  std::vector<UserRow> load(const DeviceFacts& device);
  /// False if the row could not be kept.
  bool store(const DeviceFacts& device, const UserRow& row);

  const std::string& path() const { return path_; }
  /// Why the last call did not do its work; empty if it did.
  const std::string& reason() const { return reason_; }

 private:
  /// Notes and logs the reason.
  void complain(const std::string& reason);

  std::string path_;
  bool ours_;
  Log log_;
  std::string reason_;
};

/// The date as "2026-11-21", UTC.
std::string today();

}  // namespace dlprim::detail
