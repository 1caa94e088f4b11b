// Softmax, log-softmax and logsumexp: checks, the list of engines, the calls. The engines are in
// softmax_row.cpp and softmax_generated.cpp.
#include <dlprim/pointwise.hpp>
#include <dlprim/softmax.hpp>

#include "core/composed.hpp"
#include "ops/lib/broadcast.hpp"
#include "ops/lib/rows.hpp"
#include "ops/softmax/softmax_impl.hpp"

namespace dlprim::detail {
template <>
inline constexpr int kFields<SoftmaxDesc> = 6;
template <>
inline constexpr int kFields<LogSumExpDesc> = 5;
}  // namespace dlprim::detail

namespace dlprim {

using namespace detail;

namespace detail {

DType SoftmaxProblem::real() const {
  for (const TensorDesc& t : {x, y, dx, mask.value_or(TensorDesc())})
    if (t.dtype == DType::f64) return DType::f64;
  return DType::f32;
}

}  // namespace detail

namespace {

std::string name_of(const SoftmaxProblem& p) {
  static constexpr const char* kNames[] = {"softmax", "log_softmax", "logsumexp"};
  return cat(kNames[static_cast<int>(p.kind)], p.backward ? "_backward" : "");
}

std::shared_ptr<const SoftmaxImpl> plan(const Context& context, const SoftmaxProblem& p,
                                        const Options& options, std::shared_ptr<const PlanInfo>& info) {
  std::vector<SoftmaxEngine> engines = {kSoftmaxRow, kSoftmaxCpu, kSoftmaxGenerated};
  if (context.device().kind() == DeviceKind::cpu) std::swap(engines[0], engines[1]);
  PlanInfo made;
  const std::string op = name_of(p);
  std::shared_ptr<const SoftmaxImpl> impl = choose_engine(op.c_str(), engines, context, p, options, made);
  made.text = cat("op=", op, " engine=", made.engine, " x=", brief(p.x), " y=", brief(p.y), " axis=", p.axis);
  if (p.mask) made.text += cat(" mask=", brief(*p.mask));
  made.flops = 4 * static_cast<double>(element_count(p.x.shape));
  made.bytes = traffic({p.x, p.y}) + (p.backward ? traffic({p.dx}) : 0) + (p.mask ? traffic({*p.mask}) : 0);
  info = std::make_shared<const PlanInfo>(std::move(made));
  return impl;
}

/// What both directions share; `x` and `y` are what the tensors are called.
SoftmaxProblem checked(const char* x, const char* y, const SoftmaxDesc& desc, bool backward) {
  require_floating(x, desc.x, true);
  require_floating(y, desc.y, true);
  require_shape(y, desc.y, desc.x.shape);
  SoftmaxProblem p;
  p.kind = desc.log ? SoftmaxKind::log_softmax : SoftmaxKind::softmax;
  p.backward = backward;
  p.axis = normalize_axis("axis", desc.axis, desc.x.shape.size());
  p.x = desc.x;
  p.y = desc.y;
  if (backward) p.dx = desc.dx;
  p.mask = desc.mask;
  if (!desc.mask) return p;
  const DType dtype = desc.mask->dtype;
  require_strides("mask", *desc.mask);
  require(dtype == DType::boolean || (is_floating(dtype) && !backward), "mask", "dtype ", name_of(dtype),
          " must be bool", backward ? "" : ", f32, f16, bf16 or f64");
  require_broadcast("mask", *desc.mask, "x", desc.x.shape);
  return p;
}

void require_mask(const SoftmaxDesc& desc, const Tensor& mask, const Stream& stream) {
  if (desc.mask)
    require_tensor("mask", mask, stream.context(), *desc.mask);
  else
    require(!mask.defined(), "mask", "is given to a plan without it");
}

}  // namespace

Softmax::Softmax(const Context& context, const SoftmaxDesc& desc, const Options& options)
    : Plan(nullptr), desc_(desc) {
  const SoftmaxProblem p = checked("x", "y", desc, false);
  require_writable("y", desc.y);
  impl_ = plan(context, p, options, info_);
}

void Softmax::run(const Stream& stream, const Tensor& x, const Tensor& y, const Tensor& workspace,
                  const Tensor& mask) const {
  require_stream(*info_, stream);
  require_tensor("x", x, stream.context(), desc_.x);
  require_tensor("y", y, stream.context(), desc_.y);
  require_mask(desc_, mask, stream);
  require_same_or_apart({"y", y}, {"x", x});
  require_apart({{"y", y}}, {{"mask", mask}});
  require_apart({{"workspace", workspace}}, {{"x", x}, {"y", y}, {"mask", mask}});
  if (y.numel() == 0) return;
  const Tensor space = workspace_for(*info_, stream, workspace);
  const OperatorScope scope(stream, *info_);
  impl_->run(stream, {x, y, {}, mask}, space);
}

SoftmaxBackward::SoftmaxBackward(const Context& context, const SoftmaxDesc& desc, const Options& options)
    : Plan(nullptr), desc_(desc) {
  const SoftmaxProblem p = checked("dy", "y", desc, true);
  require_floating("dx", desc.dx, true);
  require_shape("dx", desc.dx, desc.x.shape);
  require_writable("dx", desc.dx);
  impl_ = plan(context, p, options, info_);
}

void SoftmaxBackward::run(const Stream& stream, const Tensor& dy, const Tensor& y, const Tensor& dx,
                          const Tensor& workspace, const Tensor& mask) const {
  require_stream(*info_, stream);
  require_tensor("dy", dy, stream.context(), desc_.x);
  require_tensor("y", y, stream.context(), desc_.y);
  require_tensor("dx", dx, stream.context(), desc_.dx);
  require_mask(desc_, mask, stream);
  require_same_or_apart({"dx", dx}, {"dy", dy});
  require_apart({{"dx", dx}}, {{"y", y}, {"mask", mask}});
  require_apart({{"workspace", workspace}}, {{"dy", dy}, {"y", y}, {"dx", dx}, {"mask", mask}});
  if (dx.numel() == 0) return;
  const Tensor space = workspace_for(*info_, stream, workspace);
  const OperatorScope scope(stream, *info_);
  impl_->run(stream, {dy, y, dx, mask}, space);
}

namespace {

void check(const LogSumExpDesc& desc) {
  require_floating("x", desc.x, true);
  require_floating("y", desc.y, true);
  require_shape("y", desc.y, row_shape(desc.x.shape, normalize_axis("axis", desc.axis, desc.x.shape.size())));
}

}  // namespace

LogSumExp::LogSumExp(const Context& context, const LogSumExpDesc& desc, const Options& options)
    : Plan(nullptr), desc_(desc) {
  check(desc);
  require_writable("y", desc.y);
  SoftmaxProblem p;
  p.kind = SoftmaxKind::logsumexp;
  p.axis = normalize_axis("axis", desc.axis, desc.x.shape.size());
  p.x = desc.x;
  p.y = desc.y;
  impl_ = plan(context, p, options, info_);
}

void LogSumExp::run(const Stream& stream, const Tensor& x, const Tensor& y, const Tensor& workspace) const {
  require_stream(*info_, stream);
  require_tensor("x", x, stream.context(), desc_.x);
  require_tensor("y", y, stream.context(), desc_.y);
  require_apart({{"y", y}, {"workspace", workspace}}, {{"x", x}});
  if (y.numel() == 0) return;
  const Tensor space = workspace_for(*info_, stream, workspace);
  const OperatorScope scope(stream, *info_);
  impl_->run(stream, {x, y, {}, {}}, space);
}

struct LogSumExpBackward::Impl {
  Pointwise kernel;
};

LogSumExpBackward::LogSumExpBackward(const Context& context, const LogSumExpDesc& desc,
                                     const Options& options)
    : Plan(nullptr), desc_(desc) {
  check(desc);
  require_floating("dy", desc.dy, true);
  require_shape("dy", desc.dy, desc.y.shape);
  require_floating("dx", desc.dx, true);
  require_shape("dx", desc.dx, desc.x.shape);
  require_writable("dx", desc.dx);
  impl_ = std::make_shared<const Impl>(
      Impl{Pointwise(context, {desc.dy, desc.x, desc.y}, {desc.dx}, 0, "y0 = x0 * exp(x1 - x2)")});
  PlanInfo info;
  info.text = cat("x=", brief(desc.x), " y=", brief(desc.y), " axis=", desc.axis);
  info.flops = 3 * static_cast<double>(element_count(desc.x.shape));
  info.bytes = traffic({desc.dy, desc.x, desc.y, desc.dx});
  info_ = single_engine("logsumexp_backward", "generated", "", context, options, std::move(info));
}

void LogSumExpBackward::run(const Stream& stream, const Tensor& dy, const Tensor& x, const Tensor& y,
                            const Tensor& dx) const {
  require_stream(*info_, stream);
  require_tensor("dy", dy, stream.context(), desc_.dy);
  require_tensor("x", x, stream.context(), desc_.x);
  require_tensor("y", y, stream.context(), desc_.y);
  require_tensor("dx", dx, stream.context(), desc_.dx);
  require_same_or_apart({"dx", dx}, {"x", x});
  require_apart({{"dx", dx}}, {{"dy", dy}, {"y", y}});
  const OperatorScope scope(stream, *info_);
  impl_->kernel.run(stream, {dy, x, y}, {dx}, {});
}

namespace {

/// A call of either direction; `dx` is undefined forward.
template <class P>
void call(const Stream& stream, const char* op, SoftmaxDesc desc, const Tensor& mask, const Tensor& x,
          const Tensor& y, const Tensor& dx) {
  if (mask.defined()) desc.mask = TensorDesc(mask);
  const auto plan = cached_plan<P>(stream, op, desc);
  if constexpr (std::is_same_v<P, Softmax>)
    plan->run(stream, x, y, {}, mask);
  else
    plan->run(stream, x, y, dx, {}, mask);
}

void forward(const Stream& stream, const Tensor& x, int axis, const Tensor& y, bool log, const Tensor& mask) {
  require_defined({{"x", x}, {"y", y}});
  call<Softmax>(stream, "softmax", {x, y, {}, axis, log}, mask, x, y, {});
}

void backward(const Stream& stream, const Tensor& dy, const Tensor& y, int axis, const Tensor& dx, bool log,
              const Tensor& mask) {
  require_defined({{"dy", dy}, {"y", y}, {"dx", dx}});
  call<SoftmaxBackward>(stream, "softmax_backward", {dy, y, dx, axis, log}, mask, dy, y, dx);
}

}  // namespace

void softmax(const Stream& stream, const Tensor& x, int axis, const Tensor& y, const Tensor& mask) {
  forward(stream, x, axis, y, false, mask);
}
void log_softmax(const Stream& stream, const Tensor& x, int axis, const Tensor& y, const Tensor& mask) {
  forward(stream, x, axis, y, true, mask);
}
void softmax_backward(const Stream& stream, const Tensor& dy, const Tensor& y, int axis, const Tensor& dx,
                      const Tensor& mask) {
  backward(stream, dy, y, axis, dx, false, mask);
}
void log_softmax_backward(const Stream& stream, const Tensor& dy, const Tensor& y, int axis, const Tensor& dx,
                          const Tensor& mask) {
  backward(stream, dy, y, axis, dx, true, mask);
}

void logsumexp(const Stream& stream, const Tensor& x, int axis, const Tensor& y) {
  require_defined({{"x", x}, {"y", y}});
  const LogSumExpDesc desc{x, y, {}, {}, axis};
  cached_plan<LogSumExp>(stream, "logsumexp", desc)->run(stream, x, y);
}

void logsumexp_backward(const Stream& stream, const Tensor& dy, const Tensor& x, const Tensor& y, int axis,
                        const Tensor& dx) {
  require_defined({{"dy", dy}, {"x", x}, {"y", y}, {"dx", dx}});
  const LogSumExpDesc desc{x, y, dy, dx, axis};
  cached_plan<LogSumExpBackward>(stream, "logsumexp_backward", desc)->run(stream, dy, x, y, dx);
}

}  // namespace dlprim
