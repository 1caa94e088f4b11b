// Files are opened without waiting for anyone, and asked what they are before they are read.
#include "core/regular_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace dlprim::detail {

std::optional<std::string> read_regular_file(const std::string& path, uint64_t most) {
  const int file = open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  if (file < 0) return std::nullopt;
  std::optional<std::string> result;
  // Asked of the open file: the name may get a new one meanwhile.
  struct stat facts {};
  if (fstat(file, &facts) == 0 && S_ISREG(facts.st_mode) && static_cast<uint64_t>(facts.st_size) <= most) {
    result.emplace(static_cast<size_t>(facts.st_size), '\0');
    size_t done = 0;
    while (done < result->size()) {
      const ssize_t got = read(file, result->data() + done, result->size() - done);
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) break;
      done += static_cast<size_t>(got);
    }
    if (done < result->size()) result.reset();
  }
  close(file);
  return result;
}

}  // namespace dlprim::detail
