// A problem as a line of text, "gemm m=64 n=64 k=64 dtype=f16", as in bench/shapes, and as in the log behind
// "op="; and the words in it.
#pragma once

#include <initializer_list>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <dlprim/plan.hpp>
#include <dlprim/tensor.hpp>

#include "core/text.hpp"

namespace dlprim::detail {

/// "strict", "standard", "tf32".
const char* name_of(MathMode mode) noexcept;
/// The inverse. Throws ValidationError.
MathMode parse_math(const std::string& name);
/// "m=64 n=32" as names and sizes. Throws ValidationError.
std::vector<std::pair<std::string, int64_t>> parse_sizes(const std::string& text);

/// The fields of a line, taken by name. Everything throws ValidationError with the line in its text.
class ProblemLine {
 public:
  explicit ProblemLine(const std::string& text);
  const std::string& op() const { return op_; }

  /// A whole number from 1 to 2^31 - 4097. Without `otherwise` (0) it has to be there.
  int64_t size(const std::string& name, int64_t otherwise = 0);
  /// Whether the line has the field, and it was not taken yet.
  bool has(const std::string& name) const { return fields_.count(name) != 0; }
  /// A whole number below 2^39 in magnitude, `otherwise` if it is not there.
  int64_t whole(const std::string& name, int64_t otherwise);
  /// "1,-2" as such numbers, with this separator.
  Dims integers(const std::string& name, char separator, const Dims& otherwise);
  /// Any finite number.
  double number(const std::string& name, double otherwise);
  /// 1 or 0, which it is if it is not there.
  bool flag(const std::string& name) { return word(name, {"0", "1"}) == "1"; }
  /// "f32[2,3]", or with strides "f32[2,3]/1,2". It has to be there, and to have elements.
  TensorDesc tensor(const std::string& name);
  /// "56x56" as whole numbers from 0 to 2^31 - 4097; `otherwise` if it is not there, which has to be if that
  /// is empty.
  Dims sizes(const std::string& name, const Dims& otherwise);
  /// One of `words`, the first if it is not there.
  std::string word(const std::string& name, std::initializer_list<const char*> words);
  DType dtype(const std::string& name, DType otherwise);
  /// Any text without white space.
  std::string text(const std::string& name, const std::string& otherwise);
  /// Every field was taken.
  void finish() const;

  /// Throws ValidationError with the line and the parts.
  template <class... Parts>
  [[noreturn]] void refuse(const Parts&... parts) const {
    throw ValidationError("problem", cat("'", text_, "': ", parts...));
  }

 private:
  /// Takes the field out; empty if there is none.
  std::string take(const std::string& name);

  std::string text_, op_;
  std::map<std::string, std::string> fields_;
};

}  // namespace dlprim::detail
