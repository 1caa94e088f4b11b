// Dims: up to eight signed 64-bit numbers held in place. It is a tensor's shape, its strides, or a list of
// axes.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include <dlprim/error.hpp>
#include <dlprim/export.hpp>

namespace dlprim {

inline constexpr int kMaxRank = 8;

class Dims {
 public:
  Dims() = default;
  Dims(std::initializer_list<int64_t> values) {
    for (int64_t v : values) push_back(v);
  }
  explicit Dims(const std::vector<int64_t>& values) {
    for (int64_t v : values) push_back(v);
  }
  /// `count` copies of `value`.
  static Dims filled(int count, int64_t value) {
    Dims d;
    for (int i = 0; i < count; i++) d.push_back(value);
    return d;
  }

  int size() const noexcept { return size_; }
  bool empty() const noexcept { return size_ == 0; }
  int64_t operator[](int i) const noexcept { return values_[static_cast<size_t>(i)]; }
  int64_t& operator[](int i) noexcept { return values_[static_cast<size_t>(i)]; }
  const int64_t* begin() const noexcept { return values_.data(); }
  const int64_t* end() const noexcept { return values_.data() + size_; }
  int64_t back() const noexcept { return values_[static_cast<size_t>(size_ - 1)]; }

  /// Throws ValidationError past kMaxRank.
  void push_back(int64_t value) {
    if (size_ == kMaxRank) throw ValidationError("dims", "more than 8 dimensions");
    values_[static_cast<size_t>(size_++)] = value;
  }

  friend bool operator==(const Dims& a, const Dims& b) noexcept {
    if (a.size_ != b.size_) return false;
    for (int i = 0; i < a.size_; i++)
      if (a[i] != b[i]) return false;
    return true;
  }
  friend bool operator!=(const Dims& a, const Dims& b) noexcept { return !(a == b); }

 private:
  std::array<int64_t, kMaxRank> values_{};
  int size_ = 0;
};

using Shape = Dims;
using Strides = Dims;

/// The product of the sizes: 1 for rank 0. Throws ValidationError if a size is negative, or if the product of
/// those that are not zero, in bytes of the widest dtype, does not fit in 63 bits.
DLPRIM_API int64_t element_count(const Shape& shape);
/// Row-major strides, in elements.
DLPRIM_API Strides contiguous_strides(const Shape& shape);
/// The shape that `a` and `b` broadcast to by the usual rule (align right; 1 stretches).
/// Throws ValidationError when they do not.
DLPRIM_API Shape broadcast_shapes(const Shape& a, const Shape& b);
/// "[64, 3, 28, 28]"
DLPRIM_API std::string to_string(const Dims& dims);

}  // namespace dlprim
