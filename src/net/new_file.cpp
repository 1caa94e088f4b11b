#include "net/new_file.hpp"

#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include <dlprim/error.hpp>

#include "core/text.hpp"

namespace dlprim::detail {
namespace {

[[noreturn]] void refuse(const std::string& path, int code) {
  throw Error(cat("cannot write '", path, "': ", code ? std::strerror(code) : "input/output error"));
}

}  // namespace

NewFile::NewFile(const std::string& path) : path_(path) {
  static std::atomic<unsigned> count{0};
  const std::string temporary = cat(path, ".", getpid(), ".", count++, ".tmp");
  errno = 0;
  file_.open(temporary, std::ios::binary | std::ios::trunc);
  if (!file_) refuse(path, errno);
  temporary_ = temporary;
}

NewFile::~NewFile() {
  if (!temporary_.empty()) std::remove(temporary_.c_str());
}

void NewFile::write(std::string_view bytes) {
  errno = 0;
  file_.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  if (!file_) refuse(path_, errno);
}

void NewFile::put_in_place() {
  errno = 0;
  file_.close();
  if (!file_) refuse(path_, errno);
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0) refuse(path_, errno);
  temporary_.clear();
}

}  // namespace dlprim::detail
