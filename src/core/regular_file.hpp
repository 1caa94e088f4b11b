// Reading small files that others may have put there: compiled programs, kernels' text, models in JSON.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <dlprim/export.hpp>

namespace dlprim::detail {

/// The bytes of a regular file, or of one that a symbolic link leads to. None if it cannot be read, has more
/// than `most` bytes, or is something else: a pipe would keep the caller waiting, /dev/zero never end.
DLPRIM_API std::optional<std::string> read_regular_file(const std::string& path, uint64_t most);

}  // namespace dlprim::detail
