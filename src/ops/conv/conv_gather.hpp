// The host's side of conv_gather.cl: a convolution as a matrix product whose operands are gathered, the
// source of pixels and the other one, w or, in backward filter, dy.
#pragma once

#include "ops/conv/conv_phases.hpp"
#include "ops/gemm/gemm_impl.hpp"
#include "ops/lib/divisor.hpp"

namespace dlprim::detail {

#include "kernels/conv/conv_gather.h"

/// How a tensor's elements lie: of images (w: rows for each of the target's channels), channels (w: the
/// source's) and along the axes; and where groups begin. In elements.
struct ConvGatherTensor {
  ConvStrides strides{};
  int64_t group = 0;
};

struct ConvGather {
  explicit ConvGather(const ConvProblem& p);

  bool filter() const { return direction == ConvDirection::backward_filter; }
  /// The product for one group: rows of the source's matrix, and of the other operand's; steps of the sum. In
  /// the phase that has most pixels.
  int64_t source_rows() const;
  int64_t steps() const;
  int phases() const { return axes[0].phases * axes[1].phases * axes[2].phases; }
  /// Phases meet fewer taps than there are, also where there is only one of them.
  bool strided() const;
  int64_t taps() const { return int64_t{axes[0].taps} * axes[1].taps * axes[2].taps; }

  /// How the kernel's loads may take the operands, in words of `vector` elements, `aligned` their first ones:
  /// unit_k and vectors of a GemmOperand.
  GemmOperand source_loads(int vector, bool aligned) const;
  GemmOperand other_loads(int vector, bool aligned) const;

  void define(Defines& defines) const;
  /// As kernels take it.
  GatherShape shape() const;

  // What follows from the problem, unless operands lie otherwise than it says.
  ConvDirection direction;
  int images, channels, target_channels;  ///< channels of the source and the target in a group
  std::array<ConvAxis, 3> axes;
  ConvGatherTensor source, target, w;
  bool depth, window;
  bool channels_last;  ///< neighbouring taps are channels
  bool by_planes;      ///< pixels of source and target are the same ones, in planes without gaps
};

}  // namespace dlprim::detail
