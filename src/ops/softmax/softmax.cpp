// Softmax, log-softmax and logsumexp: checks, the list of engines, the calls. The engines are in
// softmax_row.cpp and softmax_generated.cpp.
#include <dlprim/pointwise.hpp>
#include <dlprim/softmax.hpp>

#include "core/composed.hpp"
#include "core/engine.hpp"
#include "ops/lib/broadcast.hpp"
#include "ops/lib/rows.hpp"
#include "ops/softmax/softmax_impl.hpp"

namespace dlprim::detail {
template <>
inline constexpr int kFields<SoftmaxDesc> = 5;
template <>
inline constexpr int kFields<SoftmaxBackwardDesc> = 6;
template <>
inline constexpr int kFields<LogSumExpDesc> = 3;
template <>
inline constexpr int kFields<LogSumExpBackwardDesc> = 5;
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

constexpr EngineList<SoftmaxProblem, SoftmaxImpl> kEngines = {&kSoftmaxRow, &kSoftmaxCpu, &kSoftmaxGenerated};

std::shared_ptr<const SoftmaxImpl> plan(const Context& context, const SoftmaxProblem& p,
                                        const Options& options, std::shared_ptr<const PlanInfo>& info) {
  PlanInfo made;
  const std::string op = name_of(p);
  std::shared_ptr<const SoftmaxImpl> impl = choose_engine(op.c_str(), kEngines, context, p, options, made);
  made.text = cat("op=", op, " engine=", made.engine, " x=", brief(p.x), " y=", brief(p.y), " axis=", p.axis);
  if (p.mask) made.text += cat(" mask=", brief(*p.mask));
  made.flops = 4 * static_cast<double>(element_count(p.x.shape));
  made.bytes = traffic({p.x, p.y}) + (p.backward ? traffic({p.dx}) : 0) + (p.mask ? traffic({*p.mask}) : 0);
  info = std::make_shared<const PlanInfo>(std::move(made));
  return impl;
}

/// What both directions check; `x` is what the first tensor is called.
void check(const char* x, SoftmaxProblem& p, int axis, bool log) {
  require_floating(x, p.x, true);
  require_floating("y", p.y, true);
  require_shape("y", p.y, p.x.shape);
  p.kind = log ? SoftmaxKind::log_softmax : SoftmaxKind::softmax;
  p.axis = normalize_axis("axis", axis, p.x.shape.size());
  if (!p.mask) return;
  const DType dtype = p.mask->dtype;
  require_strides("mask", *p.mask);
  require(dtype == DType::boolean || (is_floating(dtype) && !p.backward), "mask", "dtype ", name_of(dtype),
          " must be bool", p.backward ? "" : ", f32, f16, bf16 or f64");
  require_broadcast("mask", *p.mask, "x", p.x.shape);
}

}  // namespace

Softmax::Softmax(const Context& context, const SoftmaxDesc& desc, const Options& options)
    : Plan(nullptr), desc_(desc) {
  SoftmaxProblem p;
  p.x = desc.x, p.y = desc.y, p.mask = desc.mask;
  check("x", p, desc.axis, desc.log);
  require_writable("y", desc.y);
  impl_ = plan(context, p, options, info_);
}

void Softmax::run(const Stream& stream, const Tensor& x, const Tensor& mask, const Tensor& y,
                  const Tensor& workspace) const {
  require_stream(*info_, stream);
  require_tensor("x", x, stream.context(), desc_.x);
  require_tensor("y", y, stream.context(), desc_.y);
  require_optional("mask", mask, stream.context(), desc_.mask);
  require_same_or_apart({"y", y}, {"x", x});
  require_apart({{"y", y}}, {{"mask", mask}});
  require_apart({{"workspace", workspace}}, {{"x", x}, {"y", y}, {"mask", mask}});
  if (y.numel() == 0) return;
  const Tensor space = workspace_for(*info_, stream, workspace);
  const OperatorScope scope(stream, *info_);
  impl_->run(stream, {x, y, {}, mask}, space);
}

SoftmaxBackward::SoftmaxBackward(const Context& context, const SoftmaxBackwardDesc& desc,
                                 const Options& options)
    : Plan(nullptr), desc_(desc) {
  SoftmaxProblem p;
  p.backward = true;
  p.x = desc.dy, p.y = desc.y, p.dx = desc.dx, p.mask = desc.mask;
  check("dy", p, desc.axis, desc.log);
  require_floating("dx", desc.dx, true);
  require_shape("dx", desc.dx, desc.dy.shape);
  require_writable("dx", desc.dx);
  impl_ = plan(context, p, options, info_);
}

