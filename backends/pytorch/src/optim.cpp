// Fused optimizers: one launch for each weight, by a generated expression, or few for all of them, by
// dlprim's Optimizer, where that has the rule: it takes the learning rate and the step as numbers, f32 states
// (of f64: f64) and tensors without gaps. PyTorch counts Adam's steps on the device, where nothing may wait
// for them.
#include <dlprim/gradients.hpp>
#include <dlprim/optimizer.hpp>

#include "optim.hpp"
#include "places.hpp"
#include "plans.hpp"
#include "structured.hpp"

namespace ocl {

namespace {

using OptionalTensor = std::optional<at::Tensor>;

/// A learning rate is a number, or on the device.
struct Rate {
  double number = 0;
  at::Tensor tensor;

  Rate(double value) : number(value) {}  // NOLINT
  Rate(const at::Tensor& value) {        // NOLINT
    TORCH_CHECK(value.numel() == 1, "a learning rate is one number, this one has ", value.numel());
    if (value.device().type() == kOcl)
      tensor = value;
    else
      number = value.item<double>();
  }
};

/// An optimizer's step: the lists, the weights first and the gradients second, then the states; and what of
/// an expression all rules have in common.
class Step {
 public:
  Step(std::initializer_list<at::TensorList> lists, const Rate& rate, bool maximize,
       const OptionalTensor& scale, const OptionalTensor& found_inf)
      : maximize_(maximize), scaled_(scale && scale->defined()), skips_(found_inf && found_inf->defined()) {
    places_.inputs = lists;
    places_.outputs.push_back(places_.inputs[0]);
    for (size_t k = 2; k < places_.inputs.size(); k++) places_.outputs.push_back(places_.inputs[k]);
    if (scaled_) places_.outputs.push_back(places_.inputs[1]);
    for (const at::TensorList& list : lists)
      TORCH_CHECK(list.size() == lists.begin()->size(), "an optimizer's lists are of one length, these of ",
                  lists.begin()->size(), " and ", list.size());
    places_.scalars = {rate.number};
    rate_ = number(rate.tensor, "s0");
    if (scaled_) scale_ = number(*scale, "");
    if (skips_) skip_ = number(*found_inf, "");
  }

  /// A step's number for each weight.
  void count_by(at::TensorList steps) {
    TORCH_CHECK(steps.size() == places_.inputs[0].size(), "there are ", steps.size(), " steps for ",
                places_.inputs[0].size(), " weights");
    places_.singles.push_back(steps);
  }

  /// Scalars s1, s2, ...
  void scalars(std::initializer_list<double> values) {
    for (const double value : values) places_.scalars.push_back(value);
  }

  /// The rule changes w and the states v0, v1, ... by g, `rate` and `step`. `variant` tells a method's apart.
  void run(const void* method, int64_t variant, const std::function<std::string()>& rule) const {
    const int64_t common = maximize_ | scaled_ << 1 | skips_ << 2 | (rate_ == "s0") << 3;
    run_places(method, variant << 4 | common, places_, [&] { return text(rule()); });
  }

 private:
  /// What a number on the device is in the text, or `instead` if there is none. It stands behind the steps.
  std::string number(const at::Tensor& t, const char* instead) {
    if (!t.defined()) return instead;
    TORCH_CHECK(t.numel() == 1 && serves(t),
                "an optimizer takes tensors of one number that the device computes with");
    places_.numbers.push_back(t);
    return std::to_string(places_.numbers.size() - 1);
  }
  std::string input(const std::string& number) const {
    return "x" + std::to_string(places_.inputs.size() + places_.singles.size() + std::stoul(number));
  }

  std::string text(const std::string& rule) const {
    std::string text =
        "real w = x0, g = x1; const real rate = " + (rate_ == "s0" ? rate_ : input(rate_)) + "; ";
    const size_t states = places_.inputs.size() - 2;
    for (size_t k = 0; k < states; k++)
      text += "real v" + std::to_string(k) + " = x" + std::to_string(k + 2) + "; ";
    if (!places_.singles.empty())
      text += "const real step = x" + std::to_string(places_.inputs.size()) + "; ";
    if (scaled_) text += "g /= " + input(scale_) + "; const real unscaled = g; ";
    if (maximize_) text += "g = -g; ";
    text += rule + (skips_ ? "const int skip = " + input(skip_) + " != 0; " : "const int skip = 0; ");
    text += "y0 = skip ? x0 : w; ";
    for (size_t k = 0; k < states; k++) {
      const std::string n = std::to_string(k), x = "x" + std::to_string(k + 2);
      text += "y" + std::to_string(k + 1) + " = skip ? " + x + " : v" + n + "; ";
    }
    if (scaled_) text += "y" + std::to_string(states + 1) + " = skip ? x1 : unscaled; ";
    return text;
  }

