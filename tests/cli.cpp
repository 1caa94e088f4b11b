#include "cli.hpp"

#include <cstdlib>

#include <sys/wait.h>

#include "child.hpp"
#include "support.hpp"

namespace dlprim::test {

std::string program() {
  return built_file("bin/dlprim");
}

Result run(const std::string& arguments, const std::string& variables) {
  const TempDir folder;
  const int status =
      std::system((first_environment() + "env -u DLPRIM_CACHE_MB " + variables + " '" + program() + "' " +
                   arguments + " >'" + (folder / "out") + "' 2>'" + (folder / "err") + "' </dev/null")
                      .c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, bytes_of(folder / "out"), bytes_of(folder / "err")};
}

std::string device_option() {
  const char* selector = std::getenv("DLPRIM_TEST_DEVICE");
  return selector && *selector ? " --device '" + std::string(selector) + "'" : "";
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::string complaint(const Result& result) {
  const size_t at = result.err.rfind("dlprim: ");
  return at == std::string::npos ? result.err : result.err.substr(at);
}

namespace {

std::string big_endian(uint32_t value) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(value >> shift & 0xff);
  return bytes;
}

}  // namespace

std::string idx(const std::vector<uint32_t>& sizes, const std::string& data) {
  std::string bytes = std::string("\0\0\x08", 3) + static_cast<char>(sizes.size());
  for (uint32_t size : sizes) bytes += big_endian(size);
  return bytes + data;
}

std::string one_pixel_png() {
  return std::string(
      "\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\1\0\0\0\1\x08\2\0\0\0\x90\x77\x53\xde\0\0\0\x0cIDAT\x78\x9c\x63"
      "\x60"
      "\x60\x60\0\0\0\4\0\1\xf6\x17\x38\x55\0\0\0\0IEND\xae\x42\x60\x82",
      69);
}

}  // namespace dlprim::test
