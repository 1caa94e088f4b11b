// A file's bytes in memory without a copy: a read-only map. It knows nothing of what the bytes mean.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include <dlprim/error.hpp>

namespace dlprim::onnx {

/// A regular file, mapped as long as the object lives. Opening it waits for nobody: pipes and devices are
/// refused. If another program shortens the file meanwhile, touching the bytes behind its end kills the
/// process; a file that is replaced (renamed over) does no harm.
class MappedFile {
 public:
  /// Whether the path's last part may be a symbolic link, and the file have further names (hard links).
  enum class Names { any, one };

  /// Throws Error with the system's reason if the file cannot be opened or mapped; ValidationError of "path"
  /// if it is empty, no regular file, or has other names and must not.
  explicit MappedFile(const std::string& path, Names names = Names::any);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  /// Empty after the file was moved away.
  std::string_view bytes() const noexcept { return {static_cast<const char*>(address_), size_}; }

 private:
  void* address_ = nullptr;
  size_t size_ = 0;
};

}  // namespace dlprim::onnx
