// Non-maximum suppression: which pairs of boxes share too much, as bits, then one pass over them in order.
#include <dlprim/roi.hpp>

#include <cmath>
#include <limits>

#include "core/gen/arguments.hpp"
#include "ops/lib/row_major.hpp"

namespace dlprim::detail {
template <>
inline constexpr int kFields<NmsDesc> = 3;
}  // namespace dlprim::detail

namespace dlprim {

using namespace detail;

struct Nms::Impl {
  Impl(const Context& context, const NmsDesc& d) : boxes(context, d.boxes, layout) {
    count = to_int("boxes", d.boxes.shape[0]);
    words = ceil_div(count, 32);
    to_int("boxes", count * words);
    covered_at = layout.add(static_cast<size_t>(count * words) * sizeof(uint32_t));
    gone_at = layout.add(static_cast<size_t>(words) * sizeof(uint32_t));
    real = d.boxes.dtype == DType::f64 ? DType::f64 : DType::f32;
    require_real(context, real);
    group = context.device().kind() == DeviceKind::cpu ? 1 : 256;
    Defines defines;
    define_type(defines, "X", d.boxes.dtype);
    defines.set("REAL", compute_type(real)).set("GROUP", group);
    cover = context.state().programs.kernel("nms", "nms_covered", defines);
    choose = context.state().programs.kernel("nms", "nms_keep", defines);
  }
  WorkspaceParts layout;
  RowMajor boxes;
  int count = 0, group = 1;
  int64_t words = 0;
  size_t covered_at = 0, gone_at = 0;
  DType real = DType::f32;
  Kernel cover, choose;
};

namespace {

/// The largest f32 that is not above the threshold: for quotients in f32 both say the same.
double as_compared(double threshold, DType real) {
  if (real == DType::f64) return threshold;
  const auto near = static_cast<float>(threshold);
  return static_cast<double>(near) <= threshold
             ? near
             : std::nextafter(near, -std::numeric_limits<float>::infinity());
}

}  // namespace

Nms::Nms(const Context& context, const NmsDesc& desc, const Options& options) : Plan(nullptr), desc_(desc) {
  require_floating("boxes", desc.boxes, true);
  require_rank("boxes", desc.boxes, 2);
  require(desc.boxes.shape[1] == 4, "boxes", "shape ", desc.boxes.shape, " must be [N, 4]");
  require_dtype("keep", desc.keep, DType::boolean);
  require_shape("keep", desc.keep, {desc.boxes.shape[0]});
  require(is_row_major(desc.keep), "keep", "strides ", desc.keep.strides, " must be row-major");
  require(!std::isnan(desc.threshold), "threshold", "is not a number");
  auto impl = std::make_shared<Impl>(context, desc);
  PlanInfo info;
  info.text = cat("boxes=", brief(desc.boxes), " threshold=", desc.threshold);
  info.bytes = traffic({desc.boxes, desc.keep});
  info.workspace = impl->layout.size();
  info_ = single_engine("nms", "direct", workspace_refusal(info.workspace, options), context, options,
                        std::move(info));
  impl_ = std::move(impl);
}

void Nms::run(const Stream& stream, const Tensor& boxes, const Tensor& keep, const Tensor& workspace) const {
  const Impl& p = *impl_;
  require_stream(*info_, stream);
  require_tensor("boxes", boxes, stream.context(), desc_.boxes);
  require_tensor("keep", keep, stream.context(), desc_.keep);
  require_apart({{"keep", keep}, {"workspace", workspace}}, {{"boxes", boxes}});
  if (p.count == 0) return;
  const Tensor space = workspace_for(*info_, stream, workspace);
  const OperatorScope scope(stream, *info_);
  const Tensor covered = workspace_part(space, p.covered_at, {p.count, p.words}, DType::i32),
               gone = workspace_part(space, p.gone_at, {p.words}, DType::i32);
  Launch cover(stream, p.cover);
  cover.arg(p.boxes.of(stream, boxes, space)).arg(covered).arg(p.count);
  cover.real(p.real, as_compared(desc_.threshold, p.real));
  cover.run({items_in_groups(p.count * p.words, 64)}, {64});
  const auto group = static_cast<size_t>(p.group);
  Launch(stream, p.choose).arg(covered).arg(gone).arg(keep).arg(p.count).run({group}, {group});
}

void nms(const Stream& stream, const Tensor& boxes, double threshold, const Tensor& keep,
         const Options& options, const Tensor& workspace) {
  require_defined({{"boxes", boxes}, {"keep", keep}});
  const NmsDesc desc{boxes, keep, threshold};
  cached_plan<Nms>(stream, "nms", desc, options, workspace)->run(stream, boxes, keep, workspace);
}

}  // namespace dlprim