  const bool maximize_, scaled_, skips_;
  Places places_;
  std::string rate_, scale_, skip_;
};

// dlprim's Optimizer

bool is_device_number(const OptionalTensor& t) {
  return !t || !t->defined() || (t->numel() == 1 && t->scalar_type() == at::kFloat);
}

/// Whether the Optimizer takes these: weights and gradients in whatever floating dtype, states as it has
/// them, no negative numbers.
bool suits_optimizer(const Rate& rate, double weight_decay, c10::ArrayRef<at::TensorList> lists,
                     const OptionalTensor& scale, const OptionalTensor& found_inf) {
  if (!(rate.number >= 0 && weight_decay >= 0) || rate.tensor.defined() || !is_device_number(scale) ||
      !is_device_number(found_inf) || !fit_together(lists))
    return false;
  const at::ScalarType type = lists[0][0].scalar_type();
  return lists.size() == 2 || type == at::kFloat || type == at::kDouble;
}

void run_plan(Device& on, const dlprim::OptimizerDesc& desc, const dlprim::OptimizerStep& step,
              const dlprim::OptimizerTensors& tensors) {
  ocl::run_plan<dlprim::Optimizer>(
      on, Key::of(desc.method, desc.w, desc.momentum, desc.nesterov, desc.maximize),
      [&] { return dlprim::Optimizer(on.context, desc); },
      [&](const dlprim::Optimizer& plan, const dlprim::Stream& stream) { plan.run(stream, step, tensors); });
}

/// Gradients that were scaled are left as they are without the scale.
void run_optimizer(dlprim::OptimizerDesc desc, dlprim::OptimizerStep step,
                   c10::ArrayRef<at::TensorList> lists, const OptionalTensor& scale,
                   const OptionalTensor& found_inf) {
  dlprim::OptimizerTensors tensors{vectors_of(lists[0]), vectors_of(lists[1]), {}, {}};
  for (const at::TensorList& list : lists.slice(2)) tensors.states.push_back(vectors_of(list));
  desc.w = desc.dw = require_dtype(lists[0][0].scalar_type());
  step.scale = view(scale);
  step.found_inf = view(found_inf);
  Device& on = home_of(lists[0][0]);
  run_plan(on, desc, step, tensors);
  if (!step.scale) return;
  run_plan<dlprim::ScaleGradients>(
      on, Key::of(desc.dw), [&] { return dlprim::ScaleGradients(on.context, {desc.dw}); },
      [&](const dlprim::ScaleGradients& plan, const dlprim::Stream& stream) {
        plan.run(stream, {}, step.scale, tensors.dw);
      });
}

}  // namespace

bool count_steps(at::TensorList steps, double number) {
  const auto is_step = [](const at::Tensor& t) { return t.numel() == 1 && t.scalar_type() == at::kFloat; };
  if (steps.size() < 2 || !std::isfinite(number) || !std::all_of(steps.begin(), steps.end(), is_step) ||
      !fit_together({steps}))
    return false;
  // Steps of SGD along gradients that are all one constant.
  const at::Tensor one = at::ones({1}, steps[0].options());
  const dlprim::OptimizerTensors tensors{
      vectors_of(steps), {steps.size(), flat(one, dlprim::DType::f32, 1)}, {}, {}};
  dlprim::OptimizerDesc desc;
  desc.maximize = number > 0;
  dlprim::OptimizerStep step;
  step.learning_rate = std::fabs(number);
  try {
    run_plan(home_of(one), desc, step, tensors);
  } catch (const dlprim::ValidationError&) {
    return false;  // a tensor that stands in the list twice
  }
  return true;
}

namespace {

// The operators. Each template serves both overloads, whose learning rates are a number or a tensor.

template <class Number>
void sgd(at::TensorList weights, at::TensorList gradients, at::TensorList buffers, double weight_decay,
         double momentum, Number rate_, double dampening, bool nesterov, bool maximize, bool is_first_step,
         const OptionalTensor& scale, const OptionalTensor& found_inf) {
  static const char here = 0;
  const Rate rate(rate_);
  if (weights.empty()) return;
  c10::SmallVector<at::TensorList, 3> lists{weights, gradients};
  if (momentum != 0) lists.push_back(buffers);
  if (momentum != 0 && is_first_step) at::_foreach_zero_(buffers);  // they come uninitialised
  if (suits_optimizer(rate, weight_decay, lists, scale, found_inf)) {
    dlprim::OptimizerDesc desc;
    desc.momentum = momentum != 0;
    desc.nesterov = nesterov && desc.momentum;
    desc.maximize = maximize;
    dlprim::OptimizerStep step;
    step.learning_rate = rate.number;
    step.weight_decay = weight_decay;
    step.momentum = momentum;
    step.dampening = dampening;
    step.step = is_first_step ? 1 : 2;
    return run_optimizer(desc, step, lists, scale, found_inf);
  }
  Step step = momentum != 0 ? Step({weights, gradients, buffers}, rate, maximize, scale, found_inf)
                            : Step({weights, gradients}, rate, maximize, scale, found_inf);
  step.scalars({weight_decay, momentum, is_first_step ? 1 : 1 - dampening});
  step.run(&here, (momentum != 0) | nesterov << 1, [&] {
    const std::string text = "g += s1 * w; ";
    if (momentum == 0) return text + "w -= rate * g; ";
    return text + "v0 = s2 * v0 + s3 * g; w -= rate * " + (nesterov ? "(g + s2 * v0); " : "v0; ");
  });
}

template <bool decoupled, class Number>
void adam(at::TensorList weights, at::TensorList gradients, at::TensorList averages, at::TensorList squares,
          at::TensorList largest, at::TensorList steps, Number rate_, double beta1, double beta2,
          double weight_decay, double epsilon, bool amsgrad, bool maximize, const OptionalTensor& scale,
          const OptionalTensor& found_inf) {
  static const char here = 0;
  const Rate rate(rate_);
  if (weights.empty()) return;
  Step step = amsgrad
                  ? Step({weights, gradients, averages, squares, largest}, rate, maximize, scale, found_inf)
                  : Step({weights, gradients, averages, squares}, rate, maximize, scale, found_inf);
  step.count_by(steps);
  // 1 - beta^step = -expm1(step log(beta)): as f32, 1 - 0.999 would have lost four digits.
  step.scalars({weight_decay, epsilon, 1 - beta1, beta2, 1 - beta2, std::log(beta1), std::log(beta2)});
  step.run(&here, amsgrad, [&] {
    std::string text = decoupled ? "w -= rate * s1 * w; " : "g += s1 * w; ";
    text += "v0 += s3 * (g - v0); v1 = s4 * v1 + s5 * g * g; ";
    if (amsgrad) text += "v2 = v1 > v2 || v1 != v1 ? v1 : v2; ";
    const std::string square = amsgrad ? "v2" : "v1";
    return text + "w += rate / expm1(step * s6) * v0 / (sqrt(" + square + " / -expm1(step * s7)) + s2); ";
  });
}

template <class Number>
void adagrad(at::TensorList weights, at::TensorList gradients, at::TensorList sums, at::TensorList steps,
             Number rate_, double rate_decay, double weight_decay, double epsilon, bool maximize,
             const OptionalTensor& scale, const OptionalTensor& found_inf) {
  static const char here = 0;
  const Rate rate(rate_);
  if (weights.empty()) return;
  const std::array<at::TensorList, 3> lists{weights, gradients, sums};
  if (rate_decay == 0 && suits_optimizer(rate, weight_decay, lists, scale, found_inf)) {
    dlprim::OptimizerDesc desc;
    desc.method = dlprim::OptimizerMethod::adagrad;
    desc.maximize = maximize;
    dlprim::OptimizerStep step;
    step.learning_rate = rate.number;
    step.weight_decay = weight_decay;
    step.epsilon = epsilon;
    return run_optimizer(desc, step, lists, scale, found_inf);
  }
  Step step({weights, gradients, sums}, rate, maximize, scale, found_inf);
  step.count_by(steps);
  step.scalars({weight_decay, epsilon, rate_decay});
  step.run(&here, 0, [] {
    return "g += s1 * w; v0 += g * g; w -= rate / (1 + (step - 1) * s3) * g / (sqrt(v0) + s2); ";
  });
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_fused_sgd_", TORCH_FN(sgd<double>));
  m.impl("_fused_sgd_.tensor_lr", TORCH_FN(sgd<const at::Tensor&>));
  m.impl("_fused_adam_", TORCH_FN((adam<false, double>)));
  m.impl("_fused_adam_.tensor_lr", TORCH_FN((adam<false, const at::Tensor&>)));
  m.impl("_fused_adamw_", TORCH_FN((adam<true, double>)));
  m.impl("_fused_adamw_.tensor_lr", TORCH_FN((adam<true, const at::Tensor&>)));
  m.impl("_fused_adagrad_", TORCH_FN(adagrad<double>));
  m.impl("_fused_adagrad_.tensor_lr", TORCH_FN(adagrad<const at::Tensor&>));  // no harm where there is none
}

}  // namespace

}  // namespace ocl
