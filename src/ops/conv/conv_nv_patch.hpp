// Kernels of conv_nv_patch.cl, apart from the engine, so that they can be compiled off line.
#pragma once

#include "core/defines.hpp"
#include "ops/conv/conv_axes.hpp"
#include "ops/lib/divisor.hpp"

namespace dlprim::detail {

#include "kernels/conv/conv_nv_patch.h"

/// What choosing a tile asks.
struct ConvNvPatchDevice {
  int units = 1;
  uint64_t local_room = 0;  ///< bytes of local memory
};

struct ConvNvPatchKernel {
  /// The tile that is predicted to be fastest, unless the request has another; no rows if there is no room
  /// for one.
  ConvNvPatchKernel(const ConvProblem& problem, const EngineOptions& options,
                    const ConvNvPatchDevice& device);

  /// Why its tile is none; empty if it is one.
  std::string refuse_tile() const;
  int items() const { return 16 * rows * columns; }
  uint64_t local_bytes(const ConvProblem& problem) const;
  /// That registers suffice for; results of 16 bits take twice as many on their way.
  int items_of_unit(const ConvProblem& problem) const;
  /// That run at a time, as local memory and registers let them; 0 if there is no room for one.
  int groups_of_unit(const ConvProblem& problem, const ConvNvPatchDevice& device) const;
  /// Cycles; 0 if there is no room. As fitted to 16 tiles of four networks' first layers, f32 on an H200
  /// (root mean square of the logarithm's error: 0.08).
  double predict(const ConvProblem& problem, const ConvNvPatchDevice& device) const;
  PatchShape shape(const ConvProblem& problem) const;
  /// `limited`: registers of a work-item, as the kernel says.
  Defines defines(const ConvProblem& problem, bool limited) const;

  /// Of a work-group: so many fragments of 16 pixels along height and width, and filters.
  int rows = 0, columns = 0, filters = 0;
  int emulate = 0;  ///< 1: the instruction in plain C
};

}  // namespace dlprim::detail
