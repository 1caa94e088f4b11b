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

/// Input `k` as the numbers that its codes stand for, f32, or as it is.
int decoded(NodeImport& node, int k);
/// The attributes of a convolution as those of the net's kind.
Attributes convolution(NodeImport& node);

/// Whether that opset of the domain has the operator, one of those that are imported. The domains beside the
/// standard's have theirs in each opset.
bool is_standard(const std::string& domain, const std::string& name, int64_t opset);

OperatorList algebra_operators();
OperatorList attention_operators();
OperatorList control_operators();
OperatorList elementwise_operators();
OperatorList index_operators();
OperatorList loss_operators();
OperatorList microsoft_operators();
OperatorList norm_operators();
OperatorList pad_operators();
OperatorList product_operators();
OperatorList quant_operators();
OperatorList random_operators();
OperatorList recurrent_operators();
OperatorList reduction_operators();
OperatorList resample_operators();
OperatorList sequence_operators();
OperatorList shape_operators();
OperatorList signal_operators();
OperatorList sort_operators();
OperatorList training_operators();

/// Of all families; several of one name serve several versions.
std::vector<const OperatorEntry*> all_operators();

}  // namespace dlprim::onnx
