// Convolutions for the winograd engines, and running them: what their two test programs share.
#pragma once

#include <string>
#include <vector>

#include "cases/conv.hpp"

namespace dlprim::test {

/// Tiles cut off on every side, windows along one axis, padding beyond the window and negative, more channels
/// than vectors are long.
std::vector<ConvCase> winograd_convs();

/// A view in the layout that holds `values` and starts at element `first` of the memory.
Tensor strided_operand(Layout layout, const Shape& shape, const std::vector<float>& values, DType dtype,
                       int64_t first = 5);

struct ConvData {
  std::vector<float> x, w, y;
};
ConvData integer_conv_data(const ConvCase& c, uint64_t seed = 1);
/// Uniform in [-1, 1).
ConvData real_conv_data(const ConvCase& c);

struct ConvResults {
  std::vector<float> y, dx, dw;
  bool intact = true, repeats = true;  ///< nothing else was written; second runs gave the same bits
};
/// All three directions, on poisoned, guarded results, twice. Operands start at element `first`; where that
/// is a multiple of 4, tensors of f32 are aligned, and so are results.
ConvResults run_conv(const ConvCase& c, const ConvData& data, const Options& options, int64_t first = 5);

/// As the dtype holds them.
std::vector<float> rounded_to(DType dtype, const std::vector<double>& values);

}  // namespace dlprim::test
