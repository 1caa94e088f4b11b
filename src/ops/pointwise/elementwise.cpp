// Elementwise functions: a generated kernel for the result; backward one for all gradients that have dy's
// shape, and a reduction for each of an input that was broadcast.
#include <dlprim/elementwise.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <mutex>
#include <set>
#include <string_view>

#include <dlprim/pointwise.hpp>

#include "core/composed.hpp"
#include "core/gen/arguments.hpp"
#include "ops/lib/expression_names.hpp"

namespace dlprim {

using namespace detail;

namespace {

using Function = ElementwiseFunction;

/// No function has more inputs.
constexpr const char *kInputs[] = {"inputs[0]", "inputs[1]", "inputs[2]"},
                     *kGradients[] = {"gradients[0]", "gradients[1]", "gradients[2]"};

/// A parameter's value that a kernel has been written for, or none.
using Literal = std::optional<int>;

/// Where kernels of their own pay: a CPU's vectors compute both sides of a condition, and of power's one is
/// 14 times as fast as the other. A GPU's condition on a parameter costs nothing.
Literal literal_of(const Function& f, const std::vector<Scalar>& values, const Context& context) {
  if (f.name != "power" || context.device().kind() != DeviceKind::cpu) return {};
  for (int exponent : {2, 3})
    if (values[0].real() == exponent) return exponent;
  return {};
}

/// Kernels for values of the first parameter, made when they are first asked for.
template <class Kernels>
class ForLiterals {
 public:
  template <class Make>
  const Kernels& get(int value, const Make& make) const {
    const std::lock_guard<std::mutex> lock(mutex_);
    auto found = kernels_.find(value);
    if (found == kernels_.end()) found = kernels_.emplace(value, make()).first;
    return found->second;
  }

