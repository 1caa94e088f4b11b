// Reading problems' lines.
#include "core/tune/problem_line.hpp"

#include <algorithm>
#include <climits>
#include <sstream>

#include "core/check.hpp"
#include "core/text.hpp"

namespace dlprim::detail {
namespace {

constexpr const char* kMathNames[] = {"strict", "standard", "tf32"};

/// 0 if the text is no whole number from 1 to `most`.
int64_t whole_number(const std::string& text, int64_t most) {
  const bool digits =
      !text.empty() && text.size() < 12 && text.find_first_not_of("0123456789") == std::string::npos;
  const int64_t value = digits ? std::stoll(text) : 0;
  return value <= most ? value : 0;
}

}  // namespace

const char* name_of(MathMode mode) noexcept {
  return kMathNames[static_cast<size_t>(mode)];
}

MathMode parse_math(const std::string& name) {
  for (const MathMode mode : {MathMode::strict, MathMode::standard, MathMode::tf32})
    if (name == name_of(mode)) return mode;
  throw ValidationError("math", cat("'", name, "' is none of strict, standard, tf32"));
}

std::vector<std::pair<std::string, int64_t>> parse_sizes(const std::string& text) {
  std::vector<std::pair<std::string, int64_t>> sizes;
  std::istringstream in(text);
  for (std::string word; in >> word;) {
    const size_t equals = word.find('=');
    const int64_t size = equals == std::string::npos ? 0 : whole_number(word.substr(equals + 1), INT64_MAX);
    require(size > 0 && equals > 0, "sizes", "'", word, "' is not NAME=SIZE");
    sizes.emplace_back(word.substr(0, equals), size);
  }
  return sizes;
}

template <class... Parts>
void ProblemLine::refuse(const Parts&... parts) const {
  throw ValidationError("problem", cat("'", text_, "': ", parts...));
}

ProblemLine::ProblemLine(const std::string& text) : text_(text) {
  std::istringstream in(text);
  if (!(in >> op_)) refuse("names no operator");
  for (std::string word; in >> word;) {
    const size_t equals = word.find('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == word.size())
      refuse("'", word, "' is not NAME=VALUE");
    if (!fields_.emplace(word.substr(0, equals), word.substr(equals + 1)).second)
      refuse(word.substr(0, equals), " is given twice");
  }
}

std::string ProblemLine::take(const std::string& name) {
  const auto it = fields_.find(name);
  if (it == fields_.end()) return "";
  const std::string value = it->second;
  fields_.erase(it);
  return value;
}

int64_t ProblemLine::size(const std::string& name, int64_t otherwise) {
  const std::string value = take(name);
  if (value.empty() && otherwise > 0) return otherwise;
  if (value.empty()) refuse("has no ", name, "=");
  constexpr int64_t kMost = INT_MAX - 4096;
  const int64_t size = whole_number(value, kMost);
  if (size == 0) refuse(name, "=", value, " is no whole number from 1 to ", kMost);
  return size;
}

Dims ProblemLine::sizes(const std::string& name, const Dims& otherwise) {
  const std::string value = take(name);
  if (value.empty() && !otherwise.empty()) return otherwise;
  if (value.empty()) refuse("has no ", name, "=");
  constexpr int64_t kMost = INT_MAX - 4096;
  Dims result;
  for (size_t from = 0; from <= value.size();) {
    const size_t end = std::min(value.find('x', from), value.size());
    const std::string number = value.substr(from, end - from);
    const int64_t size = whole_number(number, kMost);
    if (result.size() == kMaxRank || (size == 0 && number != "0"))
      refuse(name, "=", value, " is no list of whole numbers like 3x3");
    result.push_back(size);
    from = end + 1;
  }
  return result;
}

std::string ProblemLine::word(const std::string& name, std::initializer_list<const char*> words) {
  const std::string value = take(name);
  if (value.empty()) return *words.begin();
  std::string list;
  for (const char* known : words) {
    if (value == known) return value;
    list += (list.empty() ? "" : ", ") + std::string(known);
  }
  refuse(name, "=", value, words.size() == 1 ? " is not " : " is none of ", list);
}

DType ProblemLine::dtype(const std::string& name, DType otherwise) {
  const std::string value = take(name);
  if (value.empty()) return otherwise;
  try {
    return parse_dtype(value);
  } catch (const ValidationError& error) {
    refuse(name, "=", value, ": ", error.what());
  }
}

std::string ProblemLine::text(const std::string& name, const std::string& otherwise) {
  const std::string value = take(name);
  return value.empty() ? otherwise : value;
}

void ProblemLine::finish() const {
  if (!fields_.empty()) refuse("has an unknown ", fields_.begin()->first, "=");
}

}  // namespace dlprim::detail