void SoftmaxBackward::run(const Stream& stream, const Tensor& dy, const Tensor& y, const Tensor& mask,
                          const Tensor& dx, const Tensor& workspace) const {
  require_stream(*info_, stream);
  require_tensor("dy", dy, stream.context(), desc_.dy);
  require_tensor("y", y, stream.context(), desc_.y);
  require_tensor("dx", dx, stream.context(), desc_.dx);
  require_optional("mask", mask, stream.context(), desc_.mask);
  require_same_or_apart({"dx", dx}, {"dy", dy});
  require_apart({{"dx", dx}}, {{"y", y}, {"mask", mask}});
  require_apart({{"workspace", workspace}}, {{"dy", dy}, {"y", y}, {"dx", dx}, {"mask", mask}});
  if (dx.numel() == 0) return;
  const Tensor space = workspace_for(*info_, stream, workspace);
  const OperatorScope scope(stream, *info_);
  impl_->run(stream, {dy, y, dx, mask}, space);
}

namespace {

void check_sums(const TensorDesc& x, const TensorDesc& y, int axis) {
  require_floating("x", x, true);
  require_floating("y", y, true);
  require_shape("y", y, row_shape(x.shape, normalize_axis("axis", axis, x.shape.size())));
}

}  // namespace

LogSumExp::LogSumExp(const Context& context, const LogSumExpDesc& desc, const Options& options)
    : Plan(nullptr), desc_(desc) {
  check_sums(desc.x, desc.y, desc.axis);
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

LogSumExpBackward::LogSumExpBackward(const Context& context, const LogSumExpBackwardDesc& desc,
                                     const Options& options)
    : Plan(nullptr), desc_(desc) {
  check_sums(desc.x, desc.y, desc.axis);
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
                            const Tensor& dx, const Tensor& workspace) const {
  require_stream(*info_, stream);
  require_tensor("dy", dy, stream.context(), desc_.dy);
  require_tensor("x", x, stream.context(), desc_.x);
  require_tensor("y", y, stream.context(), desc_.y);
  require_tensor("dx", dx, stream.context(), desc_.dx);
  require_same_or_apart({"dx", dx}, {"x", x});
  require_apart({{"dx", dx}}, {{"dy", dy}, {"y", y}});
  require_unused(*info_, stream, workspace, {{"dy", dy}, {"x", x}, {"y", y}, {"dx", dx}});
  const OperatorScope scope(stream, *info_);
  impl_->kernel.run(stream, {dy, x, y}, {dx}, {});
}

namespace {

void forward(const Stream& stream, const Tensor& x, const Tensor& mask, int axis, const Tensor& y, bool log,
             const Options& options, const Tensor& workspace) {
  require_defined({{"x", x}, {"y", y}});
  const SoftmaxDesc desc{x, y, axis, log, described(mask)};
  cached_plan<Softmax>(stream, "softmax", desc, options, workspace)->run(stream, x, mask, y, workspace);
}

void backward(const Stream& stream, const Tensor& dy, const Tensor& y, const Tensor& mask, int axis,
              const Tensor& dx, bool log, const Options& options, const Tensor& workspace) {
  require_defined({{"dy", dy}, {"y", y}, {"dx", dx}});
  const SoftmaxBackwardDesc desc{dy, y, dx, axis, log, described(mask)};
  cached_plan<SoftmaxBackward>(stream, "softmax_backward", desc, options, workspace)
      ->run(stream, dy, y, mask, dx, workspace);
}

}  // namespace

void softmax(const Stream& stream, const Tensor& x, const Tensor& mask, int axis, const Tensor& y,
             const Options& options, const Tensor& workspace) {
  forward(stream, x, mask, axis, y, false, options, workspace);
}
void log_softmax(const Stream& stream, const Tensor& x, const Tensor& mask, int axis, const Tensor& y,
                 const Options& options, const Tensor& workspace) {
  forward(stream, x, mask, axis, y, true, options, workspace);
}
void softmax_backward(const Stream& stream, const Tensor& dy, const Tensor& y, const Tensor& mask, int axis,
                      const Tensor& dx, const Options& options, const Tensor& workspace) {
  backward(stream, dy, y, mask, axis, dx, false, options, workspace);
}
void log_softmax_backward(const Stream& stream, const Tensor& dy, const Tensor& y, const Tensor& mask,
                          int axis, const Tensor& dx, const Options& options, const Tensor& workspace) {
  backward(stream, dy, y, mask, axis, dx, true, options, workspace);
}

void logsumexp(const Stream& stream, const Tensor& x, int axis, const Tensor& y, const Options& options,
               const Tensor& workspace) {
  require_defined({{"x", x}, {"y", y}});
  const LogSumExpDesc desc{x, y, axis};
  cached_plan<LogSumExp>(stream, "logsumexp", desc, options, workspace)->run(stream, x, y, workspace);
}

void logsumexp_backward(const Stream& stream, const Tensor& dy, const Tensor& x, const Tensor& y, int axis,
                        const Tensor& dx, const Options& options, const Tensor& workspace) {
  require_defined({{"dy", dy}, {"x", x}, {"y", y}, {"dx", dx}});
  const LogSumExpBackwardDesc desc{dy, x, y, dx, axis};
  cached_plan<LogSumExpBackward>(stream, "logsumexp_backward", desc, options, workspace)
      ->run(stream, dy, x, y, dx, workspace);
}

}  // namespace dlprim
