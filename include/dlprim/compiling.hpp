// How far compilation is, for whoever shows a user what the program waits for.
#pragma once

#include <cstdint>

#include <dlprim/export.hpp>

namespace dlprim {

/// Programs of all contexts of the process. They are compiled in the background, side by side, or by the
/// thread that needs them.
struct CompileProgress {
  uint64_t done = 0;     ///< compiled, or loaded from the binary cache, so far
  uint64_t pending = 0;  ///< asked for, and not there yet
};

/// The counts as they are now. Any thread may ask.
DLPRIM_API CompileProgress compile_progress() noexcept;

}  // namespace dlprim
