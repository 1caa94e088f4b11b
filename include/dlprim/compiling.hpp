// How far compilation is, for whoever shows a user what the program waits for.
#pragma once

#include <chrono>
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

/// Has `tell` called once, by a thread that waits for a program, when threads of the process have waited for
/// programs for `patience` in all; null: nobody is told. `tell` must not throw, nor use the library.
DLPRIM_API void on_long_compiling(std::chrono::milliseconds patience,
                                  void (*tell)(const CompileProgress&)) noexcept;

}  // namespace dlprim
