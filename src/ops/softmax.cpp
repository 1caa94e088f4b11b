// Softmax and log-softmax by generated kernels: along the axis a maximum and a sum, whose results lie in the
// workspace, then one pointwise step. The loss that follows them is in nll_loss.cpp.
#include <dlprim/pointwise.hpp>
#include <dlprim/softmax.hpp>

#include "core/composed.hpp"

namespace dlprim {

using namespace detail;

struct Softmax::Impl {
  Shape row;    ///< x's shape with size 1 along the axis
  DType dtype;  ///< of maxima and sums
  Reduce maximum, sum;
  Pointwise finish;
  size_t maximum_at = 0, sum_at = 0, scratch_at = 0;
};

struct SoftmaxBackward::Impl {
  Shape row;
  DType dtype;
  Reduce sum;
  Pointwise finish;
  size_t sum_at = 0, scratch_at = 0;
};

namespace {

struct Rows {
  Shape shape;
  DType dtype = DType::f32;
  TensorDesc desc() const { return {shape, dtype}; }
};

/// Checks what both directions share, and says where a row's maximum and sum lie.
Rows check(const char* x, const char* y, const SoftmaxDesc& desc) {
  require_floating(x, desc.x, true);
  require_floating(y, desc.y, true);
  require_shape(y, desc.y, desc.x.shape);
  Rows rows;
  rows.shape = desc.x.shape;
  rows.shape[normalize_axis("axis", desc.axis, desc.x.shape.size())] = 1;
  if (desc.x.dtype == DType::f64 || desc.y.dtype == DType::f64) rows.dtype = DType::f64;
  return rows;
}

PlanInfo make_info(const SoftmaxDesc& desc, double bytes, size_t workspace) {
  PlanInfo info;
  info.text = cat("x=", brief(desc.x), " y=", brief(desc.y), " axis=", desc.axis);
  info.flops = 4 * static_cast<double>(element_count(desc.x.shape));
  info.bytes = bytes;
  info.workspace = workspace;
  return info;
}

}  // namespace

Softmax::Softmax(const Context& context, const SoftmaxDesc& desc, const Options& options)
    : Plan(nullptr), desc_(desc) {
  const Rows rows = check("x", "y", desc);
  require_writable("y", desc.y);
  WorkspaceParts parts;
  const size_t row_bytes = static_cast<size_t>(element_count(rows.shape)) * size_of(rows.dtype);
  const size_t maximum_at = parts.add(row_bytes), sum_at = parts.add(row_bytes);
  const Options rest = parts.rest(options);
  // x0 - x1 is NaN where a whole row is -infinity, or where it has +infinity: so is the result, as it should.
  auto impl = std::make_shared<Impl>(
      Impl{rows.shape, rows.dtype, Reduce(context, {desc.x}, {rows.desc()}, 0, max_of("x0"), rest),
           Reduce(context, {desc.x, rows.desc()}, {rows.desc()}, 0,
                  sum_of("exp(x0 - x1)", desc.log ? "y0 = log(a0)" : "y0 = a0"), rest),
           Pointwise(context, {desc.x, rows.desc(), rows.desc()}, {desc.y}, 0,
                     desc.log ? "y0 = x0 - x1 - x2" : "y0 = exp(x0 - x1) / x2")});
  impl->maximum_at = maximum_at;
  impl->sum_at = sum_at;
  impl->scratch_at = parts.add(std::max(impl->maximum.workspace_size(), impl->sum.workspace_size()));
  impl_ = impl;
  info_ = single_engine(desc.log ? "log_softmax" : "softmax", "generated", "", context, options,
                        make_info(desc, traffic({desc.x, desc.y}), parts.size()));
}

void Softmax::run(const Stream& stream, const Tensor& x, const Tensor& y, const Tensor& workspace) const {
  require_stream(*info_, stream);
  require_tensor("x", x, stream.context(), desc_.x);
  require_tensor("y", y, stream.context(), desc_.y);
  require_same_or_apart({"y", y}, {"x", x});
  require_apart({{"workspace", workspace}}, {{"x", x}, {"y", y}});
  if (y.numel() == 0) return;
  const Tensor space = workspace_for(*info_, stream, workspace);
  const Tensor maximum = workspace_part(space, impl_->maximum_at, impl_->row, impl_->dtype);
  const Tensor sum = workspace_part(space, impl_->sum_at, impl_->row, impl_->dtype);

  const OperatorScope scope(stream, *info_);
  impl_->maximum.run(stream, {x}, {maximum}, {}, workspace_scratch(space, impl_->scratch_at, impl_->maximum));
  impl_->sum.run(stream, {x, maximum}, {sum}, {}, workspace_scratch(space, impl_->scratch_at, impl_->sum));
  impl_->finish.run(stream, {x, maximum, sum}, {y}, {});
}

SoftmaxBackward::SoftmaxBackward(const Context& context, const SoftmaxDesc& desc, const Options& options)
    : Plan(nullptr), desc_(desc) {
  const Rows rows = check("dy", "y", desc);
  require_floating("dx", desc.dx, true);
  require_shape("dx", desc.dx, desc.x.shape);
  require_writable("dx", desc.dx);
  WorkspaceParts parts;
  const size_t sum_at = parts.add(static_cast<size_t>(element_count(rows.shape)) * size_of(rows.dtype));
  const Options rest = parts.rest(options);
  // Log-softmax reads only dy for the sum; the expression for the other reads both.
  auto impl = std::make_shared<Impl>(
      Impl{rows.shape, rows.dtype,
           desc.log ? Reduce(context, {desc.x}, {rows.desc()}, 0, sum_of("x0"), rest)
                    : Reduce(context, {desc.x, desc.y}, {rows.desc()}, 0, sum_of("x0 * x1"), rest),
           Pointwise(context, {desc.x, desc.y, rows.desc()}, {desc.dx}, 0,
                     desc.log ? "y0 = x0 - exp(x1) * x2" : "y0 = x1 * (x0 - x2)")});
  impl->sum_at = sum_at;
  impl->scratch_at = parts.add(impl->sum.workspace_size());
  impl_ = impl;
  info_ = single_engine(desc.log ? "log_softmax_backward" : "softmax_backward", "generated", "", context,
                        options, make_info(desc, traffic({desc.x, desc.y, desc.dx}), parts.size()));
}

void SoftmaxBackward::run(const Stream& stream, const Tensor& dy, const Tensor& y, const Tensor& dx,
                          const Tensor& workspace) const {
  require_stream(*info_, stream);
  require_tensor("dy", dy, stream.context(), desc_.x);
  require_tensor("y", y, stream.context(), desc_.y);
  require_tensor("dx", dx, stream.context(), desc_.dx);
  require_same_or_apart({"dx", dx}, {"dy", dy});
  require_apart({{"dx", dx}}, {{"y", y}});
  require_apart({{"workspace", workspace}}, {{"dy", dy}, {"y", y}, {"dx", dx}});
  if (dx.numel() == 0) return;
  const Tensor space = workspace_for(*info_, stream, workspace);
  const Tensor sum = workspace_part(space, impl_->sum_at, impl_->row, impl_->dtype);

  const OperatorScope scope(stream, *info_);
  const std::vector<Tensor> summed = desc_.log ? std::vector<Tensor>{dy} : std::vector<Tensor>{dy, y};
  impl_->sum.run(stream, summed, {sum}, {}, workspace_scratch(space, impl_->scratch_at, impl_->sum));
  impl_->finish.run(stream, {dy, y, sum}, {dx}, {});
}

namespace {

void forward(const Stream& stream, const Tensor& x, int axis, const Tensor& y, bool log) {
  require_defined({{"x", x}, {"y", y}});
  const SoftmaxDesc desc{x, y, {}, axis, log};
  cached_plan<Softmax>(stream, PlanKey("softmax").add(desc.x).add(desc.y).add(axis).add(log), desc)
      ->run(stream, x, y);
}

void backward(const Stream& stream, const Tensor& dy, const Tensor& y, int axis, const Tensor& dx, bool log) {
  require_defined({{"dy", dy}, {"y", y}, {"dx", dx}});
  const SoftmaxDesc desc{dy, y, dx, axis, log};
  const PlanKey key = PlanKey("softmax_backward").add(desc.x).add(desc.y).add(desc.dx).add(axis).add(log);
  cached_plan<SoftmaxBackward>(stream, key, desc)->run(stream, dy, y, dx);
}

}  // namespace

void softmax(const Stream& stream, const Tensor& x, int axis, const Tensor& y) {
  forward(stream, x, axis, y, false);
}
void log_softmax(const Stream& stream, const Tensor& x, int axis, const Tensor& y) {
  forward(stream, x, axis, y, true);
}
void softmax_backward(const Stream& stream, const Tensor& dy, const Tensor& y, int axis, const Tensor& dx) {
  backward(stream, dy, y, axis, dx, false);
}
void log_softmax_backward(const Stream& stream, const Tensor& dy, const Tensor& y, int axis,
                          const Tensor& dx) {
  backward(stream, dy, y, axis, dx, true);
}

}  // namespace dlprim
