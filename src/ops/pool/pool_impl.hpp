// Pooling as its engines see it: [N, C, D, H, W], with sizes of 1 for what is missing.
#pragma once

#include <array>
#include <optional>

#include <dlprim/pool.hpp>

#include "core/engine.hpp"

namespace dlprim::detail {

/// struct Axis of pool_common.cl.
struct PoolAxis {
  int64_t size = 1, out = 1, kernel = 1, stride = 1, dilation = 1, pad = 0, limit = 1;
  /// From a window's first tap to its last.
  int64_t reach() const { return (kernel - 1) * dilation + 1; }
};

struct PoolTensors {
  Tensor x, y, indices, saved_x, saved_y;  ///< backward: x is dx, y is dy
};

struct PoolProblem {
  bool backward = false;
  PoolMode mode = PoolMode::max;
  bool adaptive = false;  ///< and not all windows alike: those are told as sliding ones
  bool include_pad = true;
  int64_t divisor = 0;
  double norm = 2;
  std::array<PoolAxis, 3> axes;
  TensorDesc x, y;
  std::optional<TensorDesc> indices, saved_x, saved_y;

  /// All tensors there are.
  std::vector<TensorDesc> tensors() const;
  /// What is written, but for indices.
  const TensorDesc& written() const { return backward ? x : y; }
  /// Elements of a sliding window.
  int64_t volume() const { return axes[0].kernel * axes[1].kernel * axes[2].kernel; }
  /// Every average divides by the same number, or every norm is of a whole window.
  bool uniform() const;
  /// One window over all of the plane.
  bool global() const;
  /// Channels lie closer together than neighbours of a plane: work runs along them then.
  bool channels_last() const;
};

/// A description with N and all three spatial dimensions. Where it has fewer, sizes and strides are 1.
TensorDesc with_all_axes(const TensorDesc& desc, int spatial);
/// The problem that checked params describe; shapes of x and y have to fit.
PoolProblem pool_problem(const PoolParams& params, const TensorDesc& x, const TensorDesc& y);

struct PoolPlan : EngineImpl {
  virtual void run(const Stream& stream, const PoolTensors& tensors, const Tensor& workspace) const = 0;
};

using PoolEngine = Engine<PoolProblem, PoolPlan>;
/// Generated kernels for global windows; a kernel for large ones; one that puts maxima's gradients where they
/// belong; the plain one; those for CPUs, of which `planes` is for maxima's gradients.
extern const PoolEngine kPoolGenerated, kPoolWide, kPoolScatter, kPoolColumns, kPoolDirect, kPoolPlanes,
    kPoolCpu;

}  // namespace dlprim::detail