 private:
  mutable std::mutex mutex_;
  mutable std::map<int, Kernels> kernels_;
};

/// What tensors and parameters are called in a kernel.
struct Names : ExpressionNames {
  explicit Names(const Function& f, Literal literal = {}) {
    for (size_t i = 0; i < f.parameters.size(); i++)
      ExpressionNames::add(f.parameters[i].name,
                           i == 0 && literal ? cat("((real)", *literal, ")") : cat('s', i));
  }
  void add(const std::string& word, size_t input) { ExpressionNames::add(word, cat('x', input)); }
};

/// What the function's expressions have in common, as a statement in front of them.
std::string let(const Names& names, const Function& f) {
  return f.let.empty() ? "" : names.in_kernel(f.let) + "; ";
}

bool any_floating(const std::vector<TensorDesc>& tensors) {
  return std::any_of(tensors.begin(), tensors.end(),
                     [](const TensorDesc& t) { return is_floating(t.dtype); });
}

void require_domain(const Function& f, const ArgName& argument, const TensorDesc& desc) {
  const bool fits = f.domain == Function::Domain::numbers || f.domain == Function::Domain::to_floating ||
                    is_floating(desc.dtype) == (f.domain == Function::Domain::floating);
  require(fits, argument, "dtype ", name_of(desc.dtype), ": ", f.name, " is for ",
          f.domain == Function::Domain::floating ? "floating dtypes" : "integers and bool");
}

/// Beside u64 all whole numbers are taken modulo 2^64, and of these functions the result then is another one.
void require_one_sign(const Function& f, const std::vector<TensorDesc>& inputs) {
  static const std::set<std::string_view> ordering = {"trunc_divide",
                                                      "floor_divide",
                                                      "fmod",
                                                      "remainder",
                                                      "maximum",
                                                      "minimum",
                                                      "equal",
                                                      "not_equal",
                                                      "less",
                                                      "less_equal",
                                                      "greater",
                                                      "greater_equal",
                                                      "bitwise_right_shift"};
  if (!ordering.count(f.name) || any_floating(inputs)) return;
  const auto is = [&](DType dtype) {
    return std::any_of(inputs.begin(), inputs.end(), [&](const TensorDesc& t) { return t.dtype == dtype; });
  };
  for (size_t i = 0; i < inputs.size(); i++)
    require(!is(DType::u64) || !is_signed_integer(inputs[i].dtype), ArgName("inputs", i), "dtype ",
            name_of(inputs[i].dtype), " beside u64: no type holds both; cast one of them for ", f.name);
}

const Function& check_inputs(const std::string& function, const std::vector<TensorDesc>& inputs) {
  const Function& f = elementwise_function(function);
  require(inputs.size() == f.inputs.size(), "inputs", f.name, " takes ", f.inputs.size(), ", not ",
          inputs.size());
  for (size_t i = 0; i < inputs.size(); i++) require_domain(f, ArgName("inputs", i), inputs[i]);
  require_one_sign(f, inputs);
  return f;
}

/// The nearest number of `real`, an integer. NaN stays.
template <class T>
Scalar clamped(const Scalar& value) {
  using Limits = std::numeric_limits<T>;
  return std::isnan(value.real()) ? value : value.real() < 0 ? Scalar(Limits::min()) : Scalar(Limits::max());
}

/// All parameters, the given ones or the standard ones; of integers, infinities are the least and the largest
/// number, and so is below 0 what u64 is clipped at.
std::vector<Scalar> parameters_of(const Function& f, const std::vector<Scalar>& given, DType real) {
  std::vector<Scalar> values = detail::parameters_of(f.name, f.parameters, given);
  for (Scalar& value : values) {
    if (real == DType::u64 && (!takes(real, value) || (f.name == "clip" && value.real() < 0)))
      value = clamped<uint64_t>(value);
    else if (!takes(real, value))
      value = clamped<int64_t>(value);
  }
  return values;
}

/// `y`: of the result, or of its gradient; `tensors`: what a run moves.
PlanInfo info_of(const Function& f, const std::vector<TensorDesc>& inputs, const TensorDesc& y,
                 const std::vector<TensorDesc>& tensors, size_t workspace) {
  PlanInfo info;
  info.text = cat("f=", f.name);
  for (size_t i = 0; i < inputs.size(); i++) info.text += cat(" x", i, "=", brief(inputs[i]));
  info.text += cat(" y=", brief(y));
  info.flops = static_cast<double>(element_count(y.shape));
  info.bytes = traffic(tensors);
  info.workspace = workspace;
  return info;
}

template <class T>
std::vector<T> chosen(const std::vector<T>& all, const std::vector<size_t>& which) {
  std::vector<T> result;
  for (size_t i : which) result.push_back(all[i]);
  return result;
}

}  // namespace

struct Elementwise::Impl {
  ElementwiseDesc desc;
  const Function& f;
  DType real;  ///< of parameters
  Pointwise kernel;
  ForLiterals<Pointwise> of_literals;
};

namespace {

Pointwise forward_kernel(const Context& context, const ElementwiseDesc& desc, const Function& f,
                         Literal literal = {}) {
  Names names(f, literal);
  for (size_t i = 0; i < f.inputs.size(); i++) names.add(f.inputs[i], i);
  return Pointwise(context, desc.inputs, {desc.y}, static_cast<int>(f.parameters.size()),
                   cat(let(names, f), "y0 = ", names.in_kernel(f.result)));
}

}  // namespace

Elementwise::Elementwise(const Context& context, const ElementwiseDesc& desc, const Options& options)
    : Plan(nullptr) {
  const Function& f = check_inputs(desc.function, desc.inputs);
  require_writable("y", desc.y);
  if (!f.truth) {
    const bool floating = any_floating(desc.inputs);
    require(!floating || is_floating(desc.y.dtype), "y", "dtype ", name_of(desc.y.dtype),
            " must be floating, as an input is");
    require_domain(f, "y", desc.y);
    if (f.domain == Function::Domain::to_floating) require_floating("y", desc.y, true);
  }
  std::vector<TensorDesc> all = desc.inputs;
  all.push_back(desc.y);
  info_ = single_engine("elementwise", "generated", "", context, options,
                        info_of(f, desc.inputs, desc.y, all, 0));
  impl_ = std::shared_ptr<const Impl>(
      new Impl{desc, f, real_type(desc.inputs, {desc.y}), forward_kernel(context, desc, f), {}});
}

void Elementwise::run(const Stream& stream, const std::vector<Tensor>& inputs,
                      const std::vector<Scalar>& parameters, const Tensor& y, const Tensor& workspace) const {
  require_stream(*info_, stream);
  const std::vector<Scalar> values = parameters_of(impl_->f, parameters, impl_->real);
  require(inputs.size() == impl_->desc.inputs.size(), "inputs", impl_->f.name, " takes ",
          impl_->desc.inputs.size(), ", not ", inputs.size());
  for (size_t i = 0; i < inputs.size(); i++)
    require_tensor(kInputs[i], inputs[i], stream.context(), impl_->desc.inputs[i]);
  require_tensor("y", y, stream.context(), impl_->desc.y);
  for (size_t i = 0; i < inputs.size(); i++) {
    require_same_or_apart({"y", y}, {kInputs[i], inputs[i]});
    require_apart({{"workspace", workspace}}, {{kInputs[i], inputs[i]}});
  }
  require_unused(*info_, stream, workspace, {{"y", y}});
  const OperatorScope scope(stream, *info_);
  const Literal literal = literal_of(impl_->f, values, stream.context());
  const Pointwise& kernel = !literal ? impl_->kernel : impl_->of_literals.get(*literal, [&] {
    return forward_kernel(stream.context(), impl_->desc, impl_->f, literal);
  });
  kernel.run(stream, inputs, {y}, values);
}

struct ElementwiseBackward::Impl {
  /// A kernel for some of the gradients. Tensors are numbered: the inputs, then dy.
  struct Step {
    std::vector<size_t> reads, gradients;
    std::optional<Reduce> reduction;  ///< of an input that was broadcast
    std::optional<Pointwise> pointwise;
  };

