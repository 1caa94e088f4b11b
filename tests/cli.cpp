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
      std::system(("env -u DLPRIM_CACHE_MB " + variables + " '" + program() + "' " + arguments + " >'" +
                   (folder / "out") + "' 2>'" + (folder / "err") + "' </dev/null")
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

}  // namespace dlprim::test
