// Scalar: a number that an operator is given beside its tensors. A whole number stays exact in all 64 bits.
#pragma once

#include <cstdint>
#include <type_traits>

namespace dlprim {

/// Made of any arithmetic type, implicitly: `{0.5, n, int64_t{1} << 60}`. What is unsigned and 2^63 or more
/// is taken as a double.
class Scalar {
 public:
  template <class T, class = std::enable_if_t<std::is_arithmetic_v<T>>>
  constexpr Scalar(T value)  // NOLINT(google-explicit-constructor)
      : real_(static_cast<double>(value)) {
    if constexpr (std::is_integral_v<T>) {
      is_whole_ = std::is_signed_v<T> || static_cast<uint64_t>(value) >> 63 == 0;
      whole_ = static_cast<int64_t>(value);
    }
  }

  /// Made of a whole number that i64 holds.
  constexpr bool is_whole() const noexcept { return is_whole_; }
  /// The number, rounded to double.
  constexpr double real() const noexcept { return real_; }
  /// The number without what is behind its point. It lies within i64, or the result means nothing.
  constexpr int64_t whole() const noexcept { return is_whole_ ? whole_ : static_cast<int64_t>(real_); }
  /// i64 holds the number, or what of it is in front of the point.
  constexpr bool fits_i64() const noexcept { return is_whole_ || (real_ > -0x1p63 && real_ < 0x1p63); }

 private:
  double real_;
  int64_t whole_ = 0;
  bool is_whole_ = false;
};

}  // namespace dlprim
