// Where a command writes what it made.
#pragma once

#include <filesystem>
#include <string>

namespace dlprim::cli {

/// Writes the whole text. Throws Error.
void write_file(const std::filesystem::path& path, const std::string& text);

/// Found out before the work: a file that can be written, or a path without one there. An empty path is none.
/// Throws Error.
void require_writable(const std::string& path);

/// The directory, made if need be; found out before the work, not after it, if nothing can be written there.
/// Throws Error.
std::filesystem::path prepare_output(const std::string& out);

}  // namespace dlprim::cli
