#include "file_bytes.hpp"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include <dlprim/error.hpp>

namespace dlprim::cli {

std::string file_bytes(const std::string& path) {
  if (std::filesystem::is_directory(path)) throw Error("cannot read '" + path + "': it is a folder");
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (!file.is_open() || file.bad())
    throw Error("cannot read '" + path + "': " + (errno ? std::strerror(errno) : "input/output error"));
  return bytes;
}

}  // namespace dlprim::cli
