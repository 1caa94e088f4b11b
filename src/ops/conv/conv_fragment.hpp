// Kernels of conv_fragment.cl: gemm_fragment.hpp for convolution.
#pragma once

#include "ops/conv/conv_gather.hpp"
#include "ops/gemm/gemm_fragment.hpp"

namespace dlprim::detail {

struct ConvFragmentKernel {
  /// Tiles are chosen as for the product, those of backward filter as if there were many parts.
  ConvFragmentKernel(const MatrixFragment& fragment, const ConvProblem& problem, const EngineOptions& options,
                     int lanes, int units);
  /// `parts`: sums go to parts.
  Defines defines(const ConvProblem& problem, bool parts) const;

  ConvGather gather;
  bool source_rows;  ///< the source's rows are the product's rows
  GemmProblem product;
  GemmFragmentKernel kernel;

  int64_t source_tiles() const;
  int64_t other_tiles() const;
};

}  // namespace dlprim::detail
