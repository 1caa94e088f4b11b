// The operators of each family: one list a file, which operators.cpp searches.
#pragma once

#include "onnx/importer.hpp"

namespace dlprim::onnx {

struct OperatorList {
  const OperatorEntry* first;
  size_t count;
  const OperatorEntry* begin() const { return first; }
  const OperatorEntry* end() const { return first + count; }
};
template <size_t N>
constexpr OperatorList list_of(const OperatorEntry (&entries)[N]) {
  return {entries, N};
}

OperatorList algebra_operators();
OperatorList elementwise_operators();
OperatorList index_operators();
OperatorList product_operators();
OperatorList random_operators();
OperatorList reduction_operators();
OperatorList shape_operators();
OperatorList signal_operators();
OperatorList sort_operators();
OperatorList training_operators();

}  // namespace dlprim::onnx
