// Element types: names, sizes, and the conversions of the two 16-bit floats, for every one of their values.
#include <cmath>
#include <cstring>
#include <limits>
#include <set>
#include <string>

#include <dlprim/dtype.hpp>

#include "catch.hpp"

using namespace dlprim;

namespace {

constexpr DType kAll[] = {DType::f32, DType::f16, DType::bf16, DType::f64, DType::i8,
                          DType::u8,  DType::i16, DType::i32,  DType::i64, DType::boolean,
                          DType::u16, DType::u32, DType::u64};

uint32_t bits_of(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

/// A 16-bit float's value from its fields, in double: exact.
double decoded(unsigned bits, int mantissa_bits, int bias) {
  const unsigned magnitude = bits & 0x7fffu, fraction = magnitude & ((1u << mantissa_bits) - 1);
  const int exponent = static_cast<int>(magnitude >> mantissa_bits);
  const double value = exponent == 0
                           ? std::ldexp(fraction, 1 - bias - mantissa_bits)
                           : std::ldexp(fraction + (1u << mantissa_bits), exponent - bias - mantissa_bits);
  return bits & 0x8000u ? -value : value;
}

/// Every property that a 16-bit float's pair of conversions must have. `to16` and `to32` work on bits.
template <class To16, class To32>
void check_format(int mantissa_bits, int bias, To16 to16, To32 to32) {
  const unsigned infinity = 0x7fffu >> mantissa_bits << mantissa_bits;
  int bad_values = 0, bad_round_trips = 0, bad_nan = 0, bad_rounding = 0;
  for (unsigned bits = 0; bits <= 0xffffu; bits++) {
    const float value = to32(bits);
    const unsigned magnitude = bits & 0x7fffu;
    if (magnitude > infinity) {  // NaN, of the same sign
      bad_nan += !std::isnan(value) || std::signbit(value) != (bits >= 0x8000u);
      const unsigned back = to16(value);
      bad_nan += (back & 0x7fffu) <= infinity || (back & 0x8000u) != (bits & 0x8000u);
      continue;
    }
    if (magnitude == infinity)
      bad_values += !std::isinf(value) || std::signbit(value) != (bits >= 0x8000u);
    else
      bad_values += value != decoded(bits, mantissa_bits, bias) || std::signbit(value) != (bits >= 0x8000u);
    bad_round_trips += to16(value) != bits;
  }
  CHECK(bad_values == 0);
  CHECK(bad_round_trips == 0);
  CHECK(bad_nan == 0);

  // Rounding changes its result only at the middle between two neighbours; infinity stands where the next
  // finite number would be.
  for (unsigned low = 0; low < infinity; low++) {
    const double middle = (decoded(low, mantissa_bits, bias) + decoded(low + 1, mantissa_bits, bias)) / 2;
    const auto tie = static_cast<float>(middle);
    if (tie != middle) continue;  // below float's own resolution
    const unsigned even = low % 2 == 0 ? low : low + 1;
    bad_rounding += to16(tie) != even || to16(-tie) != (even | 0x8000u);
    bad_rounding += to16(std::nextafter(tie, 0.0f)) != low;
    bad_rounding += to16(std::nextafter(tie, std::numeric_limits<float>::infinity())) != low + 1;
  }
  CHECK(bad_rounding == 0);
  CHECK(to16(std::numeric_limits<float>::max()) == infinity);
  CHECK(to16(-std::numeric_limits<float>::infinity()) == (infinity | 0x8000u));
  CHECK(to16(std::numeric_limits<float>::denorm_min()) == 0u);
  CHECK(to16(-0.0f) == 0x8000u);
}

}  // namespace

TEST_CASE("dtype: names and sizes", "[dtype]") {
  std::set<std::string> names;
  for (DType dtype : kAll) {
    names.insert(name_of(dtype));
    CHECK(parse_dtype(name_of(dtype)) == dtype);
  }
  CHECK(names.size() == 13);
  CHECK(size_of(DType::f32) == 4);
  CHECK(size_of(DType::f64) == 8);
  CHECK(size_of(DType::bf16) == 2);
  CHECK(size_of(DType::boolean) == 1);
  CHECK(size_of(DType::i64) == 8);
  CHECK(std::string(name_of(DType::boolean)) == "bool");
  CHECK(dtype_for<half_t>() == DType::f16);
  CHECK(size_of(dtype_for<int16_t>()) == sizeof(int16_t));
  CHECK(static_cast<int>(DType::boolean) == 9);  // plans on disk have the numbers
  CHECK(size_of(dtype_for<uint16_t>()) == 2);
  CHECK(size_of(dtype_for<uint32_t>()) == 4);
  CHECK(size_of(dtype_for<uint64_t>()) == 8);
  CHECK(std::string(name_of(dtype_for<uint64_t>())) == "u64");
  for (DType dtype : kAll) {
    INFO(name_of(dtype));
    CHECK(is_signed_integer(dtype) == (name_of(dtype)[0] == 'i'));
  }
  CHECK(is_floating(DType::bf16));
  CHECK_FALSE(is_floating(DType::boolean));
}

TEST_CASE("dtype: an unknown name is refused with the names there are", "[dtype]") {
  try {
    parse_dtype("float32");
    FAIL("accepted");
  } catch (const ValidationError& error) {
    CHECK(error.argument() == "dtype");
    CHECK(std::string(error.what()).find("'float32'") != std::string::npos);
    CHECK(std::string(error.what()).find("bf16") != std::string::npos);
  }
  CHECK_THROWS_AS(parse_dtype(""), ValidationError);
  CHECK_THROWS_AS(parse_dtype("f3"), ValidationError);
}

TEST_CASE("dtype: every f16 value converts exactly and every rounding boundary is right", "[dtype]") {
  check_format(
      10, 15, [](float value) -> unsigned { return to_half(value).bits; },
      [](unsigned bits) { return to_float(half_t{static_cast<uint16_t>(bits)}); });
}

TEST_CASE("dtype: every bf16 value converts exactly and every rounding boundary is right", "[dtype]") {
  check_format(
      7, 127, [](float value) -> unsigned { return to_bfloat16(value).bits; },
      [](unsigned bits) { return to_float(bfloat16_t{static_cast<uint16_t>(bits)}); });
}

TEST_CASE("dtype: a NaN whose payload lies in the dropped bits stays NaN", "[dtype]") {
  for (uint32_t payload = 1; payload < 0x800000u; payload *= 2) {
    const uint32_t bits = 0x7f800000u | payload;
    float nan;
    std::memcpy(&nan, &bits, sizeof nan);
    CHECK(std::isnan(to_float(to_half(nan))));
    CHECK(std::isnan(to_float(to_bfloat16(nan))));
  }
  CHECK(bits_of(to_float(bfloat16_t{0x3f80})) == 0x3f800000u);
}
