// printf into a string, for what the subcommands print and draw.
#pragma once

#include <cstdio>
#include <string>

namespace dlprim::cli {

/// At most 511 characters; what is longer is cut.
template <class... Values>
std::string format(const char* pattern, Values... values) {
  char text[512];
  std::snprintf(text, sizeof text, pattern, values...);
  return text;
}

}  // namespace dlprim::cli
