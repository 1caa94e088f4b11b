// JSON texts as trees, within bounds, for files that somebody else wrote.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace dlprim::detail {

struct JsonValue {
  using List = std::vector<JsonValue>;
  /// In the order of the text; no name stands twice.
  using Members = std::vector<std::pair<std::string, JsonValue>>;

  /// Whole numbers without point and exponent are integers: int64_t if negative, else uint64_t.
  std::variant<std::nullptr_t, bool, int64_t, uint64_t, double, std::string, List, Members> value;

  template <class T>
  const T* as() const {
    return std::get_if<T>(&value);
  }
};

constexpr size_t kMostJsonBytes = size_t{64} << 20;
constexpr size_t kMostJsonValues = size_t{1} << 21;  // numbers, texts, lists and objects
constexpr size_t kDeepestJson = 160;                 // lists and objects in one another

/// Throws ValidationError of "path" whose text begins with `file`: no JSON, a name twice in an object, an
/// integer that 64 bits do not hold, too large, or too deep.
JsonValue parse_json(const std::string& file, std::string_view text);

/// `text` in quotes, for messages: not more than its beginning, without control characters.
std::string in_quotes(std::string_view text);
/// What stands there, likewise: 'text', 17, a list, an object.
std::string described(const JsonValue& value);

}  // namespace dlprim::detail
