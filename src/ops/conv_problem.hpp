// A convolution as the engines see it: checked numbers. One struct serves the three directions; "x" always
// means the side of shape [N, C, H, W] and "y" that of [N, K, P, Q], whichever is read and whichever is
// written.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include <dlprim/conv.hpp>

#include "core/engine.hpp"

namespace dlprim::detail {

enum class ConvDirection : uint8_t { forward, backward_data, backward_filter };

struct ConvProblem {
  ConvDirection direction = ConvDirection::forward;
  int n = 0, c = 0, h = 0, w = 0, k = 0, r = 0, s = 0, p = 0, q = 0, groups = 1;
  /// `pad` is that in front; the output's size holds the rest.
  std::array<int, 2> stride{1, 1}, pad{0, 0}, dilation{1, 1};
  Strides x, y;                                      ///< elements, [N, C, H, W] and [N, K, P, Q]
  int64_t x_extent = 0, y_extent = 0, w_extent = 0;  ///< elements from the first to the last one
  Activation activation = Activation::identity;
  bool bias = false;

  std::array<int, 4> x_sizes() const { return {n, c, h, w}; }
  std::array<int, 4> y_sizes() const { return {n, k, p, q}; }
  int group_c() const { return c / groups; }
  int group_k() const { return k / groups; }
  int taps() const { return r * s; }
};

/// The tensors of a run: in the backward directions gradients take the place of what they are gradients of.
struct ConvTensors {
  const Tensor &x, &w, &bias, &y;
};

struct ConvImpl : EngineImpl {
  virtual void run(const Stream& stream, const ConvTensors& t, const Tensor& workspace) const = 0;
};

/// Checks descriptions and parameters. Throws ValidationError.
ConvProblem conv_problem(ConvDirection direction, const ConvDesc& desc);

/// Multiplications and additions of one run.
double conv_flops(const ConvProblem& problem);
/// "n=64 c=3 h=224 ...", for the log.
std::string conv_text(const ConvProblem& problem);

/// The matrix product that a direction is, for one group: C[m, n] = sum over k of A[m, k] B[k, n].
struct ConvGemm {
  int64_t m, n, k;
};
ConvGemm conv_gemm(const ConvProblem& problem);
/// Why an engine that counts elements and matrix columns in 32 bits cannot serve; empty if it can.
std::string refuse_large(const ConvProblem& problem);

/// Why an engine that multiplies matrices should not serve: with one channel and one filter a group they have
/// one row. Empty if it should.
std::string refuse_depthwise(const ConvProblem& problem);
/// Strides as the kernels that count in 32 bits take them: 0 where a dimension of size 1 has any stride at
/// all.
std::array<int, 4> used_strides(const Strides& strides, const std::array<int, 4>& sizes);

using ConvEngine = Engine<ConvProblem, ConvImpl>;
// The engines, each in its own conv_<name>.cpp.
extern const ConvEngine kConvCpu, kConvFma, kConvNaive;

}  // namespace dlprim::detail
