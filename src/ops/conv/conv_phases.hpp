// The host's side of conv_phase.cl.
#pragma once

#include <vector>

#include "ops/conv/conv_problem.hpp"

namespace dlprim::detail {

#include "kernels/conv/conv_phase.h"

/// Pixels of the target along one axis that meet the same taps; numbers as in conv_phase.cl.
struct ConvPhase {
  int first, count, taps, lower, dilation;
  int last = 0, step = -1;
};

/// One axis of forward or backward data.
struct ConvAxis {
  ConvAxis() = default;
  ConvAxis(const ConvProblem& p, size_t axis);

  bool backward = false;
  int target = 1, source = 1, taps = 1, stride = 1, phases = 1, step = 1, pad = 0, dilation = 1;

  ConvPhase phase(int index) const;
  /// From one pixel of a phase to the next, in the source.
  int source_step() const { return backward ? 1 : stride; }
  /// As kernels take it.
  PhaseAxis numbers() const { return {target, source, taps, stride, phases, step, pad, dilation}; }
};

/// Forward, which is one pass, or a phase of backward data: a convolution of the pixels [first, first +
/// count) of the target, which are `target_step` apart.
struct ConvPass {
  std::array<ConvPhase, 3> axes;
  Spatial source_step, target_step;

  Spatial pixels() const { return {axes[0].count, axes[1].count, axes[2].count}; }
  Spatial window() const { return {axes[0].taps, axes[1].taps, axes[2].taps}; }
  Spatial pad() const { return {-axes[0].lower, -axes[1].lower, -axes[2].lower}; }
  Spatial dilation() const { return {axes[0].dilation, axes[1].dilation, axes[2].dilation}; }
  int64_t count() const { return int64_t{axes[0].count} * axes[1].count * axes[2].count; }
  int taps() const { return axes[0].taps * axes[1].taps * axes[2].taps; }

  /// Views that begin at the first pixel of the pass, and at the tap that meets its lowest source element.
  Tensor of_target(const Tensor& x) const;
  Tensor of_w(const Tensor& w) const;
  /// From one pixel of the pass to the next, and from one tap to the next.
  ConvStrides target_strides(const ConvStrides& strides) const;
  ConvStrides w_strides(const ConvStrides& strides) const;
};

/// Those that have pixels.
std::vector<ConvPass> conv_passes(const ConvProblem& p);

/// Whether some pixel of the target meets a tap outside of the source: padding, or what only the output's
/// size tells of.
bool sees_padding(const ConvProblem& p);

}  // namespace dlprim::detail
