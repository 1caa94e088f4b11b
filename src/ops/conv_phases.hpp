// The host's side of conv_phase.cl.
#pragma once

#include "core/launch.hpp"
#include "ops/conv_problem.hpp"

namespace dlprim::detail {

/// Pixels of the target along one axis that meet the same taps; numbers as in conv_phase.cl.
struct ConvPhase {
  int first, count, taps, lower, dilation;
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
  /// Binds AXIS_PARAMETERS.
  void bind(Launch& launch) const;
};

/// Whether some pixel of the target meets a tap outside of the source: padding, or what only the output's
/// size tells of.
bool sees_padding(const ConvProblem& p);

}  // namespace dlprim::detail
