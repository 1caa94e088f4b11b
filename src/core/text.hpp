// Joining values into text, for messages and keys. Shapes and tensors are joined as they are, so that a check
// that holds makes no text.
#pragma once

#include <ostream>
#include <sstream>
#include <string>

#include <dlprim/tensor.hpp>

namespace dlprim {

inline std::ostream& operator<<(std::ostream& out, const Dims& dims) {
  return out << to_string(dims);
}
inline std::ostream& operator<<(std::ostream& out, const Tensor& tensor) {
  return out << tensor.describe();
}

}  // namespace dlprim

namespace dlprim::detail {

template <class... Parts>
std::string cat(const Parts&... parts) {
  std::ostringstream out;
  out.precision(9);
  (out << ... << parts);
  return out.str();
}

}  // namespace dlprim::detail
