// Optimizers as expressions of multi_tensor.cl. What depends on the step's number is computed here in double.
#include <dlprim/optimizer.hpp>

#include <cmath>

#include "core/composed.hpp"
#include "ops/optim/multi_tensor.hpp"

namespace dlprim::detail {
template <>
inline constexpr int kFields<OptimizerDesc> = 10;
template <>
inline constexpr int kFields<UpdateAveragesDesc> = 2;
}  // namespace dlprim::detail

namespace dlprim {

using namespace detail;

struct Optimizer::Impl {
  MultiTensor kernel;
};

namespace {

const char* name_of(OptimizerMethod method) {
  switch (method) {
    case OptimizerMethod::sgd:
      return "sgd";
    case OptimizerMethod::adam:
      return "adam";
    case OptimizerMethod::rmsprop:
      return "rmsprop";
    case OptimizerMethod::adagrad:
      return "adagrad";
  }
  throw ValidationError("method", cat("number ", static_cast<int>(method), " does not exist"));
}

void check(const OptimizerDesc& d) {
  name_of(d.method);
  const auto belongs = [&](const char* flag, bool set, bool fits) {
    require(!set || fits, flag, "does not go with ", name_of(d.method));
  };
  belongs("momentum", d.momentum, d.method == OptimizerMethod::sgd || d.method == OptimizerMethod::rmsprop);
  belongs("nesterov", d.nesterov, d.method == OptimizerMethod::sgd);
  belongs("decoupled", d.decoupled, d.method == OptimizerMethod::adam);
  belongs("amsgrad", d.amsgrad, d.method == OptimizerMethod::adam);
  belongs("centered", d.centered, d.method == OptimizerMethod::rmsprop);
  require(!d.nesterov || d.momentum, "nesterov", "needs momentum");
  require(!d.master || d.w == DType::f16 || d.w == DType::bf16, "master", "w is ", dlprim::name_of(d.w),
          ", must be f16 or bf16");
}

/// How w (x0) follows from the gradient (x1) and the states (x2, x3, x4). The scalars are those of
/// scalars_of.
std::string rule_of(const OptimizerDesc& d) {
  const std::string decay = "g += s1 * x0; ";
  std::string text = d.maximize ? "real g = -(x1 * multiplier); " : "real g = x1 * multiplier; ";
  switch (d.method) {
    case OptimizerMethod::sgd:
      text += decay;
      if (d.momentum) text += "x2 = s2 * x2 + s3 * g; ";
      if (d.momentum) text += d.nesterov ? "g += s2 * x2; " : "g = x2; ";
      return text + "x0 -= s0 * g;";
    case OptimizerMethod::adam:
      text += d.decoupled ? "x0 *= s1; " : decay;
      text += "x2 += s4 * (g - x2); x3 = s3 * x3 + s5 * g * g; ";
      if (d.amsgrad) text += "x4 = x3 > x4 || x3 != x3 ? x3 : x4; ";
      return text + cat("x0 -= s0 * x2 / (s2 * sqrt(", d.amsgrad ? "x4" : "x3", ") + s6);");
    case OptimizerMethod::rmsprop: {
      text += decay + "x2 = s3 * x2 + s4 * g * g; ";
      std::string variance = "x2";
      if (d.centered) {
        // Rounding may leave less than nothing.
        text += "x3 += s4 * (g - x3); real spread = x2 - x3 * x3; spread = spread < 0 ? 0 : spread; ";
        variance = "spread";
      }
      text += cat("g /= sqrt(", variance, ") + s5; ");
      const char* buffer = d.centered ? "x4" : "x3";
      if (d.momentum) text += cat(buffer, " = s2 * ", buffer, " + g; g = ", buffer, "; ");
      return text + "x0 -= s0 * g;";
    }
    case OptimizerMethod::adagrad:
      return text + decay + "x2 += g * g; x0 -= s0 * g / (sqrt(x2) + s2);";
  }
  return {};
}

int count_of_scalars(OptimizerMethod method) {
  return method == OptimizerMethod::sgd       ? 4
         : method == OptimizerMethod::adam    ? 7
         : method == OptimizerMethod::rmsprop ? 6
                                              : 3;
}

std::vector<double> scalars_of(const OptimizerDesc& d, const OptimizerStep& s) {
  const auto t = static_cast<double>(s.step);
  switch (d.method) {
    case OptimizerMethod::sgd:
      return {s.learning_rate, s.weight_decay, s.momentum, s.step == 1 ? 1 : 1 - s.dampening};
    case OptimizerMethod::adam:
      return {s.learning_rate / (1 - std::pow(s.beta1, t)),
              d.decoupled ? 1 - s.learning_rate * s.weight_decay : s.weight_decay,
              1 / std::sqrt(1 - std::pow(s.beta2, t)),
              s.beta2,
              1 - s.beta1,
              1 - s.beta2,
              s.epsilon};
    case OptimizerMethod::rmsprop:
      return {s.learning_rate, s.weight_decay, s.momentum, s.alpha, 1 - s.alpha, s.epsilon};
    case OptimizerMethod::adagrad:
      return {s.learning_rate / (1 + (t - 1) * s.rate_decay), s.weight_decay, s.epsilon};
  }
  return {};
}

/// A number that the method could use, if the description said so, is no slip without effect.
void check_described(const OptimizerDesc& d, const OptimizerStep& s) {
  const bool sgd = d.method == OptimizerMethod::sgd, could = sgd || d.method == OptimizerMethod::rmsprop;
  if (d.momentum || !could) return;
  require(s.momentum == 0, "momentum", s.momentum, " has no effect: OptimizerDesc::momentum is not set");
  require(!sgd || s.dampening == 0, "dampening", s.dampening,
          " has no effect: OptimizerDesc::momentum is not set");
}

void check(const OptimizerStep& s) {
  const auto not_negative = [](const char* name, double value) {
    require(std::isfinite(value) && value >= 0, name, value, " must be finite and not negative");
  };
  const auto share = [](const char* name, double value) {
    require(value >= 0 && value < 1, name, value, " must be in [0, 1)");
  };
  not_negative("learning_rate", s.learning_rate);
  not_negative("weight_decay", s.weight_decay);
  not_negative("epsilon", s.epsilon);
  not_negative("rate_decay", s.rate_decay);
  not_negative("momentum", s.momentum);
  require(std::isfinite(s.dampening), "dampening", s.dampening, " must be finite");
  share("beta1", s.beta1);
  share("beta2", s.beta2);
  require(s.alpha >= 0 && s.alpha <= 1, "alpha", s.alpha, " must be in [0, 1]");
  require(s.step >= 1, "step", s.step, " must be 1 or more");
}

MultiTensorForm form_of(const OptimizerDesc& d) {
  MultiTensorForm form;
  const DType real = d.w == DType::f64 ? DType::f64 : DType::f32;
  form.lists = {{d.master ? "master" : "w", d.master ? DType::f32 : d.w, "x0", "x0"}, {"dw", d.dw, "x1", {}}};
  for (int k = 0; k < Optimizer::states(d); k++) {
    const std::string x = cat('x', k + 2);
    form.lists.push_back({cat("states[", k, ']'), real, x, x});
  }
  form.scalars = count_of_scalars(d.method);
  form.body = rule_of(d);
  if (d.master) form.lists.push_back({"w", d.w, {}, "x0"});
  return form;
}

}  // namespace

int Optimizer::states(const OptimizerDesc& d) {
  switch (d.method) {
    case OptimizerMethod::sgd:
      return d.momentum ? 1 : 0;
    case OptimizerMethod::adam:
      return d.amsgrad ? 3 : 2;
    case OptimizerMethod::rmsprop:
      return 1 + (d.centered ? 1 : 0) + (d.momentum ? 1 : 0);
    case OptimizerMethod::adagrad:
      return 1;
  }
  return 0;
}

Optimizer::Optimizer(const Context& context, const OptimizerDesc& desc, const Options& options)
    : Plan(nullptr), desc_(desc) {
  check(desc);
  PlanInfo info;
  info.text =
      cat("method=", name_of(desc.method), " w=", dlprim::name_of(desc.w), " dw=", dlprim::name_of(desc.dw));
  info_ = single_engine("optimizer", "multi_tensor", "", context, options, std::move(info));
  impl_ = std::make_shared<const Impl>(Impl{MultiTensor(context, form_of(desc))});
}

void Optimizer::run(const Stream& stream, const OptimizerStep& step, const OptimizerTensors& tensors,
                    const Tensor& workspace) const {
  require_stream(*info_, stream);
  check(step);
  check_described(desc_, step);
  require(tensors.states.size() == static_cast<size_t>(states(desc_)), "states", tensors.states.size(),
          " lists must be ", states(desc_));
  require(desc_.master || tensors.master.empty(), "master", "is given, but the description has none");
  TensorLists lists = {desc_.master ? &tensors.master : &tensors.w, &tensors.dw};
  for (const std::vector<Tensor>& state : tensors.states) lists.push_back(&state);
  if (desc_.master) lists.push_back(&tensors.w);
  DeviceNumbers numbers;
  numbers.factor = step.factor;
  numbers.scale = step.scale;
  numbers.flag = step.found_inf;
  const TensorPlaces places = impl_->kernel.check(stream, lists, numbers, {{"workspace", workspace}});
  workspace_for(*info_, stream, workspace);
  double bytes = 0;
  for (size_t k = 0; k < lists.size(); k++)
    for (const Tensor& x : *lists[k])
      bytes += static_cast<double>(x.bytes()) * (k == 1 || (desc_.master && k + 1 == lists.size()) ? 1 : 2);
  const OperatorScope scope(stream, info_->text, 0, bytes);
  impl_->kernel.run(stream, lists, places, {scalars_of(desc_, step), {}}, numbers);
}

void optimize(const Stream& stream, const OptimizerDesc& desc, const OptimizerStep& step,
              const OptimizerTensors& tensors, const Options& options, const Tensor& workspace) {
  cached_plan<Optimizer>(stream, "optimizer", desc, options, workspace)
      ->run(stream, step, tensors, workspace);
}

struct UpdateAverages::Impl {
  MultiTensor kernel;
};

UpdateAverages::UpdateAverages(const Context& context, const UpdateAveragesDesc& desc, const Options& options)
    : Plan(nullptr) {
  MultiTensorForm form;
  form.lists = {{"averages", desc.averages, "x0", "x0"}, {"w", desc.w, "x1", {}}};
  form.scalars = 2;
  form.body = "x0 = s0 * x0 + s1 * x1;";
  PlanInfo info;
  info.text = cat("w=", dlprim::name_of(desc.w), " averages=", dlprim::name_of(desc.averages));
  info_ = single_engine("update_averages", "multi_tensor", "", context, options, std::move(info));
  impl_ = std::make_shared<const Impl>(Impl{MultiTensor(context, form)});
}

void UpdateAverages::run(const Stream& stream, const std::vector<Tensor>& w, double decay,
                         const std::vector<Tensor>& averages, const Tensor& workspace) const {
  require_stream(*info_, stream);
  require(decay >= 0 && decay <= 1, "decay", decay, " must be in [0, 1]");
  const TensorLists lists = {&averages, &w};
  const TensorPlaces places = impl_->kernel.check(stream, lists, {}, {{"workspace", workspace}});
  workspace_for(*info_, stream, workspace);
  double bytes = 0;
  for (const std::vector<Tensor>* list : lists)
    for (const Tensor& x : *list) bytes += static_cast<double>(x.bytes()) * (list == &averages ? 2 : 1);
  const OperatorScope scope(stream, info_->text, 0, bytes);
  impl_->kernel.run(stream, lists, places, {{decay, 1 - decay}, {}}, {});
}

void update_averages(const Stream& stream, const std::vector<Tensor>& w, double decay,
                     const std::vector<Tensor>& averages, const Options& options, const Tensor& workspace) {
  const auto dtype_of = [](const std::vector<Tensor>& list) {
    return list.empty() ? DType::f32 : list[0].dtype();
  };
  const UpdateAveragesDesc desc{dtype_of(w), dtype_of(averages)};
  cached_plan<UpdateAverages>(stream, "update_averages", desc, options, workspace)
      ->run(stream, w, decay, averages, workspace);
}

}  // namespace dlprim
