// Choosing elements by a mask: checks, and how results of the right size come about.
#include <dlprim/masked.hpp>

#include <climits>

#include <dlprim/pointwise.hpp>

#include "core/composed.hpp"
#include "core/gen/arguments.hpp"
#include "ops/index/compaction.hpp"
#include "ops/index/indexing.hpp"

namespace dlprim::detail {
template <>
inline constexpr int kFields<Compacted> = 6;
template <>
inline constexpr int kFields<MaskedSelectDesc> = 4;
template <>
inline constexpr int kFields<MaskedSelectBackwardDesc> = 3;
template <>
inline constexpr int kFields<NonzeroDesc> = 3;
template <>
inline constexpr int kFields<MaskedFillDesc> = 3;
}  // namespace dlprim::detail

namespace dlprim {

using namespace detail;

struct MaskedFill::Impl {
  MaskedFillDesc desc;
  Pointwise kernel;
};

namespace {

void check_mask(const Context& context, const char* name, const TensorDesc& mask) {
  require_strides(name, mask);
  require(element_count(mask.shape) <= INT_MAX, name, element_count(mask.shape),
          " elements are more than 2^31 - 1");
  require_real(context, mask.dtype);
}

void check_count(const TensorDesc& count) {
  require_indices({count}, "count");
  require_shape("count", count, {1});
}

/// The vector of chosen elements, and what they are chosen of.
void check_packed(const char* name, const TensorDesc& packed, const TensorDesc& x) {
  require_strides(name, packed);
  require_rank(name, packed, 1);
  require_dtype(name, packed, x.dtype);
}

/// Both kernels; a plan whose tensors have no elements has something to count, too.
void run(const Compaction& compaction, const Stream& stream, const CompactTensors& tensors,
         const Tensor& workspace) {
  const Tensor space = workspace_for(*compaction.info(), stream, workspace);
  const OperatorScope scope(stream, *compaction.info());
  compaction.count(stream, tensors.mask, space);
  compaction.move(stream, tensors, space);
}

/// Counts first, so that no more memory is taken than the result needs.
Tensor of_right_size(const Stream& stream, const Compacted& c, const Tensor& mask, const Tensor& x,
                     const Options& options, const Tensor& workspace) {
  require_apart({{"workspace", workspace}}, {{"x", x}, {"mask", mask}});
  const auto compaction = cached_plan<Compaction>(stream, "compaction", c, options, workspace);
  const Tensor space = workspace_for(*compaction->info(), stream, workspace);
  const OperatorScope scope(stream, *compaction->info());
  compaction->count(stream, mask, space);
  Shape shape{compaction->counted(stream, space)};
  if (c.mode == CompactMode::coordinates) shape.push_back(mask.rank());
  const Tensor packed(stream, shape, c.packed);
  if (packed.numel() > 0) compaction->move(stream, {mask, x, packed, {}}, space);
  return packed;
}

}  // namespace

MaskedSelect::MaskedSelect(const Context& context, const MaskedSelectDesc& desc, const Options& options)
    : Plan(nullptr), desc_(desc) {
  check_mask(context, "mask", desc.mask);
  require_strides("x", desc.x);
  require_shape("mask", desc.mask, desc.x.shape);
  check_packed("y", desc.y, desc.x);
  require_writable("y", desc.y);
  check_count(desc.count);
  const Compacted c{CompactMode::pack, desc.mask, desc.x, desc.x.dtype, desc.count.dtype, true};
  impl_ = std::make_shared<const Compaction>(context, c, options);
  info_ = impl_->info();
}

void MaskedSelect::run(const Stream& stream, const Tensor& x, const Tensor& mask, const Tensor& y,
                       const Tensor& count, const Tensor& workspace) const {
  require_stream(*info_, stream);
  require_tensor("x", x, stream.context(), desc_.x);
  require_tensor("mask", mask, stream.context(), desc_.mask);
  require_tensor("y", y, stream.context(), desc_.y);
  require_tensor("count", count, stream.context(), desc_.count);
  require_apart({{"y", y}, {"count", count}, {"workspace", workspace}}, {{"mask", mask}, {"x", x}});
  dlprim::run(*impl_, stream, {mask, x, y, count}, workspace);
}

MaskedSelectBackward::MaskedSelectBackward(const Context& context, const MaskedSelectBackwardDesc& desc,
                                           const Options& options)
    : Plan(nullptr), desc_(desc) {
  check_mask(context, "mask", desc.mask);
  require_writable("dx", desc.dx);
  require_shape("mask", desc.mask, desc.dx.shape);
  check_packed("dy", desc.dy, desc.dx);
  const Compacted c{CompactMode::spread, desc.mask, desc.dx, desc.dx.dtype, DType::i64, false};
  impl_ = std::make_shared<const Compaction>(context, c, options);
  info_ = impl_->info();
}

void MaskedSelectBackward::run(const Stream& stream, const Tensor& dy, const Tensor& mask, const Tensor& dx,
                               const Tensor& workspace) const {
  require_stream(*info_, stream);
  require_tensor("dy", dy, stream.context(), desc_.dy);
  require_tensor("mask", mask, stream.context(), desc_.mask);
  require_tensor("dx", dx, stream.context(), desc_.dx);
  require_apart({{"dx", dx}, {"workspace", workspace}}, {{"mask", mask}, {"dy", dy}});
  dlprim::run(*impl_, stream, {mask, dx, dy, {}}, workspace);
}

Nonzero::Nonzero(const Context& context, const NonzeroDesc& desc, const Options& options)
    : Plan(nullptr), desc_(desc) {
  check_mask(context, "x", desc.x);
  check_count(desc.count);
  require_indices({desc.y, desc.count}, "count");
  require_writable("y", desc.y);
  require_rank("y", desc.y, 2);
  require(desc.y.shape[1] == desc.x.shape.size(), "y", "shape ", desc.y.shape, " must be [room, ",
          desc.x.shape.size(), "]");
  const Compacted c{CompactMode::coordinates, desc.x, {}, desc.y.dtype, desc.count.dtype, true};
  impl_ = std::make_shared<const Compaction>(context, c, options);
  info_ = impl_->info();
}

void Nonzero::run(const Stream& stream, const Tensor& x, const Tensor& y, const Tensor& count,
                  const Tensor& workspace) const {
  require_stream(*info_, stream);
  require_tensor("x", x, stream.context(), desc_.x);
  require_tensor("y", y, stream.context(), desc_.y);
  require_tensor("count", count, stream.context(), desc_.count);
  require_apart({{"y", y}, {"count", count}, {"workspace", workspace}}, {{"x", x}});
  dlprim::run(*impl_, stream, {x, {}, y, count}, workspace);
}

MaskedFill::MaskedFill(const Context& context, const MaskedFillDesc& desc, const Options& options)
    : Plan(nullptr) {
  require_strides("x", desc.x);
  require_strides("mask", desc.mask);
  require_writable("y", desc.y);
  require_shape("y", desc.y, desc.x.shape);
  require_dtype("y", desc.y, desc.x.dtype);
  PlanInfo info;
  info.text = cat("x=", brief(desc.x), " mask=", brief(desc.mask), " y=", brief(desc.y));
  info.bytes = traffic({desc.x, desc.mask, desc.y});
  info_ = single_engine("masked_fill", "generated", "", context, options, std::move(info));
  impl_ = std::make_shared<const Impl>(
      Impl{desc, Pointwise(context, {desc.x, desc.mask}, {desc.y}, 1, "y0 = x1 != 0 ? s0 : x0")});
}

void MaskedFill::run(const Stream& stream, const Tensor& x, const Tensor& mask, Scalar value, const Tensor& y,
                     const Tensor& workspace) const {
  require_stream(*info_, stream);
  require_tensor("x", x, stream.context(), impl_->desc.x);
  require_tensor("mask", mask, stream.context(), impl_->desc.mask);
  require_tensor("y", y, stream.context(), impl_->desc.y);
  require_same_or_apart({"y", y}, {"x", x});
  require_no_overlap("y", y, "mask", mask);
  const bool boolean = y.dtype() == DType::boolean;
  require(takes(y.dtype(), value), "value", value.real(), " for ", y);
  require_apart({{"workspace", workspace}}, {{"x", x}, {"mask", mask}, {"y", y}});
  workspace_for(*info_, stream, workspace);
  if (y.numel() == 0) return;
  const OperatorScope scope(stream, *info_);
  impl_->kernel.run(stream, {x, mask}, {y}, {boolean ? Scalar(value.real() != 0) : value});
}

void masked_select(const Stream& stream, const Tensor& x, const Tensor& mask, const Tensor& y,
                   const Tensor& count, const Options& options, const Tensor& workspace) {
  require_defined({{"x", x}, {"mask", mask}, {"y", y}, {"count", count}});
  const MaskedSelectDesc desc{x, mask, y, count};
  cached_plan<MaskedSelect>(stream, "masked_select", desc, options, workspace)
      ->run(stream, x, mask, y, count, workspace);
}

void masked_select_backward(const Stream& stream, const Tensor& dy, const Tensor& mask, const Tensor& dx,
                            const Options& options, const Tensor& workspace) {
  require_defined({{"dy", dy}, {"mask", mask}, {"dx", dx}});
  const MaskedSelectBackwardDesc desc{dy, mask, dx};
  cached_plan<MaskedSelectBackward>(stream, "masked_select_backward", desc, options, workspace)
      ->run(stream, dy, mask, dx, workspace);
}

void nonzero(const Stream& stream, const Tensor& x, const Tensor& y, const Tensor& count,
             const Options& options, const Tensor& workspace) {
  require_defined({{"x", x}, {"y", y}, {"count", count}});
  const NonzeroDesc desc{x, y, count};
  cached_plan<Nonzero>(stream, "nonzero", desc, options, workspace)->run(stream, x, y, count, workspace);
}

void masked_fill(const Stream& stream, const Tensor& x, const Tensor& mask, Scalar value, const Tensor& y,
                 const Options& options, const Tensor& workspace) {
  require_defined({{"x", x}, {"mask", mask}, {"y", y}});
  const MaskedFillDesc desc{x, mask, y};
  cached_plan<MaskedFill>(stream, "masked_fill", desc, options, workspace)
      ->run(stream, x, mask, value, y, workspace);
}

Tensor masked_select(const Stream& stream, const Tensor& x, const Tensor& mask, const Options& options,
                     const Tensor& workspace) {
  require_context("x", x, stream.context());
  require_context("mask", mask, stream.context());
  check_mask(stream.context(), "mask", mask);
  require_shape("mask", mask, x.shape());
  const Compacted c{CompactMode::pack, mask, TensorDesc(x), x.dtype(), DType::i64, false};
  return of_right_size(stream, c, mask, x, options, workspace);
}

Tensor nonzero(const Stream& stream, const Tensor& x, const Options& options, const Tensor& workspace) {
  require_context("x", x, stream.context());
  check_mask(stream.context(), "x", x);
  const Compacted c{CompactMode::coordinates, x, {}, DType::i64, DType::i64, false};
  return of_right_size(stream, c, x, {}, options, workspace);
}

}  // namespace dlprim
