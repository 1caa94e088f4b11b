// Element types of tensors, and the host's conversions for the two 16-bit floats.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include <dlprim/error.hpp>
#include <dlprim/export.hpp>

namespace dlprim {

/// f16 and bf16 work on every device: where it lacks the arithmetic they are storage, computed in f32.
/// `boolean` is one byte, 0 or 1. u16, u32 and u64 are stored, moved, converted, sorted, and computed with
/// element by element and in reductions; operators that are no such thing refuse them.
enum class DType : uint8_t { f32, f16, bf16, f64, i8, u8, i16, i32, i64, boolean, u16, u32, u64 };

/// Bytes of one element.
DLPRIM_API size_t size_of(DType dtype) noexcept;
/// "f32", "bf16", "bool", ...
DLPRIM_API const char* name_of(DType dtype) noexcept;
/// The inverse of name_of. Throws ValidationError for an unknown name.
DLPRIM_API DType parse_dtype(std::string_view name);

inline bool is_floating(DType dtype) noexcept {
  return dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16 || dtype == DType::f64;
}

/// i8, i16, i32, i64.
inline bool is_signed_integer(DType dtype) noexcept {
  return dtype == DType::i8 || dtype == DType::i16 || dtype == DType::i32 || dtype == DType::i64;
}

/// An IEEE 754 binary16 value as stored on the host.
struct half_t {
  uint16_t bits = 0;
};
/// A bfloat16 value as stored on the host: the upper half of a float.
struct bfloat16_t {
  uint16_t bits = 0;
};

/// Round to nearest even; NaN stays NaN, overflow gives infinity.
DLPRIM_API half_t to_half(float value) noexcept;
DLPRIM_API bfloat16_t to_bfloat16(float value) noexcept;
DLPRIM_API float to_float(half_t value) noexcept;
DLPRIM_API float to_float(bfloat16_t value) noexcept;

/// The DType of a C++ type: dtype_of<float> is DType::f32.
template <class T>
inline constexpr bool kUnknownType = false;
template <class T>
constexpr DType dtype_for() {
  static_assert(kUnknownType<T>, "this C++ type has no dlprim DType");
  return DType::f32;
}
template <>
constexpr DType dtype_for<float>() {
  return DType::f32;
}
template <>
constexpr DType dtype_for<double>() {
  return DType::f64;
}
template <>
constexpr DType dtype_for<half_t>() {
  return DType::f16;
}
template <>
constexpr DType dtype_for<bfloat16_t>() {
  return DType::bf16;
}
template <>
constexpr DType dtype_for<int8_t>() {
  return DType::i8;
}
template <>
constexpr DType dtype_for<uint8_t>() {
  return DType::u8;
}
template <>
constexpr DType dtype_for<int16_t>() {
  return DType::i16;
}
template <>
constexpr DType dtype_for<int32_t>() {
  return DType::i32;
}
template <>
constexpr DType dtype_for<int64_t>() {
  return DType::i64;
}
template <>
constexpr DType dtype_for<bool>() {
  return DType::boolean;
}
template <>
constexpr DType dtype_for<uint16_t>() {
  return DType::u16;
}
template <>
constexpr DType dtype_for<uint32_t>() {
  return DType::u32;
}
template <>
constexpr DType dtype_for<uint64_t>() {
  return DType::u64;
}

}  // namespace dlprim
