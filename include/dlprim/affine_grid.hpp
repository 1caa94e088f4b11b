// Grids of affine transformations (Jaderberg et al., 2015), as PyTorch's functional.affine_grid: what
// grid_sample takes to turn, scale and shift images and volumes. Forward, and backward with respect to theta.
#pragma once

#include <dlprim/export.hpp>
#include <dlprim/plan.hpp>
#include <dlprim/stream.hpp>
#include <dlprim/tensor.hpp>

namespace dlprim {

/// theta: [N, 2, 3], grid: [N, H, W, 2]; or theta: [N, 3, 4], grid: [N, D, H, W, 3]. Any strides, floating
/// dtypes in any mix; computed in f32, or in f64 if one is f64. The elements of an image's grid fewer than
/// 2^30.
struct AffineGridDesc {
  TensorDesc theta, grid;
  /// -1 and 1 are the centers of the corners' elements, not their corners. An axis of one element lies at 0.
  bool align_corners = false;
};

/// grid[n, p, q] = theta[n] (x_q, y_p, 1), where x_q and y_p are the places' own coordinates.
class DLPRIM_API AffineGrid : public Plan {
 public:
  /// Engines: cpu, direct. Throws ValidationError (ranks, shapes, dtypes, engine), BuildError.
  explicit AffineGrid(const Context& context, const AffineGridDesc& desc, const Options& options = {});
  /// grid shares no memory with theta.
  void run(const Stream& stream, const Tensor& theta, const Tensor& grid, const Tensor& workspace = {}) const;

  struct Impl;

 private:
  std::shared_ptr<const Impl> impl_;
};

/// dtheta, dgrid: as theta and grid are forward.
struct AffineGridBackwardDesc {
  TensorDesc dgrid, dtheta;
  bool align_corners = false;
};

/// dtheta[n] = the sum over all places of dgrid[n, p, q] (x_q, y_p, 1) transposed, in an order that shapes
/// and device fix.
class DLPRIM_API AffineGridBackward : public Plan {
 public:
  /// Throws as AffineGrid; its engine is `generated`.
  explicit AffineGridBackward(const Context& context, const AffineGridBackwardDesc& desc,
                              const Options& options = {});
  /// dtheta shares no memory with dgrid.
  void run(const Stream& stream, const Tensor& dgrid, const Tensor& dtheta,
           const Tensor& workspace = {}) const;

  struct Impl;

 private:
  std::shared_ptr<const Impl> impl_;
};

/// Finds the plan in the context's cache, or makes it, and runs it.
DLPRIM_API void affine_grid(const Stream& stream, const Tensor& theta, bool align_corners, const Tensor& grid,
                            const Options& options = {}, const Tensor& workspace = {});
DLPRIM_API void affine_grid_backward(const Stream& stream, const Tensor& dgrid, bool align_corners,
                                     const Tensor& dtheta, const Options& options = {},
                                     const Tensor& workspace = {});

}  // namespace dlprim
