// Joining values into text, for messages and keys.
#pragma once

#include <sstream>
#include <string>

namespace dlprim::detail {

template <class... Parts>
std::string cat(const Parts&... parts) {
  std::ostringstream out;
  out.precision(9);
  (out << ... << parts);
  return out.str();
}

}  // namespace dlprim::detail
