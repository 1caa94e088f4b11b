// The log's level and its way out.
#include "core/log.hpp"

#include <cstdio>
#include <cstdlib>

namespace dlprim::detail {

int log_level() {
  static const int level = [] {
    const char* text = std::getenv("DLPRIM_LOG");
    return text ? std::atoi(text) : 0;
  }();
  return level;
}

void log_line(const std::string& text) {
  const std::string line = "dlprim: " + text + "\n";
  std::fwrite(line.data(), 1, line.size(), stderr);
}

}  // namespace dlprim::detail
