// Macros as compiler options.
#include "core/defines.hpp"

#include "core/check.hpp"

namespace dlprim::detail {

Defines& Defines::set(const std::string& macro, int64_t value) {
  return put(macro, std::to_string(value));
}

Defines& Defines::set(const std::string& macro, const std::string& text) {
  require(!text.empty() && text.find_first_of(" \t\n\"'\\") == std::string::npos, "macro", macro, "='", text,
          "' holds white space or quotes, or nothing");
  return put(macro, text);
}

Defines& Defines::put(const std::string& macro, const std::string& value) {
  auto [place, fresh] = values_.emplace(macro, value);
  require(fresh || place->second == value, "macro", macro, " is ", place->second, " already, not ", value);
  return *this;
}

std::string Defines::options() const {
  std::string text;
  for (const auto& [macro, value] : values_) text += (text.empty() ? "-D" : " -D") + macro + "=" + value;
  return text;
}

}  // namespace dlprim::detail
