// Batch, layer and group normalisation and their gradients, through dlprim's. Statistics are f32 (of f64:
// f64), and so are dlprim's weights of batch normalisation.
#include <limits>

#include <ATen/TensorOperators.h>
#include <dlprim/batch_norm.hpp>
#include <dlprim/group_norm.hpp>
#include <dlprim/layer_norm.hpp>

#include "plans.hpp"
#include "structured.hpp"

namespace ocl {

namespace {

using OptionalTensor = std::optional<at::Tensor>;
using Three = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

at::TensorOptions statistics_of(const at::Tensor& x) {
  return x.options().dtype(x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat);
}

/// A vector of the channels as batch normalisation takes it, perhaps a copy.
at::Tensor of_channels(const OptionalTensor& t, const at::Tensor& x) {
  return t && t->defined() ? t->to(statistics_of(x).dtype().toScalarType()).contiguous() : at::Tensor();
}

at::Tensor like_if(bool wanted, const OptionalTensor& t) {
  return wanted && t && t->defined() ? at::empty_like(*t, at::MemoryFormat::Contiguous) : at::Tensor();
}

bool aligned(std::initializer_list<const dlprim::Tensor*> tensors) {
  return std::all_of(tensors.begin(), tensors.end(),
                     [](const dlprim::Tensor* t) { return !t->defined() || is_aligned(*t); });
}

// Batch normalisation

Three batch_norm(const at::Tensor& input, const OptionalTensor& weight, const OptionalTensor& bias,
                 const OptionalTensor& running_mean, const OptionalTensor& running_var, bool training,
                 double momentum, double epsilon) {
  Device& on = home_of(input);
  const at::TensorOptions options = statistics_of(input);
  const at::Tensor output = at::empty_like(input, input.suggest_memory_format());
  const int64_t channels = input.size(1);
  at::Tensor mean = at::empty({training ? channels : 0}, options), inv_std = at::empty_like(mean);
  if (input.numel() == 0) return {output, mean.zero_(), inv_std.zero_()};
  const at::Tensor average = of_channels(running_mean, input), spread = of_channels(running_var, input);
  const dlprim::Tensor x = view(input), y = view(output), w = view(of_channels(weight, input)),
                       b = view(of_channels(bias, input)), m = view(average), v = view(spread);
  dlprim::BatchNormDesc desc{x, y, {epsilon, momentum}, m.defined(), w.defined(), b.defined(), {}, true};
  if (!training) {
    TORCH_CHECK(m.defined() && v.defined(), "batch_norm: no running statistics to evaluate with");
    desc.aligned = aligned({&w, &b, &m, &v});
    run_plan<dlprim::BatchNormInference>(
        on, Key::of(x, y, epsilon, w.defined(), b.defined(), desc.aligned),
        [&] { return dlprim::BatchNormInference(on.context, desc); },
        [&](const dlprim::BatchNormInference& plan, const dlprim::Stream& stream) {
          plan.run(stream, x, w, b, {}, m, v, y);
        });
    return {output, mean, inv_std};
  }
  const dlprim::Tensor saved_mean = view(mean), saved_inv_std = view(inv_std);
  desc.aligned = aligned({&w, &b, &m, &v, &saved_mean, &saved_inv_std});
  run_plan<dlprim::BatchNormTraining>(
      on, Key::of(x, y, epsilon, momentum, m.defined(), w.defined(), b.defined(), desc.aligned),
      [&] { return dlprim::BatchNormTraining(on.context, desc); },
      [&](const dlprim::BatchNormTraining& plan, const dlprim::Stream& stream) {
        plan.run(stream, x, w, b, {}, m, v, y, saved_mean, saved_inv_std);
      });
  if (average.defined() && !average.is_same(*running_mean)) running_mean->copy_(average);
  if (spread.defined() && !spread.is_same(*running_var)) running_var->copy_(spread);
  return {output, mean, inv_std};
}

/// By running statistics, which are constants.
Three batch_norm_backward_evaluated(const at::Tensor& grad, const at::Tensor& input,
                                    const OptionalTensor& weight, const at::Tensor& mean,
                                    const at::Tensor& variance, double epsilon, std::array<bool, 3> wanted) {
  std::vector<int64_t> shape(static_cast<size_t>(input.dim()), 1), axes{0};
  shape[1] = -1;
  for (int64_t i = 2; i < input.dim(); i++) axes.push_back(i);
  const auto type = statistics_of(input).dtype().toScalarType();
  const at::Tensor inv_std = at::rsqrt(variance.to(type) + epsilon);
  at::Tensor dx, dweight, dbias;
  if (wanted[0]) {
    const at::Tensor factor = weight && weight->defined() ? inv_std * *weight : inv_std;
    dx = at::empty_like(input, input.suggest_memory_format());
    dx.copy_(grad * factor.view(shape));
  }
  if (wanted[1])
    dweight = ((input - mean.to(type).view(shape)) * grad)
                  .sum(axes)
                  .mul(inv_std)
                  .to(weight && weight->defined() ? weight->scalar_type() : type);
  if (wanted[2])
    dbias = grad.sum(axes, false, type).to(weight && weight->defined() ? weight->scalar_type() : type);
  return {dx, dweight, dbias};
}

Three batch_norm_backward(const at::Tensor& grad, const at::Tensor& input, const OptionalTensor& weight,
                          const OptionalTensor& running_mean, const OptionalTensor& running_var,
                          const OptionalTensor& saved_mean, const OptionalTensor& saved_inv_std,
                          bool training, double epsilon, std::array<bool, 3> wanted) {
  if (!training)
    return batch_norm_backward_evaluated(grad, input, weight, *running_mean, *running_var, epsilon, wanted);
  Device& on = home_of(input);
  const at::TensorOptions options = statistics_of(input);
  const int64_t channels = input.size(1);
  const auto vector = [&](bool there) { return there ? at::empty({channels}, options) : at::Tensor(); };
  at::Tensor grad_input = wanted[0] ? at::empty_like(input, input.suggest_memory_format()) : at::Tensor(),
             grad_weight = vector(wanted[1]), grad_bias = vector(wanted[2]);
  if (input.numel() == 0) {
    if (wanted[1]) grad_weight.zero_();
    if (wanted[2]) grad_bias.zero_();
  } else if (wanted[0] || wanted[1] || wanted[2]) {
    const dlprim::Tensor dy = view(grad), x = view(input), w = view(of_channels(weight, input)),
                         mean = view(of_channels(saved_mean, input)),
                         inv_std = view(of_channels(saved_inv_std, input)), dx = view(grad_input),
                         dw = view(grad_weight), db = view(grad_bias);
    const bool even = aligned({&w, &mean, &inv_std, &dw, &db});
    run_plan<dlprim::BatchNormBackward>(
        on, Key::of(dy, x, dx, w.defined(), dw.defined(), db.defined(), even),
        [&] {
          dlprim::BatchNormBackwardDesc desc;
          desc.dy = dy;
          desc.x = x;
          desc.dx = description(dx);
          desc.weight = w.defined();
          desc.dweight = dw.defined();
          desc.dbias = db.defined();
          desc.aligned = even;
          return dlprim::BatchNormBackward(on.context, desc);
        },
        [&](const dlprim::BatchNormBackward& plan, const dlprim::Stream& stream) {
          plan.run(stream, dy, x, w, {}, mean, inv_std, {}, dx, dw, db, {});
        });
  }
  if (weight && weight->defined()) {
    if (wanted[1]) grad_weight = grad_weight.to(weight->scalar_type());
    if (wanted[2]) grad_bias = grad_bias.to(weight->scalar_type());
  }
  return {grad_input, grad_weight, grad_bias};
}

/// The same by the names under which torch.export has them: running statistics always, or never.
Three batch_norm_with_statistics(const at::Tensor& input, const OptionalTensor& weight,
                                 const OptionalTensor& bias, at::Tensor& running_mean,
                                 at::Tensor& running_var, bool training, double momentum, double epsilon) {
  return batch_norm(input, weight, bias, running_mean, running_var, training, momentum, epsilon);
}
Three batch_norm_without_statistics(const at::Tensor& input, const OptionalTensor& weight,
                                    const OptionalTensor& bias, bool training, double momentum,
                                    double epsilon) {
  return batch_norm(input, weight, bias, {}, {}, training, momentum, epsilon);
}
/// The last result is what other devices reserve for the gradient.
std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> batch_norm_with_update(
    const at::Tensor& input, const OptionalTensor& weight, const OptionalTensor& bias,
    at::Tensor& running_mean, at::Tensor& running_var, double momentum, double epsilon) {
  return std::tuple_cat(batch_norm(input, weight, bias, running_mean, running_var, true, momentum, epsilon),
                        std::tuple(at::empty({0}, input.options().dtype(at::kByte))));
}
Three batch_norm_reserved_backward(const at::Tensor& grad, const at::Tensor& input, const at::Tensor& weight,
                                   const OptionalTensor& running_mean, const OptionalTensor& running_var,
                                   const OptionalTensor& saved_mean, const OptionalTensor& saved_inv_std,
                                   bool training, double epsilon, std::array<bool, 3> wanted,
                                   const at::Tensor&) {
  return batch_norm_backward(grad, input, weight, running_mean, running_var, saved_mean, saved_inv_std,
                             training, epsilon, wanted);
}

// Layer normalisation

Three layer_norm(const at::Tensor& input, c10::SymIntArrayRef normalized, const OptionalTensor& weight,
                 const OptionalTensor& bias, double epsilon) {
  const auto axes = static_cast<int>(normalized.size());
  TORCH_CHECK(axes >= 1 && axes <= input.dim() &&
                  C10_AS_INTARRAYREF_SLOW(normalized) == input.sizes().slice(input.dim() - axes),
              "layer_norm: the last sizes of the input are not ", normalized, ": it has ", input.sizes());
  std::vector<int64_t> shape = input.sizes().vec();
  std::fill(shape.end() - axes, shape.end(), 1);
  const at::Tensor output = at::empty_like(input, at::MemoryFormat::Contiguous);
  const at::Tensor mean = at::empty(shape, statistics_of(input)), inv_std = at::empty_like(mean);
  if (input.numel() == 0) {
    mean.fill_(std::numeric_limits<double>::quiet_NaN());
    inv_std.fill_(std::numeric_limits<double>::quiet_NaN());
    return {output, mean, inv_std};
  }
  Device& on = home_of(input);
  const dlprim::Tensor x = view(input), y = view(output), w = view(weight), b = view(bias), m = view(mean),
                       s = view(inv_std);
  run_plan<dlprim::LayerNorm>(
      on, Key::of(x, y, w, b, axes, epsilon),
      [&] {
        return dlprim::LayerNorm(on.context,
                                 {x, y, description(w), description(b), axes, epsilon, false, true});
      },
      [&](const dlprim::LayerNorm& plan, const dlprim::Stream& stream) {
        plan.run(stream, x, w, b, y, m, s);
      });
  return {output, mean, inv_std};
}

Three layer_norm_backward(const at::Tensor& grad, const at::Tensor& input, c10::SymIntArrayRef normalized,
                          const at::Tensor& mean, const at::Tensor& inv_std, const OptionalTensor& weight,
                          const OptionalTensor& bias, std::array<bool, 3> wanted) {
  const auto axes = static_cast<int>(normalized.size());
  const at::Tensor grad_input =
      wanted[0] ? at::empty_like(input, at::MemoryFormat::Contiguous) : at::Tensor();
  const at::Tensor grad_weight = like_if(wanted[1], weight), grad_bias = like_if(wanted[2], bias);
  if (input.numel() == 0) {
    if (grad_weight.defined()) grad_weight.zero_();
    if (grad_bias.defined()) grad_bias.zero_();
  } else if (grad_input.defined() || grad_weight.defined() || grad_bias.defined()) {
    Device& on = home_of(input);
    const dlprim::Tensor dy = view(grad), x = view(input), w = view(weight), dx = view(grad_input),
                         dw = view(grad_weight), db = view(grad_bias), m = view(mean), s = view(inv_std);
    run_plan<dlprim::LayerNormBackward>(
        on, Key::of(dy, x, w, dx, dw, db, axes),
        [&] {
          return dlprim::LayerNormBackward(
              on.context, {dy, x, description(w), description(dx), description(dw), description(db), axes});
        },
        [&](const dlprim::LayerNormBackward& plan, const dlprim::Stream& stream) {
          plan.run(stream, dy, x, w, m, s, dx, dw, db);
        });
  }
  return {grad_input, grad_weight, grad_bias};
}

// Group normalisation

Three group_norm(const at::Tensor& input, const OptionalTensor& weight, const OptionalTensor& bias,
                 c10::SymInt, c10::SymInt, c10::SymInt, int64_t groups, double epsilon) {
  const at::Tensor output = at::empty_like(input);
  const at::Tensor mean = at::empty({input.size(0), groups}, statistics_of(input)),
                   inv_std = at::empty_like(mean);
  if (input.numel() == 0) {  // means of nothing
    mean.fill_(std::numeric_limits<double>::quiet_NaN());
    inv_std.fill_(std::numeric_limits<double>::quiet_NaN());
    return {output, mean, inv_std};
  }
  Device& on = home_of(input);
  const dlprim::Tensor x = view(input), y = view(output), w = view(weight), b = view(bias), m = view(mean),
                       s = view(inv_std);
  run_plan<dlprim::GroupNorm>(
      on, Key::of(x, y, w, b, groups, epsilon),
      [&] {
        return dlprim::GroupNorm(on.context,
                                 {x, y, description(w), description(b), groups, epsilon, true, false});
      },
      [&](const dlprim::GroupNorm& plan, const dlprim::Stream& stream) {
        plan.run(stream, x, w, b, y, m, s, {});
      });
  return {output, mean, inv_std};
}

Three group_norm_backward(const at::Tensor& grad, const at::Tensor& input, const at::Tensor& mean,
                          const at::Tensor& inv_std, const OptionalTensor& weight, c10::SymInt,
                          c10::SymInt channels, c10::SymInt, int64_t groups, std::array<bool, 3> wanted) {
  const auto vector = [&](bool there) {
    const bool typed = weight && weight->defined();
    return there ? at::empty({channels.guard_int(__FILE__, __LINE__)},
                             typed ? weight->options() : input.options())
                 : at::Tensor();
  };
  const at::Tensor grad_input = wanted[0] ? at::empty_like(input) : at::Tensor(),
                   grad_weight = vector(wanted[1]), grad_bias = vector(wanted[2]);
  if (input.numel() == 0) {
    // Of images without places the means are NaN.
    if (grad_weight.defined())
      grad_weight.fill_(input.size(0) == 0 ? 0 : std::numeric_limits<double>::quiet_NaN());
    if (grad_bias.defined()) grad_bias.zero_();
  } else if (wanted[0] || wanted[1] || wanted[2]) {
    Device& on = home_of(input);
    const dlprim::Tensor dy = view(grad), x = view(input), w = view(weight), dx = view(grad_input),
                         dw = view(grad_weight), db = view(grad_bias), m = view(mean), s = view(inv_std);
    run_plan<dlprim::GroupNormBackward>(
        on, Key::of(dy, x, w, dx, dw, db, groups),
        [&] {
          return dlprim::GroupNormBackward(
              on.context, {dy, x, description(w), description(dx), description(dw), description(db), groups});
        },
        [&](const dlprim::GroupNormBackward& plan, const dlprim::Stream& stream) {
          plan.run(stream, dy, x, w, m, s, dx, dw, db);
        });
  }
  return {grad_input, grad_weight, grad_bias};
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  OCL_FUNCTION(native_batch_norm, batch_norm)
  OCL_FUNCTION(native_batch_norm_backward, batch_norm_backward)
  OCL_FUNCTION(_native_batch_norm_legit, batch_norm_with_statistics)
  OCL_FUNCTION(_native_batch_norm_legit_no_stats, batch_norm_without_statistics)
  OCL_FUNCTION(_batch_norm_with_update, batch_norm_with_update)
  OCL_FUNCTION(batch_norm_backward, batch_norm_reserved_backward)
  OCL_FUNCTION(native_layer_norm, layer_norm)
  OCL_FUNCTION(native_layer_norm_backward, layer_norm_backward)
  OCL_FUNCTION(native_group_norm, group_norm)
  OCL_FUNCTION(native_group_norm_backward, group_norm_backward)
}

}  // namespace

}  // namespace ocl
