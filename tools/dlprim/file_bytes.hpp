// A file as a string of bytes, or as lines.
#pragma once

#include <string>
#include <vector>

namespace dlprim::cli {

/// Throws dlprim::Error with the system's reason if the file cannot be read.
std::string file_bytes(const std::string& path);
/// The file's lines, without their ends. Throws as that.
std::vector<std::string> read_lines(const std::string& path);

}  // namespace dlprim::cli
