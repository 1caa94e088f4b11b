// The kinds of each family, one list a file. list.cpp joins them.
#pragma once

#include "net/nodes/node.hpp"

namespace dlprim::detail {

/// A constant array of kinds.
struct KindList {
  const NodeKind* first;
  size_t count;
  const NodeKind* begin() const { return first; }
  const NodeKind* end() const { return first + count; }
};
template <size_t N>
constexpr KindList list_of(const NodeKind (&kinds)[N]) {
  return {kinds, N};
}

KindList algebra_kinds();
KindList attention_kinds();
KindList backward_kinds();
KindList cache_kinds();
KindList code_kinds();
KindList control_kinds();
KindList elementwise_kinds();
KindList index_kinds();
KindList loss_kinds();
KindList ngram_kinds();
KindList norm_kinds();
KindList pad_kinds();
KindList pattern_kinds();
KindList product_kinds();
KindList quant_kinds();
KindList random_kinds();
KindList recurrent_kinds();
KindList reduction_kinds();
KindList region_kinds();
KindList resize_kinds();
KindList sample_kinds();
KindList scatter_kinds();
KindList shape_kinds();
KindList signal_kinds();
KindList sort_kinds();

/// Of all families.
std::vector<const NodeKind*> all_kinds();

}  // namespace dlprim::detail
