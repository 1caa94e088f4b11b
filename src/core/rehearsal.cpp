// The flag of each thread.
#include <dlprim/rehearsal.hpp>

namespace dlprim {
namespace {

thread_local bool in_rehearsal = false;

}  // namespace

Rehearsal::Rehearsal() noexcept : before_(in_rehearsal) {
  in_rehearsal = true;
}

Rehearsal::~Rehearsal() {
  in_rehearsal = before_;
}

bool Rehearsal::active() noexcept {
  return in_rehearsal;
}

}  // namespace dlprim
