// Convolution problems, with references as plain loops in double and operation counts. Tests and benchmarks
// share them.
#pragma once

#include <string>
#include <vector>

#include <dlprim/conv.hpp>

#include "support.hpp"

namespace dlprim::test {

/// How x, y and their gradients lie in memory.
enum class Layout : uint8_t {
  nchw,
  nhwc,
  gaps  ///< NCHW with unused elements behind every row and plane
};

struct ConvCase {
  std::string name;
  int64_t n, c, h, w, k, r, s;
  ConvParams params;
  Layout layout = Layout::nchw;

  Shape x_shape() const { return {n, c, h, w}; }
  Shape w_shape() const { return {k, c / params.groups, r, s}; }
  Shape y_shape() const { return conv2d_output_shape(x_shape(), w_shape(), params); }
  /// Multiplications and additions of one run in any direction, padding counted as work.
  double flops() const;
  /// Bytes of x, w and y.
  double bytes() const;
  /// One line that tells the case from all others.
  std::string text() const;
  ConvCase with_batch(int64_t batch) const;
};

/// Strides of `shape` in a layout.
Strides strides_in(Layout layout, const Shape& shape);

/// The convolutions that GPU libraries are compared by: nine layers of image networks, batch 64.
const std::vector<ConvCase>& network_convs();
/// The two layers of the small training demo, batch 128.
const std::vector<ConvCase>& demo_convs();
/// Problems chosen for an edge each: sizes of 0 and 1, padding beyond the kernel, kernels beyond the input,
/// ...
const std::vector<ConvCase>& odd_convs();
/// Problems larger than one tile in every direction, with remainders.
const std::vector<ConvCase>& tiled_convs();
/// Small problems with everything drawn at random.
std::vector<ConvCase> random_convs(int count, uint64_t seed);

/// Row-major results from row-major operands. `bias` is empty or [K].
std::vector<double> conv_forward_reference(const ConvCase& c, const std::vector<float>& x,
                                           const std::vector<float>& w, const std::vector<float>& bias);
std::vector<double> conv_backward_data_reference(const ConvCase& c, const std::vector<float>& dy,
                                                 const std::vector<float>& w);
std::vector<double> conv_backward_filter_reference(const ConvCase& c, const std::vector<float>& x,
                                                   const std::vector<float>& dy);

}  // namespace dlprim::test
