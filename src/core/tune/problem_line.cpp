// Reading problems' lines.
#include "core/tune/problem_line.hpp"

#include <algorithm>
#include <climits>
#include <cmath>
#include <optional>
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

/// A whole number, or none.
std::optional<int64_t> signed_number(const std::string& text) {
  constexpr int64_t kMost = int64_t{1} << 39;
  const bool negative = !text.empty() && text[0] == '-';
  const std::string digits = text.substr(negative ? 1 : 0);
  const int64_t value = whole_number(digits, kMost);
  if (value == 0 && digits != "0") return {};
  return negative ? -value : value;
}

/// "1,2" as numbers; nothing if one is none, or if they are too many.
std::optional<Dims> numbers_of(const std::string& text, char separator) {
  Dims result;
  for (size_t from = 0; from <= text.size();) {
    const size_t end = std::min(text.find(separator, from), text.size());
    const std::optional<int64_t> number = signed_number(text.substr(from, end - from));
    if (!number || result.size() == kMaxRank) return {};
    result.push_back(*number);
    from = end + 1;
  }
  return result;
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

int64_t ProblemLine::whole(const std::string& name, int64_t otherwise) {
  const std::string value = take(name);
  if (value.empty()) return otherwise;
  const std::optional<int64_t> number = signed_number(value);
  if (!number) refuse(name, "=", value, " is no whole number");
  return *number;
}

Dims ProblemLine::integers(const std::string& name, char separator, const Dims& otherwise) {
  const std::string value = take(name);
  if (value.empty()) return otherwise;
  const std::optional<Dims> list = numbers_of(value, separator);
  if (!list) refuse(name, "=", value, " is no list of whole numbers like 1", separator, "2");
  return *list;
}

double ProblemLine::number(const std::string& name, double otherwise) {
  const std::string value = take(name);
  if (value.empty()) return otherwise;
  std::istringstream in(value);
  double number = 0;
  if (!(in >> number) || !in.eof() || !std::isfinite(number)) refuse(name, "=", value, " is no number");
  return number;
}

TensorDesc ProblemLine::tensor(const std::string& name) {
  const std::string value = take(name);
  if (value.empty()) refuse("has no ", name, "=");
  const size_t open = value.find('['), close = std::min(value.find(']'), value.size());
  if (open == std::string::npos || close == value.size() || close < open)
    refuse(name, "=", value, " is no tensor like f32[2,3]");
  try {
    const std::string sizes = value.substr(open + 1, close - open - 1), rest = value.substr(close + 1);
    const std::optional<Dims> shape = sizes.empty() ? Dims() : numbers_of(sizes, ',');
    if (!shape || std::any_of(shape->begin(), shape->end(), [](int64_t size) { return size < 1; }))
      refuse(name, "=", value, ": [", sizes, "] is no list of sizes from 1 on");
    TensorDesc desc(*shape, parse_dtype(value.substr(0, open)));
    if (rest.empty()) return desc;
    const std::optional<Dims> strides = numbers_of(rest.substr(1), ',');
    if (rest[0] != '/' || !strides || strides->size() != shape->size())
      refuse(name, "=", value, ": '", rest, "' is not /STRIDE,... for each size");
    desc.strides = *strides;
    return desc;
  } catch (const ValidationError& error) {
    if (error.argument() == "problem") throw;
    refuse(name, "=", value, ": ", error.what());
  }
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
