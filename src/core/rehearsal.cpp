// What each thread knows of its rehearsal.
#include <dlprim/rehearsal.hpp>

#include <utility>

#include "core/rehearsed.hpp"

namespace dlprim {
namespace {

thread_local bool in_rehearsal = false;
thread_local bool without_programs = false;
thread_local uint64_t next_offset = 0;
thread_local std::shared_ptr<detail::LifetimeLog> lifetimes;

}  // namespace

Rehearsal::Rehearsal() noexcept : before_(std::exchange(in_rehearsal, true)) {}
Rehearsal::~Rehearsal() {
  in_rehearsal = before_;
}

bool Rehearsal::active() noexcept {
  return in_rehearsal;
}

namespace detail {

uint64_t rehearsed_offset(uint64_t bytes) noexcept {
  return std::exchange(next_offset, next_offset + bytes);
}

RehearsedLifetimes::RehearsedLifetimes()
    : log_(std::make_shared<LifetimeLog>()), before_(std::exchange(lifetimes, log_)) {}
RehearsedLifetimes::~RehearsedLifetimes() {
  log_->close();
  lifetimes = before_;
}
std::shared_ptr<LifetimeLog> RehearsedLifetimes::active() noexcept {
  return lifetimes;
}

NoLifetimes::NoLifetimes() noexcept : before_(std::exchange(lifetimes, nullptr)) {}
NoLifetimes::~NoLifetimes() {
  lifetimes = std::move(before_);
}

NoPrograms::NoPrograms() noexcept : before_(std::exchange(without_programs, true)) {}
NoPrograms::~NoPrograms() {
  without_programs = before_;
}
bool NoPrograms::active() noexcept {
  return without_programs;
}

RehearsalPause::RehearsalPause() noexcept : before_(std::exchange(in_rehearsal, false)) {}
RehearsalPause::~RehearsalPause() {
  in_rehearsal = before_;
}

}  // namespace detail
}  // namespace dlprim
