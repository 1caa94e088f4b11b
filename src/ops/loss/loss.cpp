// Losses that go element by element: one generated kernel forward, a reduction or a pointwise one; one
// backward.
#include <dlprim/loss.hpp>

#include <dlprim/pointwise.hpp>

#include "core/composed.hpp"
#include "core/gen/arguments.hpp"
#include "ops/lib/broadcast.hpp"
#include "ops/lib/expression_names.hpp"
#include "ops/loss/loss_reduction.hpp"

namespace dlprim::detail {
template <>
inline constexpr int kFields<LossDesc> = 6;
template <>
inline constexpr int kFields<LossBackwardDesc> = 8;
}  // namespace dlprim::detail

namespace dlprim {

using namespace detail;

namespace {

/// Names of arguments for refusals; no function has more weights.
constexpr const char* kWeights[] = {"weights[0]", "weights[1]"};

/// `y` is what the loss is called, or backward its gradient.
const LossFunction& check(const LossDesc& desc, const char* y) {
  const LossFunction& f = loss_function(desc.function);
  require_loss_reduction(desc.reduction, true);
  require_floating("x", desc.x, true);
  require_floating("target", desc.target, true);
  require_shape("target", desc.target, desc.x.shape);
  require(desc.x.shape.size() > 0, "x", "has no dimension");
  require_floating(y, desc.y, true);
  require_shape(y, desc.y, desc.reduction == LossReduction::none ? desc.x.shape : Shape{1});
  require(desc.weights.empty() || desc.weights.size() == f.weights.size(), "weights", f.name, " has ",
          f.weights.size(), ", not ", desc.weights.size());
  for (size_t i = 0; i < desc.weights.size(); i++) {
    if (!desc.weights[i]) continue;
    require_floating(kWeights[i], *desc.weights[i], true);
    require_broadcast(kWeights[i], *desc.weights[i], "x", desc.x.shape);
  }
  return f;
}

/// The tensors in front, then the weights that there are.
std::vector<TensorDesc> inputs_of(const LossDesc& desc, std::vector<TensorDesc> front) {
  for (const auto& w : desc.weights)
    if (w) front.push_back(*w);
  return front;
}
std::vector<Tensor> inputs_of(const std::vector<Tensor>& weights, std::vector<Tensor> front) {
  for (const Tensor& w : weights)
    if (w.defined()) front.push_back(w);
  return front;
}

/// Statements that give the kernel's inputs and scalars the names of the list; x is input `first`.
std::string names(const LossFunction& f, const LossDesc& desc, int first) {
  std::string text = cat("const real x = x", first, ", target = x", first + 1);
  int next = first + 2;
  for (size_t i = 0; i < f.weights.size(); i++) {
    const bool given = i < desc.weights.size() && desc.weights[i];
    text += cat(", ", f.weights[i], " = ", given ? cat('x', next++) : "1");
  }
  for (size_t i = 0; i < f.parameters.size(); i++) text += cat(", ", f.parameters[i].name, " = s", i);
  return text + "; ";
}
std::string shared_by_all(const LossFunction& f) {
  return f.let.empty() ? "" : f.let + "; ";
}

/// What the sum, or backward the gradient, is multiplied with.
double factor_of(const LossDesc& desc) {
  if (desc.reduction == LossReduction::mean) return 1 / static_cast<double>(element_count(desc.x.shape));
  if (desc.reduction == LossReduction::batch_mean) return 1 / static_cast<double>(desc.x.shape[0]);
  return 1;
}

/// The kernel's scalars: the parameters, then the factor.
std::vector<Scalar> scalars_of(const LossFunction& f, const LossDesc& desc,
                               const std::vector<Scalar>& given) {
  std::vector<Scalar> values = parameters_of(f.name, f.parameters, given);
  values.push_back(factor_of(desc));
  return values;
}

std::shared_ptr<const PlanInfo> info_of(const char* op, const Context& context, const LossDesc& desc,
                                        std::vector<TensorDesc> tensors, size_t workspace,
                                        const Options& options) {
  PlanInfo info;
  info.text = cat("function=", desc.function, " x=", brief(desc.x), " target=", brief(desc.target),
                  " reduction=", name_of(desc.reduction));
  info.flops = 4 * static_cast<double>(element_count(desc.x.shape));
  info.bytes = traffic(inputs_of(desc, std::move(tensors)));
  info.workspace = workspace;
  return single_engine(op, "generated", "", context, options, std::move(info));
}

void require_weights(const LossDesc& desc, const std::vector<Tensor>& weights, const Stream& stream) {
  require(weights.empty() || weights.size() == desc.weights.size(), "weights", "the plan has ",
          desc.weights.size(), ", not ", weights.size());
  for (size_t i = 0; i < desc.weights.size(); i++) {
    const bool given = i < weights.size() && weights[i].defined();
    require(given == desc.weights[i].has_value(), kWeights[i], "is ",
            given ? "given, but the plan has none" : "not defined");
    if (given) require_tensor(kWeights[i], weights[i], stream.context(), *desc.weights[i]);
  }
}

}  // namespace

struct Loss::Impl {
  LossDesc desc;
  const LossFunction& f;
  std::optional<Reduce> reduction;
  std::optional<Pointwise> pointwise;  ///< of nothing reduced
};

Loss::Loss(const Context& context, const LossDesc& desc, const Options& options) : Plan(nullptr) {
  const LossFunction& f = check(desc, "y");
  require_writable("y", desc.y);
  auto impl = std::make_shared<Impl>(Impl{desc, f, {}, {}});
  const std::vector<TensorDesc> inputs = inputs_of(desc, {desc.x, desc.target});
  const int scalars = static_cast<int>(f.parameters.size()) + 1;
  const std::string before = names(f, desc, 0) + shared_by_all(f);
  if (desc.reduction == LossReduction::none) {
    impl->pointwise.emplace(context, inputs, std::vector<TensorDesc>{desc.y}, scalars,
                            cat(before, "y0 = ", f.result));
  } else {
    // An empty sum times the mean's factor, infinity, is the NaN of a mean of nothing.
    Reduction sum = sum_of("0", cat("y0 = a0 * s", scalars - 1));
    sum.accumulate = cat(before, "a0 += ", f.result);
    impl->reduction.emplace(context, inputs, std::vector<TensorDesc>{desc.y}, scalars, sum,
                            same_limit(options));
  }
  info_ = info_of("loss", context, desc, {desc.x, desc.target, desc.y},
                  impl->reduction ? impl->reduction->workspace_size() : 0, options);
  impl_ = std::move(impl);
}

void Loss::run(const Stream& stream, const Tensor& x, const Tensor& target,
               const std::vector<Tensor>& weights, const std::vector<Scalar>& parameters, const Tensor& y,
               const Tensor& workspace) const {
  const LossDesc& desc = impl_->desc;
  require_stream(*info_, stream);
  const std::vector<Scalar> scalars = scalars_of(impl_->f, desc, parameters);
  require_tensor("x", x, stream.context(), desc.x);
  require_tensor("target", target, stream.context(), desc.target);
  require_tensor("y", y, stream.context(), desc.y);
  require_weights(desc, weights, stream);
  require_apart({{"y", y}, {"workspace", workspace}}, {{"x", x}, {"target", target}});
  for (size_t i = 0; i < weights.size(); i++)
    require_apart({{"y", y}, {"workspace", workspace}}, {{kWeights[i], weights[i]}});
  const std::vector<Tensor> inputs = inputs_of(weights, {x, target});
  const Tensor space = workspace_for(*info_, stream, workspace);
  const OperatorScope scope(stream, *info_);
  if (impl_->pointwise)
    impl_->pointwise->run(stream, inputs, {y}, scalars);
  else
    impl_->reduction->run(stream, inputs, {y}, scalars, workspace_scratch(space, 0, *impl_->reduction));
}

struct LossBackward::Impl {
  LossBackwardDesc desc;
  LossDesc loss;  ///< the same forwards, y as dy
  const LossFunction& f;
  Pointwise kernel;
};

LossBackward::LossBackward(const Context& context, const LossBackwardDesc& desc, const Options& options)
    : Plan(nullptr) {
  const LossDesc loss{desc.function, desc.x, desc.target, desc.dy, desc.reduction, desc.weights};
  const LossFunction& f = check(loss, "dy");
  require(desc.dx || desc.dtarget, "dx", "no gradient is wanted");
  const int scalars = static_cast<int>(f.parameters.size()) + 1;
  std::string body = cat(names(f, loss, 1), "const real dy = x0 * s", scalars - 1, "; ", shared_by_all(f));
  std::vector<TensorDesc> results;
  for (const auto& [name, gradient, expression] :
       {std::tuple("dx", &desc.dx, &f.dx), std::tuple("dtarget", &desc.dtarget, &f.dtarget)}) {
    if (!*gradient) continue;
    require_floating(name, **gradient, true);
    require_shape(name, **gradient, desc.x.shape);
    require_writable(name, **gradient);
    body += cat("y", results.size(), " = ", *expression, "; ");
    results.push_back(**gradient);
  }
  impl_ = std::make_shared<const Impl>(
      Impl{desc, loss, f,
           Pointwise(context, inputs_of(loss, {desc.dy, desc.x, desc.target}), results, scalars, body)});
  results.insert(results.end(), {desc.dy, desc.x, desc.target});
  info_ = info_of("loss_backward", context, loss, results, 0, options);
}

void LossBackward::run(const Stream& stream, const Tensor& dy, const Tensor& x, const Tensor& target,
                       const std::vector<Tensor>& weights, const std::vector<Scalar>& parameters,
                       const Tensor& dx, const Tensor& dtarget, const Tensor& workspace) const {
  const LossBackwardDesc& desc = impl_->desc;
  require_stream(*info_, stream);
  const std::vector<Scalar> scalars = scalars_of(impl_->f, impl_->loss, parameters);
  require_tensor("dy", dy, stream.context(), desc.dy);
  require_tensor("x", x, stream.context(), desc.x);
  require_tensor("target", target, stream.context(), desc.target);
  require_weights(impl_->loss, weights, stream);
  std::vector<Tensor> results;
  for (const auto& [name, gradient, given] :
       {std::tuple("dx", &desc.dx, &dx), std::tuple("dtarget", &desc.dtarget, &dtarget)}) {
    require(gradient->has_value() == given->defined(), name, "is ",
            given->defined() ? "given, but the plan has none" : "not defined");
    if (!given->defined()) continue;
    require_tensor(name, *given, stream.context(), **gradient);
    require_same_or_apart({name, *given}, {"x", x});
    require_same_or_apart({name, *given}, {"target", target});
    if (desc.reduction == LossReduction::none)
      require_same_or_apart({name, *given}, {"dy", dy});
    else
      require_apart({{name, *given}}, {{"dy", dy}});
    for (size_t i = 0; i < weights.size(); i++) require_apart({{name, *given}}, {{kWeights[i], weights[i]}});
    results.push_back(*given);
  }
  require_apart({{"dx", dx}}, {{"dtarget", dtarget}});
  for (size_t i = 0; i < weights.size(); i++)
    require_apart({{"workspace", workspace}}, {{kWeights[i], weights[i]}});
  require_unused(*info_, stream, workspace,
                 {{"dy", dy}, {"x", x}, {"target", target}, {"dx", dx}, {"dtarget", dtarget}});
  const OperatorScope scope(stream, *info_);
  impl_->kernel.run(stream, inputs_of(weights, {dy, x, target}), results, scalars);
}

namespace {

std::vector<std::optional<TensorDesc>> described_all(const std::vector<Tensor>& tensors) {
  std::vector<std::optional<TensorDesc>> descs;
  for (const Tensor& t : tensors) descs.push_back(described(t));
  return descs;
}

}  // namespace

void loss(const Stream& stream, std::string_view function, const Tensor& x, const Tensor& target,
          const std::vector<Tensor>& weights, const LossParams& params, const Tensor& y,
          const Options& options, const Tensor& workspace) {
  require_defined({{"x", x}, {"target", target}, {"y", y}});
  const LossDesc desc{std::string(function), x, target, y, params.reduction, described_all(weights)};
  cached_plan<Loss>(stream, "loss", desc, options, workspace)
      ->run(stream, x, target, weights, params.parameters, y, workspace);
}

void loss_backward(const Stream& stream, std::string_view function, const Tensor& dy, const Tensor& x,
                   const Tensor& target, const std::vector<Tensor>& weights, const LossParams& params,
                   const Tensor& dx, const Tensor& dtarget, const Options& options, const Tensor& workspace) {
  require_defined({{"dy", dy}, {"x", x}, {"target", target}});
  const LossBackwardDesc desc{
      std::string(function), dy, x, target, params.reduction, described_all(weights), described(dx),
      described(dtarget)};
  cached_plan<LossBackward>(stream, "loss_backward", desc, options, workspace)
      ->run(stream, dy, x, target, weights, params.parameters, dx, dtarget, workspace);
}

}  // namespace dlprim
