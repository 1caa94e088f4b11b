// What tensors are in a rehearsal: places without memory.
#pragma once

#include <memory>
#include <vector>

#include <dlprim/export.hpp>

#include "core/memory_plan.hpp"

namespace dlprim::detail {

/// Where a tensor of that many bytes lies: nowhere, but beside all others that the thread made in a
/// rehearsal.
uint64_t rehearsed_offset(uint64_t bytes) noexcept;

/// While it lives, it puts down how long tensors live that the calling thread makes in a rehearsal.
class RehearsedLifetimes {
 public:
  RehearsedLifetimes();
  ~RehearsedLifetimes();
  RehearsedLifetimes(const RehearsedLifetimes&) = delete;
  RehearsedLifetimes& operator=(const RehearsedLifetimes&) = delete;

  /// Of all that were made so far, in their order.
  std::vector<Lifetime> list() const { return log_->list(); }
  /// The calling thread's, or null.
  static std::shared_ptr<LifetimeLog> active() noexcept;

 private:
  const std::shared_ptr<LifetimeLog> log_;
  const std::shared_ptr<LifetimeLog> before_;
};

/// While it lives, tensors that the calling thread makes in a rehearsal are not put down.
class NoLifetimes {
 public:
  NoLifetimes() noexcept;
  ~NoLifetimes();
  NoLifetimes(const NoLifetimes&) = delete;
  NoLifetimes& operator=(const NoLifetimes&) = delete;

 private:
  std::shared_ptr<LifetimeLog> before_;
};

/// While it lives, rehearsals of the calling thread ask for no programs: what they learn is something else.
class DLPRIM_API NoPrograms {
 public:
  NoPrograms() noexcept;
  ~NoPrograms();
  NoPrograms(const NoPrograms&) = delete;
  NoPrograms& operator=(const NoPrograms&) = delete;

  static bool active() noexcept;

 private:
  const bool before_;
};

/// While it lives, the calling thread is in no rehearsal.
class DLPRIM_API RehearsalPause {
 public:
  RehearsalPause() noexcept;
  ~RehearsalPause();
  RehearsalPause(const RehearsalPause&) = delete;
  RehearsalPause& operator=(const RehearsalPause&) = delete;

 private:
  const bool before_;
};

}  // namespace dlprim::detail
