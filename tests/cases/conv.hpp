// Convolution problems, with references as plain loops in double and operation counts. Tests and benchmarks
// share them.
#pragma once

#include <string>
#include <vector>

#include <dlprim/conv.hpp>

#include "support.hpp"

namespace dlprim::test {

/// How a tensor lies in memory.
enum class Layout : uint8_t {
  nchw,
  nhwc,
  gaps,  ///< NCHW with unused elements behind every row and plane
  part   ///< NHWC with 8 and more unused channels behind each pixel's: a part of a concatenation
};

struct ConvCase {
  std::string name;
  int64_t n, c;
  Dims size;  ///< of x's planes
  int64_t k;
  Dims window;
  ConvParams params = {};
  Layout x_layout = Layout::nchw, y_layout = Layout::nchw, w_layout = Layout::nchw;
  DType dtype = DType::f32;
  bool aligned = false;  ///< x, w and y start at multiples of 16 bytes

  Shape x_shape() const;
  Shape w_shape() const;
  Shape y_shape() const { return conv_output_shape(x_shape(), w_shape(), params); }
  int64_t taps() const { return element_count(window); }
  /// Multiplications and additions of one run in any direction, padding counted as work.
  double flops() const;
  /// Bytes of x, w and y.
  double bytes() const;
  /// One line that tells the case from all others.
  std::string text() const;
  ConvCase with_batch(int64_t batch) const;
  /// x and y in that layout.
  ConvCase in(Layout layout) const;
  /// Elements of an operand's memory before its first one, and of a result's.
  int64_t operand_offset() const { return aligned ? 64 : 5; }
  int64_t result_offset() const { return aligned ? 64 : 37; }
};

/// Strides of `shape` in a layout.
Strides strides_in(Layout layout, const Shape& shape);

/// The convolutions that GPU libraries are compared by: nine layers of image networks, batch 64.
const std::vector<ConvCase>& network_convs();
/// The two layers of the small training demo, batch 128.
const std::vector<ConvCase>& demo_convs();
/// Problems chosen for an edge each: sizes of 0 and 1, padding beyond the kernel, kernels beyond the input,
/// one and three dimensions, transposed ones, ...
const std::vector<ConvCase>& odd_convs();
/// Groups of few channels, mostly one, for what engines of such have of their own.
const std::vector<ConvCase>& depthwise_convs();
/// Problems larger than one tile in every direction, with remainders.
const std::vector<ConvCase>& tiled_convs();
/// Small problems with everything drawn at random.
std::vector<ConvCase> random_convs(int count, uint64_t seed);

/// The descriptions of the backward directions of a convolution; gradients lie as what they are gradients of.
inline ConvBackwardDataDesc backward_data_of(const ConvDesc& desc) {
  return {desc.y, desc.w, desc.x, desc.params};
}
inline ConvBackwardFilterDesc backward_filter_of(const ConvDesc& desc) {
  return {desc.x, desc.y, desc.w, desc.params, Write::replace, desc.prologue, desc.prologue_activation};
}
/// The one that a plan P is made of.
template <class P>
auto conv_desc_of(const ConvDesc& desc) {
  if constexpr (std::is_same_v<P, ConvBackwardData>)
    return backward_data_of(desc);
  else if constexpr (std::is_same_v<P, ConvBackwardFilter>)
    return backward_filter_of(desc);
  else
    return desc;
}

/// Why a plan, Conv or that of a backward direction, is not made; empty if it is.
template <class P>
std::string conv_refusal(const ConvDesc& desc, const Options& options) {
  try {
    P(context(), conv_desc_of<P>(desc), options);
  } catch (const ValidationError& error) {
    return error.what();
  }
  return {};
}

/// All engines of convolution.
std::vector<std::string> conv_engines();
/// The engines that DLPRIM_TEST_ENGINES lists, which may have parameters, or all whose sums of small integers
/// are exact.
std::vector<std::string> exact_conv_engines();
/// Those of them that serve the case's forward direction on this device, asked for by name; `gemm` and
/// depthwise ones are not among them.
std::vector<std::string> serving_conv_engines(const ConvCase& c);
/// Whether the device's own matrix hardware, if it has some, is among `engines`: a check of "every engine
/// that serves" is empty where it refuses.
bool has_matrix_engine(const std::vector<std::string>& engines);

/// What comes after the sums; each is empty or as large as ConvExtras says.
struct ConvEpilogueData {
  std::vector<float> bias = {}, scale = {}, residual = {};
};

/// Row-major results from row-major operands.
std::vector<double> conv_forward_reference(const ConvCase& c, const std::vector<float>& x,
                                           const std::vector<float>& w, const ConvEpilogueData& with = {});
std::vector<double> conv_backward_data_reference(const ConvCase& c, const std::vector<float>& dy,
                                                 const std::vector<float>& w);
std::vector<double> conv_backward_filter_reference(const ConvCase& c, const std::vector<float>& x,
                                                   const std::vector<float>& dy);

/// How many results are not as expected: other NaN, other infinities, or off by 1e-5 of the largest finite
/// one (and 1e-43, what sums of denormals lose).
size_t conv_differences(const std::vector<float>& got, const std::vector<float>& expected);

}  // namespace dlprim::test
