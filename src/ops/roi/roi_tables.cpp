// Tables of weights for regions, and the checks of tensors that all of this family share.
#include "ops/roi/roi_tables.hpp"

#include "core/gen/arguments.hpp"

namespace dlprim::detail {

void RoiSizes::bind(Launch& launch) const {
  launch.arg(regions).arg(images).arg(channels).arg(height).arg(width).arg(rows).arg(columns);
}

RoiSizes roi_sizes(const TensorDesc& x, const char* x_name, const TensorDesc& rois, const TensorDesc& y,
                   const char* y_name, bool by_position) {
  require_floating(x_name, x, true);
  require_floating("rois", rois, true);
  require_floating(y_name, y, true);
  require_rank(x_name, x, 4);
  require_rank("rois", rois, 2);
  require(rois.shape[1] == 5, "rois", "shape ", rois.shape, " must be [R, 5]");
  require_rank(y_name, y, 4);
  const int64_t bins = y.shape[2] * y.shape[3];
  require(y.shape[0] == rois.shape[0], y_name, "shape ", y.shape, " has other regions than rois, ",
          rois.shape);
  require(x.shape[1] == (by_position ? y.shape[1] * bins : y.shape[1]), y_name, "shape ", y.shape,
          " has other channels than ", x_name, ", ", x.shape);
  RoiSizes sizes;
  sizes.regions = to_int("rois", rois.shape[0]);
  sizes.images = to_int(x_name, x.shape[0]);
  sizes.channels = to_int(x_name, x.shape[1]);
  sizes.height = to_int(x_name, x.shape[2]);
  sizes.width = to_int(x_name, x.shape[3]);
  sizes.rows = to_int(y_name, y.shape[2]);
  sizes.columns = to_int(y_name, y.shape[3]);
  to_int(x_name, x.shape[2] * x.shape[3]);
  to_int("rois", rois.shape[0] * std::max(y.shape[2], x.shape[2]));
  to_int("rois", rois.shape[0] * std::max(y.shape[3], x.shape[3]));
  return sizes;
}

DType roi_real(const Context& context, std::initializer_list<TensorDesc> tensors) {
  DType real = DType::f32;
  for (const TensorDesc& t : tensors)
    if (t.dtype == DType::f64) real = DType::f64;
  require_real(context, real);
  return real;
}

Defines roi_defines(const TensorDesc& x, const TensorDesc& rois, const TensorDesc& y, DType real,
                    const RoiParams& params) {
  Defines defines;
  define_type(defines, "X", x.dtype);
  define_type(defines, "R", rois.dtype);
  define_type(defines, "Y", y.dtype);
  defines.set("REAL", compute_type(real)).set("SAMPLES", params.bins == RoiBins::samples);
  defines.set("ALIGNED", params.aligned).set("BY_POSITION", params.by_position);
  return defines.set("CHANNELS", params.by_position ? 1 : 8);
}

RoiTable::RoiTable(const Context& context, const Defines& defines, bool rows, bool inverse,
                   const RoiSizes& sizes, DType real, WorkspaceParts& layout)
    : inverse_(inverse),
      regions_(sizes.regions),
      bins_(rows ? sizes.rows : sizes.columns),
      size_(rows ? sizes.height : sizes.width),
      real_(real) {
  Defines own = defines;
  own.set("ROWS", rows);
  make_ = context.state().programs.kernel("roi_pool", "roi_weights", own);
  const auto of_bins = static_cast<size_t>(regions_) * static_cast<size_t>(bins_);
  weights_at_ = layout.add(of_bins * static_cast<size_t>(size_) * size_of(real));
  ends_at_ = layout.add(2 * of_bins * sizeof(int32_t));
  if (!inverse) return;
  invert_ = context.state().programs.kernel("roi_pool", "roi_inverse", own);
  inverse_at_ = layout.add(2 * static_cast<size_t>(regions_) * static_cast<size_t>(size_) * sizeof(int32_t));
}

void RoiTable::run(const Stream& stream, const Tensor& rois, const RoiParams& params,
                   const Tensor& workspace) const {
  const Tensor made = workspace_part(workspace, ends_at_, {regions_, bins_, 2}, DType::i32);
  Launch make(stream, make_);
  make.arg(rois).arg(weights(workspace)).arg(made).arg(regions_).arg(bins_).arg(size_);
  make.real(real_, params.scale).arg(static_cast<int>(std::clamp<int64_t>(params.samples, 0, 1 << 20)));
  make.run({items_in_groups(int64_t{regions_} * bins_, 64)}, {64});
  if (!inverse_) return;
  Launch invert(stream, invert_);
  invert.arg(made).arg(ends(workspace)).arg(regions_).arg(bins_).arg(size_);
  invert.run({items_in_groups(int64_t{regions_} * size_, 64)}, {64});
}

Tensor RoiTable::weights(const Tensor& workspace) const {
  return workspace_part(workspace, weights_at_, {regions_, bins_, size_}, real_);
}

Tensor RoiTable::ends(const Tensor& workspace) const {
  return inverse_ ? workspace_part(workspace, inverse_at_, {regions_, size_, 2}, DType::i32)
                  : workspace_part(workspace, ends_at_, {regions_, bins_, 2}, DType::i32);
}

}  // namespace dlprim::detail
