// The text of a kernel file, embedded or from DLPRIM_KERNEL_DIR.
#include "core/kernel_source.hpp"

#include <cstdlib>
#include <cstring>
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

}  // namespace

std::string kernel_source(const std::string& name) {
  if (const char* directory = std::getenv("DLPRIM_KERNEL_DIR")) {
    std::set<std::string> seen;
    std::string text;
    read_resolved(directory, name + ".cl", seen, text);
    return text;
  }
  for (const EmbeddedKernel* entry = embedded_kernels(); entry->name; entry++)
    if (name == entry->name) return entry->text;
  throw ValidationError("kernel", "there is no kernel file " + name + ".cl");
}

}  // namespace dlprim::detail
