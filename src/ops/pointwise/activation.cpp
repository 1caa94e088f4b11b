// Activations, forward and backward: one generated pointwise kernel each.
#include <dlprim/activation.hpp>
#include <dlprim/pointwise.hpp>

#include "core/composed.hpp"
#include "ops/lib/expression_names.hpp"
#include "ops/pointwise/activation_impl.hpp"

namespace dlprim::detail {
template <>
inline constexpr int kFields<ActivationDesc> = 3;
template <>
inline constexpr int kFields<ActivationBackwardDesc> = 4;
}  // namespace dlprim::detail

namespace dlprim {

using namespace detail;

struct ActivationForward::Impl {
  ActivationDesc desc;
  Pointwise kernel;
};

struct ActivationBackward::Impl {
  ActivationBackwardDesc desc;
  Pointwise kernel;
};

namespace {

struct Expressions {
  const char *name, *forward, *backward;
};

/// In the enumeration's order. Backward, comparisons are such that a NaN in y passes dy on. Null: y does not
/// tell it, as two values of x have the same y.
constexpr Expressions kExpressions[] = {
    {"identity", "y0 = x0", "dy"},
    {"relu", "y0 = relu(x0)", "y <= 0 ? 0 : dy"},
    {"relu6", "y0 = relu6(x0)", "y <= 0 || y >= 6 ? 0 : dy"},
    {"sigmoid", "y0 = sigmoid(x0)", "dy * y * (1 - y)"},
    {"tanh", "y0 = tanh(x0)", "dy * (1 - y * y)"},
    {"hardsigmoid", "y0 = hardsigmoid(x0)", "y <= 0 || y >= 1 ? 0 : dy / 6"},
    {"silu", "y0 = silu(x0)", nullptr},
    {"hardswish", "y0 = hardswish(x0)", nullptr},
    {"gelu", "y0 = gelu(x0)", nullptr},
    {"gelu_tanh", "y0 = gelu_tanh(x0)", nullptr},
};

const Expressions& expressions(Activation f) {
  return kExpressions[static_cast<size_t>(f)];
}

/// `x` and `y` are tensors of one shape, the first one called `name`.
void check(const char* name, const TensorDesc& x, const TensorDesc& y, Activation f) {
  require_activation("f", f);
  require_floating(name, x, true);
  require_floating("y", y, true);
  require_shape("y", y, x.shape);
}

std::shared_ptr<const PlanInfo> make_info(const char* op, const Context& context, const TensorDesc& x,
                                          const TensorDesc& y, Activation f, double bytes,
                                          const Options& options) {
  PlanInfo info;
  info.text = cat("f=", name_of(f), " x=", brief(x), " y=", brief(y));
  info.flops = static_cast<double>(element_count(x.shape));
  info.bytes = bytes;
  return single_engine(op, "generated", "", context, options, std::move(info));
}

}  // namespace

const char* name_of(Activation activation) noexcept {
  return static_cast<size_t>(activation) < std::size(kExpressions) ? expressions(activation).name : "unknown";
}

std::optional<Activation> activation_named(std::string_view name) noexcept {
  for (size_t i = 0; i < std::size(kExpressions); i++)
    if (name == kExpressions[i].name) return static_cast<Activation>(i);
  return std::nullopt;
}

bool is_told_from_result(Activation activation) noexcept {
  return static_cast<size_t>(activation) < std::size(kExpressions) && expressions(activation).backward;
}

void detail::require_activation(const char* argument, Activation f) {
  const auto i = static_cast<size_t>(f);
  require(i < std::size(kExpressions), argument, "activation ", i, " does not exist");
}

void detail::require_told_from_result(const char* argument, Activation f) {
  require_activation(argument, f);
  require(is_told_from_result(f), argument, "the gradient of ", name_of(f),
          " cannot be told from its result");
}

std::string detail::activation_gradient(Activation f, const std::string& dy, const std::string& y) {
  ExpressionNames names;
  names.add("dy", dy);
  names.add("y", y);
  return names.in_kernel(expressions(f).backward);
}

ActivationForward::ActivationForward(const Context& context, const ActivationDesc& desc,
                                     const Options& options)
    : Plan(nullptr) {
  check("x", desc.x, desc.y, desc.f);
  require_writable("y", desc.y);
  info_ = make_info("activation", context, desc.x, desc.y, desc.f, traffic({desc.x, desc.y}), options);
  impl_ = std::make_shared<const Impl>(
      Impl{desc, Pointwise(context, {desc.x}, {desc.y}, 0, expressions(desc.f).forward)});
}

void ActivationForward::run(const Stream& stream, const Tensor& x, const Tensor& y,
                            const Tensor& workspace) const {
  require_stream(*info_, stream);
  require_tensor("x", x, stream.context(), impl_->desc.x);
  require_tensor("y", y, stream.context(), impl_->desc.y);
  require_same_or_apart({"y", y}, {"x", x});
  require_unused(*info_, stream, workspace, {{"x", x}, {"y", y}});
  const OperatorScope scope(stream, *info_);
  impl_->kernel.run(stream, {x}, {y}, {});
}

ActivationBackward::ActivationBackward(const Context& context, const ActivationBackwardDesc& desc,
                                       const Options& options)
    : Plan(nullptr) {
  check("dy", desc.dy, desc.y, desc.f);
  require_told_from_result("f", desc.f);
  require_floating("dx", desc.dx, true);
  require_shape("dx", desc.dx, desc.dy.shape);
  require_writable("dx", desc.dx);
  info_ = make_info("activation_backward", context, desc.dy, desc.y, desc.f,
                    traffic({desc.dy, desc.y, desc.dx}), options);
  impl_ =
      std::make_shared<const Impl>(Impl{desc, Pointwise(context, {desc.dy, desc.y}, {desc.dx}, 0,
                                                        "y0 = " + activation_gradient(desc.f, "x0", "x1"))});
}

void ActivationBackward::run(const Stream& stream, const Tensor& dy, const Tensor& y, const Tensor& dx,
                             const Tensor& workspace) const {
  require_stream(*info_, stream);
  require_tensor("dy", dy, stream.context(), impl_->desc.dy);
  require_tensor("y", y, stream.context(), impl_->desc.y);
  require_tensor("dx", dx, stream.context(), impl_->desc.dx);
  require_same_or_apart({"dx", dx}, {"dy", dy});
  require_apart({{"dx", dx}}, {{"y", y}});
  require_unused(*info_, stream, workspace, {{"dy", dy}, {"y", y}, {"dx", dx}});
  const OperatorScope scope(stream, *info_);
  impl_->kernel.run(stream, {dy, y}, {dx}, {});
}

void activation(const Stream& stream, const Tensor& x, Activation f, const Tensor& y, const Options& options,
                const Tensor& workspace) {
  require_defined({{"x", x}, {"y", y}});
  const ActivationDesc desc{x, y, f};
  cached_plan<ActivationForward>(stream, "activation", desc, options, workspace)
      ->run(stream, x, y, workspace);
}

void activation_backward(const Stream& stream, const Tensor& dy, const Tensor& y, Activation f,
                         const Tensor& dx, const Options& options, const Tensor& workspace) {
  require_defined({{"dy", dy}, {"y", y}, {"dx", dx}});
  const ActivationBackwardDesc desc{dy, y, dx, f};
  cached_plan<ActivationBackward>(stream, "activation_backward", desc, options, workspace)
      ->run(stream, dy, y, dx, workspace);
}

}  // namespace dlprim
