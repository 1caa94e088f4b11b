// The tables of weights that forward and backward pooling of regions read: see roi_pool.cl.
#pragma once

#include <dlprim/roi.hpp>

#include "core/composed.hpp"
#include "core/gen/expression.hpp"
#include "ops/lib/row_major.hpp"

namespace dlprim::detail {

/// What kernels take as SIZES.
struct RoiSizes {
  int regions = 0, images = 0, channels = 0, height = 0, width = 0, rows = 0, columns = 0;
  void bind(Launch& launch) const;
};

/// Ranks and shapes of x [N, C, H, W], rois [R, 5], y [R, C, P, Q]. Throws ValidationError.
RoiSizes roi_sizes(const TensorDesc& x, const char* x_name, const TensorDesc& rois, const TensorDesc& y,
                   const char* y_name, bool by_position);
/// f64 if a tensor is f64, else f32. Throws ValidationError where the device lacks it.
DType roi_real(const Context& context, std::initializer_list<TensorDesc> tensors);
Defines roi_defines(const TensorDesc& x, const TensorDesc& rois, const TensorDesc& y, DType real,
                    const RoiParams& params);

/// Of one axis.
class RoiTable {
 public:
  RoiTable(const Context& context, const Defines& defines, bool rows, bool inverse, const RoiSizes& sizes,
           DType real, WorkspaceParts& layout);
  void run(const Stream& stream, const Tensor& rois, const RoiParams& params, const Tensor& workspace) const;
  Tensor weights(const Tensor& workspace) const;
  /// The bins' ends, or with `inverse` the elements' bins.
  Tensor ends(const Tensor& workspace) const;

 private:
  bool inverse_ = false;
  int regions_ = 0, bins_ = 0, size_ = 0;
  DType real_ = DType::f32;
  Kernel make_, invert_;
  size_t weights_at_ = 0, ends_at_ = 0, inverse_at_ = 0;
};

}  // namespace dlprim::detail
