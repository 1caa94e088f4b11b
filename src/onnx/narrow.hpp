// Types of 8 bits and less that are no dtype. In a graph they are u8 or i8, one number a byte (the net's
// kinds `decode` and `encode`): the importer knows of each value whether it is one of these, and lets
// operators that only move numbers move it, and casts and quantisation make and read it. Others refuse it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <dlprim/dtype.hpp>

#include "onnx/proto.hpp"

namespace dlprim::onnx {

struct Narrow {
  ElementType type;
  const char* format;  ///< as the net's kinds call it
  int bits;
  DType dtype;    ///< that has it, one number a byte
  bool floating;  ///< the byte is a code
};
/// Null if the type is another.
const Narrow* find_narrow(ElementType type) noexcept;

/// Bytes that `count` numbers take in a file: packed from the lowest bits on.
int64_t packed_bytes(const Narrow& narrow, int64_t count) noexcept;
/// One number a byte.
std::vector<unsigned char> unpacked(const Narrow& narrow, std::string_view packed, int64_t count);

/// Whether the operator of ONNX's own domain moves numbers and does nothing else with its first input's.
bool only_moves(const std::string& op_type) noexcept;

}  // namespace dlprim::onnx
