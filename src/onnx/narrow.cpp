#include "onnx/narrow.hpp"

#include <algorithm>

namespace dlprim::onnx {
namespace {

constexpr Narrow kNarrow[] = {
    {ElementType::f4e2m1, "f4e2m1", 4, DType::u8, true},
    {ElementType::f8e4m3fn, "f8e4m3fn", 8, DType::u8, true},
    {ElementType::f8e4m3fnuz, "f8e4m3fnuz", 8, DType::u8, true},
    {ElementType::f8e5m2, "f8e5m2", 8, DType::u8, true},
    {ElementType::f8e5m2fnuz, "f8e5m2fnuz", 8, DType::u8, true},
    {ElementType::f8e8m0, "f8e8m0", 8, DType::u8, true},
    {ElementType::i2, "i2", 2, DType::i8, false},
    {ElementType::i4, "i4", 4, DType::i8, false},
    {ElementType::u2, "u2", 2, DType::u8, false},
    {ElementType::u4, "u4", 4, DType::u8, false},
};

constexpr const char* kMoves[] = {
    "Concat",   "DepthToSpace", "Expand",    "Flatten",   "Gather", "GatherElements",
    "GatherND", "Identity",     "Reshape",   "Slice",     "Split",  "SpaceToDepth",
    "Squeeze",  "Tile",         "Transpose", "Unsqueeze",
};

}  // namespace

const Narrow* find_narrow(ElementType type) noexcept {
  const auto* const found = std::find_if(std::begin(kNarrow), std::end(kNarrow),
                                         [&](const Narrow& narrow) { return narrow.type == type; });
  return found == std::end(kNarrow) ? nullptr : found;
}

int64_t packed_bytes(const Narrow& narrow, int64_t count) noexcept {
  const int64_t in_a_byte = 8 / narrow.bits;
  return count / in_a_byte + (count % in_a_byte != 0 ? 1 : 0);
}

std::vector<unsigned char> unpacked(const Narrow& narrow, std::string_view packed, int64_t count) {
  const unsigned mask = (1u << narrow.bits) - 1, sign = narrow.dtype == DType::i8 ? (mask + 1) / 2 : 0;
  const auto in_a_byte = static_cast<size_t>(8 / narrow.bits);
  std::vector<unsigned char> numbers(static_cast<size_t>(count));
  for (size_t i = 0; i < numbers.size(); i++) {
    const unsigned byte = static_cast<unsigned char>(packed[i / in_a_byte]);
    const unsigned low = (byte >> (i % in_a_byte * static_cast<size_t>(narrow.bits))) & mask;
    numbers[i] = static_cast<unsigned char>((low ^ sign) - sign);
  }
  return numbers;
}

bool only_moves(const std::string& op_type) noexcept {
  return std::find(std::begin(kMoves), std::end(kMoves), op_type) != std::end(kMoves);
}

}  // namespace dlprim::onnx
