// Interpolation (resizing) along the axes behind N and C, forward and backward, as PyTorch's
// functional.interpolate does it: nearest, nearest-exact, linear (bilinear, trilinear), bicubic, area, with
// anti-aliasing for bilinear and bicubic.
//
// The backward direction gathers: each element of dx adds up what it gave, in ascending order of y. No
// atomics.
#pragma once

#include <array>
#include <vector>

#include <dlprim/export.hpp>
#include <dlprim/plan.hpp>
#include <dlprim/stream.hpp>
#include <dlprim/tensor.hpp>

namespace dlprim {

namespace detail {
class Resample;
}

enum class InterpolateMode : uint8_t {
  nearest,        ///< floor(i * scale)
  nearest_exact,  ///< floor((i + 0.5) * scale)
  linear,         ///< 1-D, bilinear or trilinear, as the rank is
  cubic,          ///< bicubic, a = -0.75 (Keys, 1981); [N, C, H, W] alone
  area            ///< adaptive average pooling
};

struct InterpolateParams {
  InterpolateMode mode = InterpolateMode::nearest;
  /// linear and cubic: the centers of the corners' elements, not their corners, lie on each other.
  bool align_corners = false;
  /// linear and cubic of [N, C, H, W]: where y is smaller the filter is stretched over all that a place of y
  /// covers; cubic has a = -0.5 then.
  bool antialias = false;
  /// For each axis behind C, size of y / size of x to compute coordinates with, where that is to be another
  /// number than the ratio of the shapes (PyTorch's scale_factor without recompute_scale_factor); 0: the
  /// shapes' ratio. align_corners and area do without it.
  std::array<double, 3> scale{0, 0, 0};
};

/// The shape that scale factors give: floor(size * scale) for each axis behind C. Throws ValidationError.
DLPRIM_API Shape interpolate_output_shape(const Shape& x, const std::vector<double>& scale);

/// x: [N, C, D1, ...], one to three axes behind C of at most 2^28; y: N and C as x has them. Any strides,
/// floating dtypes in any mix. Coordinates and sums are taken in f32, or in f64 if x or y is f64; nearest's
/// coordinates always in f32.
struct InterpolateDesc {
  TensorDesc x, y;
  InterpolateParams params;
};

/// y from x. An element with weight 0 counts: it makes NaN of an infinity, as in PyTorch.
class DLPRIM_API Interpolate : public Plan {
 public:
  /// Throws ValidationError (ranks, shapes, dtypes, parameters that do not go together), BuildError.
  explicit Interpolate(const Context& context, const InterpolateDesc& desc, const Options& options = {});
  /// y shares no memory with x.
  void run(const Stream& stream, const Tensor& x, const Tensor& y, const Tensor& workspace = {}) const;

 private:
  InterpolateDesc desc_;
  std::shared_ptr<const detail::Resample> impl_;
};

/// dx, dy: as x and y are forward.
struct InterpolateBackwardDesc {
  TensorDesc dy, dx;
  InterpolateParams params;
};

/// dx from dy.
class DLPRIM_API InterpolateBackward : public Plan {
 public:
  /// Throws as Interpolate.
  explicit InterpolateBackward(const Context& context, const InterpolateBackwardDesc& desc,
                               const Options& options = {});
  /// dx is written whole and shares no memory with dy.
  void run(const Stream& stream, const Tensor& dy, const Tensor& dx, const Tensor& workspace = {}) const;

 private:
  InterpolateBackwardDesc desc_;
  std::shared_ptr<const detail::Resample> impl_;
};

/// Finds the plan in the context's cache, or makes it, and runs it.
DLPRIM_API void interpolate(const Stream& stream, const Tensor& x, const InterpolateParams& params,
                            const Tensor& y, const Options& options = {}, const Tensor& workspace = {});
DLPRIM_API void interpolate_backward(const Stream& stream, const Tensor& dy, const InterpolateParams& params,
                                     const Tensor& dx, const Options& options = {},
                                     const Tensor& workspace = {});

}  // namespace dlprim
