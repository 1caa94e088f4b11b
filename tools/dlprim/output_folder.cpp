#include "output_folder.hpp"

#include <cerrno>
#include <cstring>
#include <fstream>

#include <dlprim/error.hpp>

namespace dlprim::cli {

namespace {

[[noreturn]] void refuse(const std::string& path, int code) {
  throw Error("cannot write '" + path + "': " + (code ? std::strerror(code) : "input/output error"));
}

}  // namespace

void require_writable(const std::string& path) {
  if (path.empty()) return;
  std::error_code code;
  const bool was_there = std::filesystem::exists(path, code);
  errno = 0;
  if (!std::ofstream(path, std::ios::app)) refuse(path, errno);
  if (!was_there) std::filesystem::remove(path, code);
}

void write_file(const std::filesystem::path& path, const std::string& text) {
  errno = 0;
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text;
  file.close();
  if (!file) refuse(path.string(), errno);
}

std::filesystem::path prepare_output(const std::string& out) {
  const std::filesystem::path directory(out);
  std::error_code code;
  std::filesystem::create_directories(directory, code);
  if (!std::filesystem::is_directory(directory, code)) throw Error("cannot make the directory '" + out + "'");
  const std::filesystem::path probe = directory / ".dlprim-write-test";
  write_file(probe, "");
  std::filesystem::remove(probe, code);
  return directory;
}

}  // namespace dlprim::cli
