// How long things took on the host.
#pragma once

#include <chrono>

namespace dlprim::cli {

using Clock = std::chrono::steady_clock;

inline double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace dlprim::cli
