// The safetensors file format: named tensors on the host, written and read. It knows nothing of devices or
// nets. A file is the header's length (8 bytes, little-endian), the header (JSON) and the data, as specified
// at https://github.com/huggingface/safetensors.
#pragma once

#include <cstdint>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include <dlprim/dims.hpp>
#include <dlprim/dtype.hpp>
#include <dlprim/export.hpp>

namespace dlprim {

/// A tensor in host memory, row-major, little-endian.
struct HostTensor {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;
  std::vector<unsigned char> data;
};

/// Writes the file under a temporary name beside `path`, then renames it: `path` holds the old or the new
/// file, never half of one. Throws ValidationError (two tensors of one name, data that does not fit a shape),
/// Error (the file cannot be written).
DLPRIM_API void save_safetensors(const std::string& path, const std::vector<HostTensor>& tensors,
                                 const std::map<std::string, std::string>& metadata = {});

/// An open file. The header is checked as a whole when it is opened: nothing in it is believed before.
class DLPRIM_API SafetensorsReader {
 public:
  struct Entry {
    std::string name;
    DType dtype = DType::f32;
    Shape shape;
    uint64_t begin = 0, end = 0;   ///< bytes, from the start of the data
    std::string type{};            ///< the dtype as the file says it: "F32", "F8_E4M3"
    std::vector<int64_t> sizes{};  ///< the shape as the file says it
  };

  /// Throws Error if the file cannot be opened; ValidationError, saying what is wrong, if it is no valid
  /// safetensors file.
  explicit SafetensorsReader(const std::string& path);

  /// Tensors of dtypes and ranks that dlprim has, in the order of their data.
  const std::vector<Entry>& entries() const noexcept { return entries_; }
  /// The other tensors, as storage: their dtype is u8, their shape the number of bytes. Numbers of F4 and F6
  /// are packed, the first one in the lowest bits.
  const std::vector<Entry>& others() const noexcept { return others_; }
  /// For an error about a tensor that entries() lacks: " (it is F8_E4M3[2, 2], which dlprim does not have)"
  /// if others() has it, else nothing.
  std::string why_lacking(const std::string& name) const;
  const std::map<std::string, std::string>& metadata() const noexcept { return metadata_; }
  /// Throws Error if the file cannot be read.
  HostTensor read(const Entry& entry);

 private:
  std::string path_;
  std::ifstream file_;
  uint64_t data_start_ = 0;
  std::vector<Entry> entries_, others_;
  std::map<std::string, std::string> metadata_;
};

}  // namespace dlprim
