// The least and the largest number of an integer dtype.
#pragma once

#include <cstdint>

#include <dlprim/dtype.hpp>

namespace dlprim::detail {

struct IntegerRange {
  int64_t least;
  uint64_t most;
};

/// Of bool 0 and 1. Not for floating dtypes.
constexpr IntegerRange integer_range(DType dtype) {
  switch (dtype) {
    case DType::boolean:
      return {0, 1};
    case DType::i8:
      return {INT8_MIN, INT8_MAX};
    case DType::u8:
      return {0, UINT8_MAX};
    case DType::i16:
      return {INT16_MIN, INT16_MAX};
    case DType::u16:
      return {0, UINT16_MAX};
    case DType::i32:
      return {INT32_MIN, INT32_MAX};
    case DType::u32:
      return {0, UINT32_MAX};
    case DType::u64:
      return {0, UINT64_MAX};
    default:
      return {INT64_MIN, INT64_MAX};
  }
}

/// Of the lowest `bits` of them, 1 at least.
inline IntegerRange integer_range(DType dtype, int64_t bits) {
  const IntegerRange all = integer_range(dtype);
  const int64_t fewer = static_cast<int64_t>(size_of(dtype)) * 8 - bits;
  return {all.least >> fewer, all.most >> fewer};
}

}  // namespace dlprim::detail
