// The text of a kernel file, embedded or from DLPRIM_KERNEL_DIR.
#include "core/kernel_source.hpp"

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <set>
#include <sstream>

#include "core/check.hpp"
#include "core/embedded_kernels.hpp"
#include "core/regular_file.hpp"

namespace dlprim::detail {
namespace {

/// Reads a file of `directory` and puts the files it includes in their place, each once.
void read_resolved(const std::string& directory, const std::string& file, std::set<std::string>& seen,
                   std::string& text) {
  if (!seen.insert(file).second) return;
  constexpr uint64_t kMost = 1 << 26;
  const auto whole = read_regular_file(directory + "/" + file, kMost);
  require(whole.has_value(), "DLPRIM_KERNEL_DIR", "cannot read ", directory, "/", file);
  std::istringstream in(*whole);
  const std::string include = "#include \"";
  for (std::string line; std::getline(in, line);) {
    if (line.compare(0, include.size(), include) == 0)
      read_resolved(directory, line.substr(include.size(), line.rfind('"') - include.size()), seen, text);
    else
      text += line + "\n";
  }
}

/// Where a kernel's file lies: in the directory, or in a folder of it, as in src/kernels.
std::string file_of(const std::string& directory, const std::string& name) {
  const std::string file = name + ".cl";
  std::error_code unread;  // there is no such file then
  for (const auto& entry : std::filesystem::directory_iterator(directory, unread))
    if (entry.is_directory(unread) && std::filesystem::exists(entry.path() / file, unread))
      return (entry.path().filename() / file).string();
  return file;
}

}  // namespace

std::string kernel_source(const std::string& name) {
  if (const char* directory = std::getenv("DLPRIM_KERNEL_DIR")) {
    std::set<std::string> seen;
    std::string text;
    read_resolved(directory, file_of(directory, name), seen, text);
    return text;
  }
  for (const EmbeddedKernel* entry = embedded_kernels(); entry->name; entry++)
    if (name == entry->name) return entry->text;
  throw ValidationError("kernel", "there is no kernel file " + name + ".cl");
}

}  // namespace dlprim::detail
