// Element types: names, sizes, and the host's conversions.
#include <dlprim/dtype.hpp>

#include <string>

namespace dlprim {
namespace {

struct Row {
  DType dtype;
  const char* name;
  size_t size;
};
constexpr Row kRows[] = {{DType::f32, "f32", 4},      {DType::f16, "f16", 2}, {DType::bf16, "bf16", 2},
                         {DType::f64, "f64", 8},      {DType::i8, "i8", 1},   {DType::u8, "u8", 1},
                         {DType::i16, "i16", 2},      {DType::i32, "i32", 4}, {DType::i64, "i64", 8},
                         {DType::boolean, "bool", 1}, {DType::u16, "u16", 2}, {DType::u32, "u32", 4},
                         {DType::u64, "u64", 8}};

uint32_t bits_of(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  return bits;
}
float float_of(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}

}  // namespace

size_t size_of(DType dtype) noexcept {
  return kRows[static_cast<size_t>(dtype)].size;
}
const char* name_of(DType dtype) noexcept {
  return kRows[static_cast<size_t>(dtype)].name;
}

DType parse_dtype(std::string_view name) {
  for (const Row& row : kRows)
    if (name == row.name) return row.dtype;
  throw ValidationError("dtype", "'" + std::string(name) +
                                     "' is not one of f32 f16 bf16 f64 i8 u8 i16 i32 i64 bool u16 u32 u64");
}

half_t to_half(float value) noexcept {
  const uint32_t bits = bits_of(value);
  const auto sign = static_cast<uint16_t>((bits >> 16) & 0x8000u);
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return {static_cast<uint16_t>(sign | 0x7e00u)};
  if (magnitude >= 0x477ff000u) return {static_cast<uint16_t>(sign | 0x7c00u)};  // rounds past 65504
  if (magnitude < 0x38800000u) {  // subnormal in half: let the float adder round to units of 2^-24
    const uint32_t units = bits_of(float_of(magnitude) + 0.5f) - bits_of(0.5f);
    return {static_cast<uint16_t>(sign | units)};
  }
  const uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
  return {static_cast<uint16_t>(sign | ((rounded - 0x38000000u) >> 13))};
}

bfloat16_t to_bfloat16(float value) noexcept {
  const uint32_t bits = bits_of(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return {static_cast<uint16_t>((bits >> 16) | 0x40u)};
  return {static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16)};
}

float to_float(half_t value) noexcept {
  const uint32_t sign = static_cast<uint32_t>(value.bits & 0x8000u) << 16;
  const uint32_t exponent = (value.bits >> 10) & 0x1fu;
  const uint32_t mantissa = value.bits & 0x3ffu;
  if (exponent == 31) return float_of(sign | 0x7f800000u | (mantissa << 13));
  if (exponent == 0) {
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return sign ? -magnitude : magnitude;
  }
  return float_of(sign | ((exponent + 112u) << 23) | (mantissa << 13));
}

float to_float(bfloat16_t value) noexcept {
  return float_of(static_cast<uint32_t>(value.bits) << 16);
}

}  // namespace dlprim
