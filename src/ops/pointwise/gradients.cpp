// Norms, clipping and scaling of many gradients, by multi_tensor.cl and gradients.cl.
#include <dlprim/gradients.hpp>

#include <cmath>
#include <memory>

#include <dlprim/copy.hpp>

#include "core/composed.hpp"
#include "ops/optim/multi_tensor.hpp"

namespace dlprim {

using namespace detail;

namespace {

/// A kernel over dw alone, of the context's cache under `name`; null if there are no tensors.
std::shared_ptr<const MultiTensor> kernel_for(const Stream& stream, const char* name,
                                              const std::vector<Tensor>& dw, MultiTensorForm form) {
  const Context& context = stream.context();
  if (dw.empty()) return nullptr;
  require_context("dw[0]", dw[0], context);
  form.lists = {{"dw", dw[0].dtype(), true, form.lists.empty()}};
  PlanKey key(name);
  key.add(dw[0].dtype()).add(form.body);
  return context.state().plans.get<MultiTensor>(key, [&] { return MultiTensor(context, form); });
}

void require_given(const char* name, const Tensor& number, const Context& context) {
  require_defined({{name, number}});
  require_device_number(name, number, context);
}

/// What is done to dw in place: checked when made, enqueued by run().
class Change {
 public:
  Change(const Stream& stream, const char* name, const std::vector<Tensor>& dw, const MultiTensorForm& form,
         const DeviceNumbers& numbers)
      : stream_(stream),
        name_(name),
        dw_(dw),
        numbers_(numbers),
        kernel_(kernel_for(stream, name, dw, form)) {
    if (kernel_) places_ = kernel_->check(stream, {&dw}, numbers);
  }
  void run(const std::vector<double>& scalars = {}) const {
    if (!kernel_) return;
    double bytes = 0;
    for (const Tensor& x : dw_) bytes += 2 * static_cast<double>(x.bytes());
    const OperatorScope scope(stream_, cat("op=", name_), 0, bytes);
    kernel_->run(stream_, {&dw_}, places_, scalars, numbers_);
  }