  ElementwiseBackwardDesc desc;
  const Function& f;
  /// The pointwise one, whose results may take the place of what it reads, is the last.
  std::vector<Step> steps;
  size_t scratch = 0;
  ForLiterals<std::vector<Step>> of_literals;
};

namespace {

using Step = ElementwiseBackward::Impl::Step;

/// The tensors that the gradients of inputs `which` are computed from, named as the kernel has them.
Step reading(const Function& f, std::vector<size_t> which, bool always_dy, Names& names) {
  Step step;
  step.gradients = std::move(which);
  const auto used = [&](const std::string& word) {
    bool any = uses(f.let, word);
    for (size_t g : step.gradients) any |= uses(f.gradients[g], word);
    return any;
  };
  const auto add = [&](const std::string& word, size_t number) {
    names.add(word, step.reads.size());
    step.reads.push_back(number);
  };
  for (size_t i = 0; i < f.inputs.size(); i++)
    if (used(f.inputs[i])) add(f.inputs[i], i);
  if (always_dy || used("dy")) add("dy", f.inputs.size());
  return step;
}

std::vector<Step> backward_steps(const Context& context, const ElementwiseBackwardDesc& desc,
                                 const Function& f, const Options& options, Literal literal = {}) {
  std::vector<TensorDesc> tensors = desc.inputs;
  tensors.push_back(desc.dy);
  std::vector<Step> steps;
  std::vector<size_t> same;
  for (size_t i = 0; i < f.inputs.size(); i++) {
    if (!desc.gradients[i]) continue;
    if (desc.gradients[i]->shape == desc.dy.shape) {
      same.push_back(i);
      continue;
    }
    Names names(f, literal);
    Step step = reading(f, {i}, true, names);
    Reduction sum = sum_of("0");
    sum.accumulate = cat(let(names, f), "a0 += ", names.in_kernel(f.gradients[i]));
    step.reduction.emplace(context, chosen(tensors, step.reads), std::vector<TensorDesc>{*desc.gradients[i]},
                           static_cast<int>(f.parameters.size()), sum, same_limit(options));
    steps.push_back(std::move(step));
  }
  if (same.empty()) return steps;
  Names names(f, literal);
  Step step = reading(f, same, false, names);
  std::string body = let(names, f);
  std::vector<TensorDesc> results;
  for (size_t i : same) {
    body += cat("y", results.size(), " = ", names.in_kernel(f.gradients[i]), "; ");
    results.push_back(*desc.gradients[i]);
  }
  step.pointwise.emplace(context, chosen(tensors, step.reads), results, static_cast<int>(f.parameters.size()),
                         body);
  steps.push_back(std::move(step));
  return steps;
}

}  // namespace

ElementwiseBackward::ElementwiseBackward(const Context& context, const ElementwiseBackwardDesc& desc,
                                         const Options& options)
    : Plan(nullptr) {
  const Function& f = check_inputs(desc.function, desc.inputs);
  require_floating("dy", desc.dy, true);
  require(desc.gradients.size() == f.inputs.size(), "gradients", f.name, " has ", f.inputs.size(),
          " inputs, not ", desc.gradients.size());
  std::vector<TensorDesc> all = {desc.dy};
  for (size_t i = 0; i < f.inputs.size(); i++) {
    if (!desc.gradients[i]) continue;
    const ArgName name("gradients", i);
    const TensorDesc& dx = *desc.gradients[i];
    require(!f.gradients[i].empty(), name, f.name, " has none for '", f.inputs[i], "'");
    require_floating(name.text().c_str(), dx, true);
    require_shape(name, dx, desc.inputs[i].shape);
    require_writable(name, dx);
    all.push_back(dx);
  }
  const std::shared_ptr<Impl> impl(new Impl{desc, f, backward_steps(context, desc, f, options), 0, {}});
  for (const Impl::Step& step : impl->steps)
    if (step.reduction) impl->scratch = std::max(impl->scratch, step.reduction->workspace_size());
  info_ = single_engine("elementwise_backward", "generated", "", context, options,
                        info_of(f, desc.inputs, desc.dy, all, impl->scratch));
  impl_ = impl;
}

void ElementwiseBackward::run(const Stream& stream, const Tensor& dy, const std::vector<Tensor>& inputs,
                              const std::vector<Scalar>& parameters, const std::vector<Tensor>& gradients,
                              const Tensor& workspace) const {
  require_stream(*info_, stream);
  const ElementwiseBackwardDesc& desc = impl_->desc;
  const std::vector<Scalar> values = parameters_of(impl_->f, parameters, DType::f32);
  for (const auto* list : {&inputs, &gradients})
    require(list->size() == desc.inputs.size(), list == &inputs ? "inputs" : "gradients", impl_->f.name,
            " has ", desc.inputs.size(), " inputs, not ", list->size());
  std::vector<Tensor> tensors = inputs;
  tensors.push_back(dy);
  require_tensor("dy", dy, stream.context(), desc.dy);
  for (size_t i = 0; i < inputs.size(); i++)
    require_tensor(kInputs[i], inputs[i], stream.context(), desc.inputs[i]);
  for (size_t i = 0; i < gradients.size(); i++) {
    const Named dx{kGradients[i], gradients[i]};
    require(desc.gradients[i].has_value() == dx.tensor.defined(), dx.name, "is ",
            dx.tensor.defined() ? "given, but the plan has none" : "not defined");
    if (!dx.tensor.defined()) continue;
    require_tensor(dx.name, dx.tensor, stream.context(), *desc.gradients[i]);
    const bool reduced = dx.tensor.shape() != dy.shape();
    for (size_t j = 0; j < tensors.size(); j++) {
      const Named other{j < inputs.size() ? kInputs[j] : "dy", tensors[j]};
      if (reduced)
        require_apart({dx}, {other});
      else
        require_same_or_apart(dx, other);
    }
    for (size_t j = 0; j < i; j++) require_apart({dx}, {{kGradients[j], gradients[j]}});
  }
  for (const Tensor& t : tensors) require_apart({{"workspace", workspace}}, {{"a tensor", t}});
  for (const Tensor& t : gradients) require_apart({{"workspace", workspace}}, {{"a gradient", t}});
  const Tensor space = workspace_for(*info_, stream, workspace);
  const OperatorScope scope(stream, *info_);
  // Their workspace is no larger than the plan's: the same sums.
  const Literal literal = literal_of(impl_->f, values, stream.context());
  const std::vector<Step>& steps = !literal ? impl_->steps : impl_->of_literals.get(*literal, [&] {
    Options options;
    options.workspace_limit = impl_->scratch;
    return backward_steps(stream.context(), desc, impl_->f, options, literal);
  });
  for (const Impl::Step& step : steps) {
    if (step.pointwise)
      step.pointwise->run(stream, chosen(tensors, step.reads), chosen(gradients, step.gradients), values);
    else
      step.reduction->run(stream, chosen(tensors, step.reads), chosen(gradients, step.gradients), values,
                          workspace_scratch(space, 0, *step.reduction));
  }
}

void elementwise(const Stream& stream, std::string_view function, const std::vector<Tensor>& inputs,
                 const std::vector<Scalar>& parameters, const Tensor& y, const Options& options,
                 const Tensor& workspace) {
  require_defined({{"y", y}});
  PlanKey key("elementwise");
  key.add(std::string(function));
  const ElementwiseDesc desc{std::string(function), describe_tensors(inputs, {y}, key).first, y};
  cached_plan<Elementwise>(stream, key, desc, options, workspace)
      ->run(stream, inputs, parameters, y, workspace);
}

void elementwise_backward(const Stream& stream, std::string_view function, const Tensor& dy,
                          const std::vector<Tensor>& inputs, const std::vector<Scalar>& parameters,
                          const std::vector<Tensor>& gradients, const Options& options,
                          const Tensor& workspace) {
  require_defined({{"dy", dy}});
  PlanKey key("elementwise_backward");
  key.add(std::string(function));
  ElementwiseBackwardDesc desc{std::string(function), dy, describe_tensors(inputs, {dy}, key).first, {}};
  for (const Tensor& dx : gradients) desc.gradients.push_back(described(dx));
  key.add(desc.gradients);
  cached_plan<ElementwiseBackward>(stream, key, desc, options, workspace)
      ->run(stream, dy, inputs, parameters, gradients, workspace);
}

}  // namespace dlprim
