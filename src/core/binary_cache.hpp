// BinaryCache: byte strings on disk under a key, shared by several processes. It holds compiled programs and
// the verdicts of device probes.
//
// The contract: load() gives back exactly what some process stored under exactly this key, or nothing. Files
// are written under a temporary name and renamed, so no reader sees half of one; each carries a second hash
// of its key and a checksum of its content, and a file that does not fit (truncated, corrupt, foreign, of
// another version) is removed and counts as absent. What is no regular file, and no link to one, is not read
// either; it stays until a file of that name is stored. A directory that cannot be read or written switches
// the cache off without an error. The oldest files go when the directory passes its limit.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include <dlprim/context.hpp>

namespace dlprim::detail {

class BinaryCache {
 public:
  /// An empty directory's name: nothing is stored or found. `limit` is in bytes.
  /// `chosen`: somebody named the directory.
  BinaryCache(std::string directory, uint64_t limit, bool chosen = true)
      : directory_(std::move(directory)), limit_(limit), chosen_(chosen) {}

  /// The user's cache: $DLPRIM_CACHE_DIR (empty: off), or $XDG_CACHE_HOME/dlprim, or ~/.cache/dlprim;
  /// bounded by $DLPRIM_CACHE_MB, 512 by default.
  static BinaryCache& user();
  /// One of its own for a context that configures the folder or the bound; else null.
  static std::unique_ptr<BinaryCache> configured(const ContextConfig& config);

  /// False if nothing will be kept, so that nothing need be made for it.
  bool keeps() const { return !directory_.empty() && limit_ > 0; }
  bool chosen() const { return chosen_; }
  uint64_t limit() const { return limit_; }
  std::optional<std::string> load(const std::string& key) const;
  /// True if there is a file for `key`; load() finds out if it is whole.
  bool has(const std::string& key) const;
  void store(const std::string& key, const std::string& content);
  /// Removes the oldest files until three quarters of the limit hold, and temporary files left by a crash.
  void trim() const;

  const std::string& directory() const { return directory_; }
  /// The file that would hold `key`.
  std::string path_of(const std::string& key) const;

 private:
  std::string directory_;
  uint64_t limit_;
  bool chosen_;
  std::atomic<unsigned> stores_{0};
};

}  // namespace dlprim::detail