 private:
  const Stream& stream_;
  const char* name_;
  const std::vector<Tensor>& dw_;
  DeviceNumbers numbers_;
  std::shared_ptr<const MultiTensor> kernel_;
  TensorPlaces places_;
};

Change scaling(const Stream& stream, const std::vector<Tensor>& dw, const Tensor& factor,
               const Tensor& scale) {
  MultiTensorForm form;
  form.body = "x0 *= multiplier;";
  DeviceNumbers numbers;
  numbers.factor = factor;
  numbers.scale = scale;
  return Change(stream, "scale_gradients", dw, form, numbers);
}

MultiTensorForm norm_form(NormOrder order) {
  MultiTensorForm form;
  form.sums = true;
  form.lists.resize(1);  // says that dw is only read
  const std::string larger = "real a = x0 < 0 ? -x0 : x0; sums[e] = a > sums[e] || a != a ? a : sums[e];";
  form.body = order == NormOrder::two   ? "sums[e] += x0 * x0;"
              : order == NormOrder::one ? "sums[e] += x0 < 0 ? -x0 : x0;"
                                        : larger;
  form.finish = cat(
      "real sum = sums[0];\nJOIN_LANES(",
      order == NormOrder::infinity ? "sum = part > sum || part != part ? part : sum" : "sum += part", ")");
  return form;
}

}  // namespace

void gradient_norm(const Stream& stream, const std::vector<Tensor>& dw, NormOrder order, const Tensor& norm,
                   const Tensor& factor, double max_norm) {
  const Context& context = stream.context();
  require(order == NormOrder::one || order == NormOrder::two || order == NormOrder::infinity, "order",
          "number ", static_cast<int>(order), " does not exist");
  require(max_norm >= 0, "max_norm", max_norm, " must not be negative");
  require_given("norm", norm, context);
  require_device_number("factor", factor, context);
  require_apart({{"norm", norm}, {"factor", factor}}, {});
  const auto kernel = kernel_for(stream, "gradient_norm", dw, norm_form(order));
  DeviceNumbers numbers;
  const TensorPlaces places =
      kernel ? kernel->check(stream, {&dw}, numbers, {{"norm", norm}, {"factor", factor}}) : TensorPlaces();
  const int64_t groups = places.groups;
  const DType real = kernel ? kernel->real() : DType::f32;
  if (groups > 0) numbers.parts = Tensor(stream, {groups}, real);
  Defines defines;
  defines.set("REAL", real == DType::f64 ? "double" : "float");
  const int local = context.device().kind() == DeviceKind::cpu ? 1 : 256;
  defines.set("LOCAL", local)
      .set("LARGEST", order == NormOrder::infinity)
      .set("ROOT", order == NormOrder::two);
  const Kernel finish = context.state().programs.kernel("gradients", "finish_norm", defines);
  double bytes = 0;
  for (const Tensor& x : dw) bytes += static_cast<double>(x.bytes());
  const OperatorScope scope(stream, "op=gradient_norm", 0, bytes);
  if (groups > 0) kernel->run(stream, {&dw}, places, {}, numbers);
  Launch launch(stream, finish);
  launch.arg(numbers.parts).arg(to_int("groups", groups)).arg(norm).arg(factor);
  launch.arg(static_cast<int>(factor.defined())).arg(static_cast<float>(max_norm));
  launch.run({static_cast<size_t>(local)}, {static_cast<size_t>(local)});
}

void scale_gradients(const Stream& stream, const std::vector<Tensor>& dw, const Tensor& factor,
                     const Tensor& scale) {
  scaling(stream, dw, factor, scale).run();
}

void clip_gradients_by_norm(const Stream& stream, const std::vector<Tensor>& dw, double max_norm,
                            const Tensor& norm, NormOrder order) {
  const Tensor factor(stream, {1});
  const Change change = scaling(stream, dw, factor, {});  // refuses before anything is written
  gradient_norm(stream, dw, order, norm, factor, max_norm);
  change.run();
}

void clip_gradients_by_value(const Stream& stream, const std::vector<Tensor>& dw, double limit) {
  require(limit >= 0, "limit", limit, " must not be negative");
  MultiTensorForm form;
  form.scalars = 1;
  form.body = "x0 = x0 > s0 ? s0 : x0 < -s0 ? -s0 : x0;";
  Change(stream, "clip_gradients_by_value", dw, form, {}).run({limit});
}

void unscale_gradients(const Stream& stream, const std::vector<Tensor>& dw, const Tensor& scale,
                       const Tensor& found_inf) {
  require_given("scale", scale, stream.context());
  require_given("found_inf", found_inf, stream.context());
  require_apart({{"found_inf", found_inf}}, {{"scale", scale}});
  MultiTensorForm form;
  form.body = "bad |= x0 - x0 != 0; x0 *= multiplier;";
  form.finish = "if (bad) *flag = 1;";
  DeviceNumbers numbers;
  numbers.scale = scale;
  numbers.flag = found_inf;
  numbers.skips = false;
  const Change change(stream, "unscale_gradients", dw, form, numbers);
  fill(stream, 0, found_inf);
  change.run();
}

void update_loss_scale(const Stream& stream, const Tensor& scale, const Tensor& good_steps,
                       const Tensor& found_inf, const LossScaling& scaling) {
  const Context& context = stream.context();
  require_given("scale", scale, context);
  require_given("found_inf", found_inf, context);
  require_context("good_steps", good_steps, context);
  require_dtype("good_steps", good_steps, DType::i32);
  require(good_steps.numel() == 1, "good_steps", "has ", good_steps.numel(), " elements, must have one");
  require_apart({{"scale", scale}, {"good_steps", good_steps}}, {{"found_inf", found_inf}});
  for (const auto& [name, value] :
       {std::pair("growth", scaling.growth), std::pair("backoff", scaling.backoff)})
    require(std::isfinite(value) && value > 0, name, value, " must be finite and positive");
  require(scaling.interval >= 1, "interval", scaling.interval, " must be 1 or more");
  const Kernel kernel = context.state().programs.kernel("gradients", "update_scale", Defines());
  Launch launch(stream, kernel);
  launch.arg(scale).arg(good_steps).arg(found_inf).arg(static_cast<float>(scaling.growth));
  launch.arg(static_cast<float>(scaling.backoff)).arg(scaling.interval);
  launch.run({1}, {1});
}

}  // namespace dlprim
