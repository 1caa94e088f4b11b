#include "file_bytes.hpp"

#include <algorithm>
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

std::vector<std::string> read_lines(const std::string& path) {
  const std::string text = file_bytes(path);
  std::vector<std::string> lines;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    lines.push_back(text.substr(begin, end - begin));
    if (!lines.back().empty() && lines.back().back() == '\r') lines.back().pop_back();
    begin = end + 1;
  }
  return lines;
}

}  // namespace dlprim::cli
