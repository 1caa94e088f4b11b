// Writing a file that appears whole or not at all.
#pragma once

#include <fstream>
#include <string>
#include <string_view>

namespace dlprim::detail {

/// Is written under a temporary name beside `path`, which no other process or thread uses, until it is put in
/// place. If it never is, the temporary file goes with the object. Throws Error with the system's reason.
class NewFile {
 public:
  explicit NewFile(const std::string& path);
  ~NewFile();
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  /// Errors are told by put_in_place(), at the latest.
  void write(std::string_view bytes);
  /// What was written is now `path`.
  void put_in_place();

 private:
  std::string path_, temporary_;  ///< the latter empty: there is none any more
  std::ofstream file_;
};

}  // namespace dlprim::detail
