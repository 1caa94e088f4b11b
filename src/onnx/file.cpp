// Files are opened without waiting for anyone, and asked what they are by the open file: the name may get
// another one meanwhile.
#include "onnx/file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "core/text.hpp"

namespace dlprim::onnx {
namespace {

using detail::cat;

[[noreturn]] void io_error(const char* what, const std::string& path, int code) {
  throw Error(cat("cannot ", what, " '", path, "': ", std::strerror(code)));
}

struct Descriptor {
  int number = -1;
  ~Descriptor() {
    if (number >= 0) close(number);
  }
};

}  // namespace

MappedFile::MappedFile(const std::string& path, Names names) {
  // The system would take the name to end there.
  if (path.find('\0') != std::string::npos) throw ValidationError("path", "has a zero byte in it");
  const int links = names == Names::one ? O_NOFOLLOW : 0;
  const Descriptor file{open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC | links)};
  if (file.number < 0) io_error("open", path, errno);
  struct stat facts {};
  if (fstat(file.number, &facts) != 0) io_error("read", path, errno);
  if (S_ISDIR(facts.st_mode)) io_error("read", path, EISDIR);
  if (!S_ISREG(facts.st_mode)) throw ValidationError("path", cat("'", path, "' is no regular file"));
  if (names == Names::one && facts.st_nlink != 1)
    throw ValidationError("path", cat("'", path, "' has ", facts.st_nlink, " names (hard links), must be 1"));
  if (facts.st_size <= 0) throw ValidationError("path", cat("'", path, "' is empty"));
  const auto size = static_cast<size_t>(facts.st_size);
  void* const address = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.number, 0);
  if (address == MAP_FAILED) io_error("map", path, errno);
  address_ = address;
  size_ = size;
}

MappedFile::~MappedFile() {
  if (address_) munmap(address_, size_);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : address_(std::exchange(other.address_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(address_, other.address_);
  std::swap(size_, other.size_);
  return *this;
}

}  // namespace dlprim::onnx
