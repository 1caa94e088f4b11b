// NumPy's files: one array (.npy), or several by name in a zip archive (.npz). Row-major arrays of numbers
// and truths in the machine's byte order; what is said in a header is checked before memory is taken.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include <dlprim/safetensors.hpp>

namespace dlprim::cli {

/// Throws Error (the file cannot be read), ValidationError: it is no such file, or holds a dtype that dlprim
/// lacks.
HostTensor read_npy(const std::string& path);
std::map<std::string, HostTensor> read_npz(const std::string& path);
/// bf16 has no name in NumPy: it is written as f32.
void write_npy(const std::string& path, const HostTensor& tensor);

/// The same from memory; `name` is for messages.
HostTensor parse_npy(const std::string& name, std::string_view bytes);
std::map<std::string, HostTensor> parse_npz(const std::string& name, std::string_view bytes);

}  // namespace dlprim::cli
