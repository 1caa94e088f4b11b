// Fused optimizers: an expression over the lists of weights, gradients and states, in few launches. PyTorch
// counts the steps of Adam and Adagrad on the device, where nothing may wait for them.
#include "places.hpp"
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

/// An optimizer's step over lists, and what of an expression all rules have in common.
class Step {
 public:
  Step(at::TensorList weights, at::TensorList gradients, std::initializer_list<at::TensorList> states,
       const Rate& rate, bool maximize, const OptionalTensor& scale, const OptionalTensor& found_inf)
      : states_(states.size()),
        maximize_(maximize),
        scaled_(scale && scale->defined()),
        skips_(found_inf && found_inf->defined()) {
    places_.changed = {weights};
    places_.changed.append(states.begin(), states.end());
    (scaled_ ? places_.changed : places_.inputs).push_back(gradients);
    for (const Places::Lists& lists : {places_.changed, places_.inputs})
      for (const at::TensorList& list : lists) require_length(list);
    places_.scalars = {rate.number};
    rate_ = number(rate.tensor, "s0");
    if (scaled_) scale_ = number(*scale, "");
    if (skips_) skip_ = number(*found_inf, "");
  }

  /// A step's number for each weight.
  void count_by(at::TensorList steps) {
    require_length(steps);
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
  void require_length(at::TensorList list) const {
    TORCH_CHECK(list.size() == places_.changed[0].size(), "an optimizer's lists are of one length, these of ",
                places_.changed[0].size(), " and ", list.size());
  }
  /// What a number on the device is in the text, or `instead` if there is none. It stands behind the steps.
  std::string number(const at::Tensor& t, const char* instead) {
    if (!t.defined()) return instead;
    TORCH_CHECK(t.numel() == 1 && t.is_floating_point() && serves(t),
                "an optimizer takes tensors of one floating number that the device computes with");
    places_.numbers.push_back(t);
    return std::to_string(places_.numbers.size() - 1);
  }
  std::string input(const std::string& number) const {
    return "x" + std::to_string(states_ + 2 + places_.singles.size() + std::stoul(number));
  }

  std::string text(const std::string& rule) const {
    const std::string gradient = std::to_string(states_ + 1);
    std::string text = "real w = x0, g = x" + gradient +
                       "; const real rate = " + (rate_ == "s0" ? rate_ : input(rate_)) + "; ";
    for (size_t k = 0; k < states_; k++)
      text += "real v" + std::to_string(k) + " = x" + std::to_string(k + 1) + "; ";
    if (!places_.singles.empty()) text += "const real step = x" + std::to_string(states_ + 2) + "; ";
    if (scaled_) text += "g /= " + input(scale_) + "; const real unscaled = g; ";
    if (maximize_) text += "g = -g; ";
    text += rule + (skips_ ? "const int skip = " + input(skip_) + " != 0; " : "const int skip = 0; ");
    text += "y0 = skip ? x0 : w; ";
    for (size_t k = 0; k < states_; k++) {
      const std::string n = std::to_string(k + 1);
      text += "y" + n + " = skip ? x" + n + " : v" + std::to_string(k) + "; ";
    }
    if (scaled_) text += "y" + gradient + " = skip ? x" + gradient + " : unscaled; ";
    return text;
  }

  const size_t states_;
  const bool maximize_, scaled_, skips_;
  Places places_;
  std::string rate_, scale_, skip_;
};

// The operators. Each template serves both overloads, whose learning rates are a number or a tensor.

template <class Number>
void sgd(at::TensorList weights, at::TensorList gradients, at::TensorList buffers, double weight_decay,
         double momentum, Number rate_, double dampening, bool nesterov, bool maximize, bool is_first_step,
         const OptionalTensor& scale, const OptionalTensor& found_inf) {
  static const char here = 0;
  const Rate rate(rate_);
  if (weights.empty()) return;
  if (momentum != 0 && is_first_step) at::_foreach_zero_(buffers);  // they come uninitialised
  Step step = momentum != 0 ? Step(weights, gradients, {buffers}, rate, maximize, scale, found_inf)
                            : Step(weights, gradients, {}, rate, maximize, scale, found_inf);
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
                  ? Step(weights, gradients, {averages, squares, largest}, rate, maximize, scale, found_inf)
                  : Step(weights, gradients, {averages, squares}, rate, maximize, scale, found_inf);
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
  Step step(weights, gradients, {sums}, rate, maximize, scale, found_inf);
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
