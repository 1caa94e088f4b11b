// Sampling of images and volumes at the places of a grid (Jaderberg et al., 2015), forward, backward with
// respect to the input and to the grid, as PyTorch's functional.grid_sample does it.
//
// All directions give the same bits each time. Backward with respect to the input adds up what falls on each
// element by ascending places of the grid: on a GPU by lists (an entry of 8 bytes for each tap, 4 for a place
// of a bilinear plane, found, sorted and read once for all channels), which need atomics of 32-bit integers
// and no others; sorting is what takes long where very many places fall on one element. On a CPU each group
// of channels is one work-item's.
#pragma once

#include <dlprim/export.hpp>
#include <dlprim/plan.hpp>
#include <dlprim/stream.hpp>
#include <dlprim/tensor.hpp>

namespace dlprim {

namespace detail {
struct GridSampleImpl;
}

enum class GridSampleMode : uint8_t {
  bilinear,  ///< trilinear in volumes
  nearest,   ///< half goes to even
  bicubic    ///< a = -0.75; planes alone
};

/// What is outside x.
enum class GridSamplePadding : uint8_t { zeros, border, reflection };

struct GridSampleParams {
  GridSampleMode mode = GridSampleMode::bilinear;
  GridSamplePadding padding = GridSamplePadding::zeros;
  /// -1 and 1 are the centers of the corners' elements, not their corners; reflection is about them too.
  bool align_corners = false;
};

/// x: [N, C, H, W], grid: [N, P, Q, 2], y: [N, C, P, Q]; or x: [N, C, D, H, W], grid: [N, O, P, Q, 3], y: [N,
/// C, O, P, Q]. A place's coordinates are along W, H, D, from -1 to 1. Any strides, floating dtypes in any
/// mix; computed in f32, or in f64 if one is f64.
///
/// NaN and infinities lie outside: zeros gives 0, border the border (of NaN the first element), reflection,
/// which has no place for them, the first element. Bicubic with these two gives NaN, as there are no weights.
/// So does PyTorch on GPUs; on CPUs it gives NaN for zeros in planes, 0 in volumes.
struct GridSampleDesc {
  TensorDesc x, grid, y;
  GridSampleParams params;
};

class DLPRIM_API GridSample : public Plan {
 public:
  /// Throws ValidationError (ranks, shapes, dtypes, parameters), BuildError.
  explicit GridSample(const Context& context, const GridSampleDesc& desc, const Options& options = {});
  /// y shares no memory with the others.
  void run(const Stream& stream, const Tensor& x, const Tensor& grid, const Tensor& y,
           const Tensor& workspace = {}) const;

 private:
  GridSampleDesc desc_;
  std::shared_ptr<const detail::GridSampleImpl> impl_;
};

/// dx, dy: as x and y are forward.
struct GridSampleBackwardInputDesc {
  TensorDesc dy, grid, dx;
  GridSampleParams params;
};

class DLPRIM_API GridSampleBackwardInput : public Plan {
 public:
  /// Throws as GridSample.
  explicit GridSampleBackwardInput(const Context& context, const GridSampleBackwardInputDesc& desc,
                                   const Options& options = {});
  /// dx is written whole, and shares no memory with the others.
  void run(const Stream& stream, const Tensor& dy, const Tensor& grid, const Tensor& dx,
           const Tensor& workspace = {}) const;

 private:
  GridSampleBackwardInputDesc desc_;
  std::shared_ptr<const detail::GridSampleImpl> impl_;
};

/// dy: as y is forward; dgrid: of the grid's shape and dtype.
struct GridSampleBackwardGridDesc {
  TensorDesc dy, x, grid, dgrid;
  GridSampleParams params;
};

class DLPRIM_API GridSampleBackwardGrid : public Plan {
 public:
  /// Throws as GridSample.
  explicit GridSampleBackwardGrid(const Context& context, const GridSampleBackwardGridDesc& desc,
                                  const Options& options = {});
  /// dgrid shares no memory with the others; it is 0 for nearest.
  void run(const Stream& stream, const Tensor& dy, const Tensor& x, const Tensor& grid, const Tensor& dgrid,
           const Tensor& workspace = {}) const;

 private:
  GridSampleBackwardGridDesc desc_;
  std::shared_ptr<const detail::GridSampleImpl> impl_;
};

/// Finds the plan in the context's cache, or makes it, and runs it.
DLPRIM_API void grid_sample(const Stream& stream, const Tensor& x, const Tensor& grid,
                            const GridSampleParams& params, const Tensor& y, const Options& options = {},
                            const Tensor& workspace = {});
DLPRIM_API void grid_sample_backward_input(const Stream& stream, const Tensor& dy, const Tensor& grid,
                                           const GridSampleParams& params, const Tensor& dx,
                                           const Options& options = {}, const Tensor& workspace = {});
DLPRIM_API void grid_sample_backward_grid(const Stream& stream, const Tensor& dy, const Tensor& x,
                                          const Tensor& grid, const GridSampleParams& params,
                                          const Tensor& dgrid, const Options& options = {},
                                          const Tensor& workspace = {});

}  // namespace dlprim
