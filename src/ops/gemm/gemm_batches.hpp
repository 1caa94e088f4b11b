// Batches of products with any number of dimensions, as one batch of at most one and the dimensions that are
// left to loop over.
#pragma once

#include <array>
#include <vector>

#include <dlprim/gemm.hpp>

namespace dlprim::detail {

/// Made by gemm_batches() from a description that may have any rank from 2 on.
struct GemmBatches {
  GemmDesc product;  ///< of rank 2 or 3
  struct Dimension {
    int64_t size;
    std::array<int64_t, 3> strides;  ///< of a, b and c, in elements
  };
  std::vector<Dimension>
      outer;  ///< what the products of one plan are repeated over, the first one the slowest

  int64_t count() const;
  /// Elements from the first product's a, b and c to those of number `index`.
  std::array<int64_t, 3> offsets(int64_t index) const;
};

/// Neighbouring dimensions that all three tensors lie in as in one become one, the largest of them the
/// product's own batch. Throws ValidationError: ranks, or dimensions in front of the last two that differ.
GemmBatches gemm_batches(const GemmDesc& desc);

}  // namespace dlprim::detail
