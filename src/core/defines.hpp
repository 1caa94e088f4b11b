// Defines: the macros a kernel is compiled with, typed, in one canonical order. A macro keeps its first
// value: setting it to another one is a mistake in the caller and throws.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include <dlprim/dtype.hpp>

namespace dlprim::detail {

class Defines {
 public:
  Defines& set(const std::string& macro, int64_t value);
  Defines& set(const std::string& macro, int value) { return set(macro, static_cast<int64_t>(value)); }
  Defines& set(const std::string& macro, bool value) { return set(macro, static_cast<int64_t>(value)); }
  /// An expression or a name. It may not hold white space or quotes, which drivers split differently.
  Defines& set(const std::string& macro, const std::string& text);
  Defines& set(const std::string& macro, const char* text) { return set(macro, std::string(text)); }

  /// "-DKERNEL_A=1 -DKERNEL_B=float", sorted by macro.
  std::string options() const;

 private:
  Defines& put(const std::string& macro, const std::string& value);
  std::map<std::string, std::string> values_;
};

}  // namespace dlprim::detail
