// Regions of interest, as detectors have them: pooling of each region's bins, by weighted samples or by the
// largest element, and the choice of boxes that do not cover each other. Regions are boxes of the image's
// elements times a scale. Every result is deterministic, gradients too.
#pragma once

#include <cstdint>
#include <memory>

#include <dlprim/export.hpp>
#include <dlprim/plan.hpp>
#include <dlprim/stream.hpp>
#include <dlprim/tensor.hpp>

namespace dlprim {

enum class RoiBins : uint8_t {
  /// Means of bilinear samples, evenly spaced in each bin (RoIAlign: He et al., 2017).
  samples,
  /// Means of the elements in bins with rounded ends (R-FCN: Dai et al., 2016).
  elements
};

struct RoiParams {
  RoiBins bins = RoiBins::samples;
  double scale = 1;  ///< from a region's coordinates to elements of x
  /// Samples along each side of a bin; 0 or less: one for each element that its side is long, rounded up.
  int64_t samples = 0;
  /// Samples are moved by half an element, and regions may be smaller than one. Otherwise their sides are 1
  /// and more.
  bool aligned = false;
  /// Bin (p, q) of y's channel c is made of x's channel (c P + p) Q + q, instead of channel c.
  bool by_position = false;
};

/// x: [N, C, H, W]. rois: [R, 5], floating: the index of an image, and x and y of two corners. y: [R, C, P,
/// Q], row-major, or if channels go by position [R, C / (P Q), P, Q]. Floating dtypes in any mix. Regions of
/// images that do not exist give 0.
struct RoiPoolDesc {
  TensorDesc x, rois, y;
  RoiParams params{};
};

/// y[r, c, p, q] = the mean of region r's bin (p, q). Computed in f32, or in f64 if a tensor is f64.
class DLPRIM_API RoiPool : public Plan {
 public:
  /// Throws ValidationError (ranks, shapes, dtypes, strides of y), BuildError.
  explicit RoiPool(const Context& context, const RoiPoolDesc& desc, const Options& options = {});
  void run(const Stream& stream, const Tensor& x, const Tensor& rois, const Tensor& y,
           const Tensor& workspace = {}) const;

  struct Impl;

 private:
  RoiPoolDesc desc_;
  std::shared_ptr<const Impl> impl_;
};

/// dy as y above, dx as x, row-major.
struct RoiPoolBackwardDesc {
  TensorDesc dy, rois, dx;
  RoiParams params{};
};

/// dx = the gradient, gathered region after region.
class DLPRIM_API RoiPoolBackward : public Plan {
 public:
  /// Throws as RoiPool does.
  explicit RoiPoolBackward(const Context& context, const RoiPoolBackwardDesc& desc,
                           const Options& options = {});
  void run(const Stream& stream, const Tensor& dy, const Tensor& rois, const Tensor& dx,
           const Tensor& workspace = {}) const;

  struct Impl;

 private:
  RoiPoolBackwardDesc desc_;
  std::shared_ptr<const Impl> impl_;
};

/// x, rois, y as above, y has x's dtype. indices: i32, y's shape, row-major.
struct RoiMaxPoolDesc {
  TensorDesc x, rois, y, indices;
  double scale = 1;
};

/// y = the largest element of each bin, whose ends are rounded (Girshick, 2015), and its place in its plane,
/// h W + w. Empty bins have 0 and -1.
class DLPRIM_API RoiMaxPool : public Plan {
 public:
  /// Throws as RoiPool does.
  explicit RoiMaxPool(const Context& context, const RoiMaxPoolDesc& desc, const Options& options = {});
  void run(const Stream& stream, const Tensor& x, const Tensor& rois, const Tensor& y, const Tensor& indices,
           const Tensor& workspace = {}) const;

  struct Impl;

 private:
  RoiMaxPoolDesc desc_;
  std::shared_ptr<const Impl> impl_;
};

/// boxes: [N, 4], floating, x and y of two corners, in falling order of their scores. keep: [N], bool,
/// row-major.
struct NmsDesc {
  TensorDesc boxes, keep;
  double threshold = 0.5;
};

/// keep[i] = no kept box before it shares with box i more than the threshold of what both cover.
class DLPRIM_API Nms : public Plan {
 public:
  /// Throws ValidationError (ranks, shapes, dtypes, a threshold that is NaN), BuildError.
  explicit Nms(const Context& context, const NmsDesc& desc, const Options& options = {});
  void run(const Stream& stream, const Tensor& boxes, const Tensor& keep, const Tensor& workspace = {}) const;

  struct Impl;

 private:
  NmsDesc desc_;
  std::shared_ptr<const Impl> impl_;
};

// The same as calls: the plan is found in the context's cache, or made.
DLPRIM_API void roi_pool(const Stream& stream, const Tensor& x, const Tensor& rois, const RoiParams& params,
                         const Tensor& y, const Options& options = {}, const Tensor& workspace = {});
DLPRIM_API void roi_pool_backward(const Stream& stream, const Tensor& dy, const Tensor& rois,
                                  const RoiParams& params, const Tensor& dx, const Options& options = {},
                                  const Tensor& workspace = {});
DLPRIM_API void roi_max_pool(const Stream& stream, const Tensor& x, const Tensor& rois, double scale,
                             const Tensor& y, const Tensor& indices, const Options& options = {},
                             const Tensor& workspace = {});
DLPRIM_API void nms(const Stream& stream, const Tensor& boxes, double threshold, const Tensor& keep,
                    const Options& options = {}, const Tensor& workspace = {});

}  // namespace dlprim
