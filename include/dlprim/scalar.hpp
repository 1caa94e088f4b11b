// Scalar: a number that an operator is given beside its tensors. A whole number stays exact in all 64 bits,
// signed or unsigned.
#pragma once

#include <cstdint>
#include <type_traits>

namespace dlprim {

/// Made of any arithmetic type, implicitly: `{0.5, n, int64_t{1} << 60}`.
class Scalar {
 public:
  template <class T, class = std::enable_if_t<std::is_arithmetic_v<T>>>
  constexpr Scalar(T value)  // NOLINT(google-explicit-constructor)
      : real_(static_cast<double>(value)) {
    if constexpr (std::is_integral_v<T>) {
      is_whole_ = std::is_signed_v<T> || static_cast<uint64_t>(value) >> 63 == 0;
      is_large_ = !is_whole_;
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
  constexpr bool fits_i64() const noexcept {
    return is_whole_ || (!is_large_ && real_ > -0x1p63 && real_ < 0x1p63);
  }
  /// i64 or u64 holds it, or what of it is in front of the point.
  constexpr bool fits_64_bits() const noexcept { return is_large_ || fits_i64() || is_far(); }
  /// The number modulo 2^64, without what is behind its point: what an element of u64 becomes. It fits 64
  /// bits, or the result means nothing.
  constexpr uint64_t modulo_2_64() const noexcept {
    if (is_large_) return static_cast<uint64_t>(whole_);
    return is_far() ? static_cast<uint64_t>(real_) : static_cast<uint64_t>(whole());
  }

 private:
  /// Made of a floating number from 2^63 on that u64 holds.
  constexpr bool is_far() const noexcept {
    return !is_whole_ && !is_large_ && real_ >= 0x1p63 && real_ < 0x1p64;
  }

  double real_;
  int64_t whole_ = 0;
  bool is_whole_ = false;
  bool is_large_ = false;  ///< made of a whole number that u64 holds and i64 does not; whole_ has its bits
};

}  // namespace dlprim
