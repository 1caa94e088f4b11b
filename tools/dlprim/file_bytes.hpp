// A file as a string of bytes.
#pragma once

#include <string>

namespace dlprim::cli {

/// Throws dlprim::Error with the system's reason if the file cannot be read.
std::string file_bytes(const std::string& path);

}  // namespace dlprim::cli
