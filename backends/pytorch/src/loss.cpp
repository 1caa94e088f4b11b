// Softmax and its logarithm, the negative log-likelihood, binary cross-entropy; forward and backward.
#include <ATen/core/Reduction.h>
#include <dlprim/class_loss.hpp>
#include <dlprim/pointwise.hpp>
#include <dlprim/softmax.hpp>

#include "expression.hpp"
#include "plans.hpp"
#include "structured.hpp"

namespace ocl {

namespace {

// Softmax

void softmax(bool log, const at::Tensor& input, int64_t dim, const at::Tensor& output) {
  if (input.numel() == 0) return;
  const dlprim::Tensor x = view(at_least_1d(input)), y = view(at_least_1d(output));
  const int axis = axis_of(dim, input);
  run_plan<dlprim::Softmax>(
      home_of(input), Key::of(x, y, axis, log),
      [&] {
        return dlprim::Softmax(home_of(input).context, {x, y, axis, log});
      },
      [&](const dlprim::Softmax& plan, const dlprim::Stream& stream) { plan.run(stream, x, {}, y); });
}

void softmax_backward(bool log, const at::Tensor& grad, const at::Tensor& output, int64_t dim,
                      const at::Tensor& grad_input) {
  if (grad.numel() == 0) return;
  const dlprim::Tensor dy = view(at_least_1d(grad)), y = view(at_least_1d(output)),
                       dx = view(at_least_1d(grad_input));
  const int axis = axis_of(dim, grad);
  run_plan<dlprim::SoftmaxBackward>(
      home_of(grad), Key::of(dy, y, dx, axis, log),
      [&] {
        return dlprim::SoftmaxBackward(home_of(grad).context, {dy, y, dx, axis, log});
      },
      [&](const dlprim::SoftmaxBackward& plan, const dlprim::Stream& stream) {
        plan.run(stream, dy, y, {}, dx);
      });
}

#define SOFTMAX(Class, base, log)                                                                       \
  struct Class : at::meta::structured_##base {                                                          \
    static constexpr bool floating_only = true;                                                         \
    void impl(const at::Tensor& x, int64_t dim, bool, const at::Tensor& y) { softmax(log, x, dim, y); } \
  };                                                                                                    \
  struct Class##Backward : at::meta::structured_##base##_backward_data {                                \
    void impl(const at::Tensor& dy, const at::Tensor& y, int64_t dim, at::ScalarType,                   \
              const at::Tensor& dx) {                                                                   \
      softmax_backward(log, dy, y, dim, dx);                                                            \
    }                                                                                                   \
  };
SOFTMAX(Softmax, _softmax, false)
SOFTMAX(LogSoftmax, _log_softmax, true)
#undef SOFTMAX

// The negative log-likelihood. What a target that is no class means is dlprim's: it is ignored, a device
// cannot throw.

dlprim::ClassLossParams params_of(int64_t reduction, int64_t ignore_index) {
  static constexpr dlprim::LossReduction kReductions[] = {
      dlprim::LossReduction::none, dlprim::LossReduction::mean, dlprim::LossReduction::sum};
  dlprim::ClassLossParams params;
  params.reduction = kReductions[reduction];
  params.ignore_index = ignore_index;
  return params;
}

/// The input with its classes in dimension 1.
at::Tensor batched(const at::Tensor& x) {
  return x.dim() == 1 ? x.unsqueeze(0) : x;
}
at::Tensor batched_target(const at::Tensor& x, const at::Tensor& target) {
  return x.dim() == 1 ? target.reshape({1}) : target;
}

/// A tensor of one number or, if nothing is reduced, a number for each target.
at::Tensor loss_like(const at::Tensor& x, const at::Tensor& loss, int64_t reduction) {
  return reduction != 0 || x.dim() == 1 ? loss.reshape({1}) : loss;
}

/// The sum of the weights of the targets that count: what a mean is divided by.
void sum_weights(const at::Tensor& targets, const at::Tensor& weight, int64_t classes, int64_t ignore_index,
                 const at::Tensor& total) {
  const at::Tensor counted =
      targets.ne(ignore_index).logical_and_(targets.ge(0)).logical_and_(targets.lt(classes));
  if (!weight.defined()) {
    total.copy_(counted.sum());
    return;
  }
  const at::Tensor weights = weight.index_select(0, targets.clamp(0, classes - 1).reshape({-1}));
  total.copy_(weights.mul_(counted.reshape({-1})).sum());
}

void nll(const at::Tensor& self, const at::Tensor& targets, const at::Tensor& weights, int64_t reduction,
         int64_t ignore_index, const at::Tensor& output, const at::Tensor& total) {
  if (reduction == 0)
    total.zero_();
  else
    sum_weights(targets, weights, batched(self).size(1), ignore_index, total);
  if (output.numel() == 0) return;
  const dlprim::Tensor x = view(batched(self)), target = view(batched_target(self, targets)),
                       weight = view(weights), loss = view(loss_like(self, output, reduction));
  run_plan<dlprim::NllLoss>(
      home_of(self), Key::of(x, target, loss, weight, reduction, ignore_index),
      [&] {
        return dlprim::NllLoss(home_of(self).context,
                               {x, target, loss, description(weight), params_of(reduction, ignore_index)});
      },
      [&](const dlprim::NllLoss& plan, const dlprim::Stream& stream) {
        plan.run(stream, x, target, weight, loss);
      });
}

void nll_backward(const at::Tensor& grad, const at::Tensor& self, const at::Tensor& targets,
                  const at::Tensor& weights, int64_t reduction, int64_t ignore_index,
                  const at::Tensor& grad_input) {
  if (grad_input.numel() == 0) return;
  const dlprim::Tensor dloss = view(loss_like(self, grad, reduction)),
                       target = view(batched_target(self, targets)), weight = view(weights),
                       dx = view(batched(grad_input));
  run_plan<dlprim::NllLossBackward>(
      home_of(self), Key::of(dloss, target, dx, weight, reduction, ignore_index),
      [&] {
        return dlprim::NllLossBackward(home_of(self).context, {dloss, target, dx, description(weight),
                                                               params_of(reduction, ignore_index)});
      },
      [&](const dlprim::NllLossBackward& plan, const dlprim::Stream& stream) {
        plan.run(stream, dloss, target, weight, dx);
      });
}

at::Tensor tensor_of(at::OptionalTensorRef t) {
  return t.has_value() ? *t : at::Tensor();
}

struct NllLoss : at::meta::structured_nll_loss_forward {
  void impl(const at::Tensor& x, const at::Tensor& target, at::OptionalTensorRef weight, int64_t reduction,
            int64_t ignore_index, const at::Tensor& loss, const at::Tensor& total) {
    nll(x, target, tensor_of(weight), reduction, ignore_index, loss, total);
  }
};

struct NllLossBackward : at::meta::structured_nll_loss_backward {
  void impl(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& target, at::OptionalTensorRef weight,
            int64_t reduction, int64_t ignore_index, const at::Tensor&, const at::Tensor& dx) {
    nll_backward(dy, x, target, tensor_of(weight), reduction, ignore_index, dx);
  }
};

std::tuple<at::Tensor, at::Tensor> nll_loss2d(const at::Tensor& x, const at::Tensor& target,
                                              const std::optional<at::Tensor>& weight, int64_t reduction,
                                              c10::SymInt ignore_index) {
  TORCH_CHECK(x.dim() == 4 && target.dim() == 3 && x.size(0) == target.size(0) &&
                  x.size(2) == target.size(1) && x.size(3) == target.size(2),
              "nll_loss2d: an input of sizes ", x.sizes(), " and a target of ", target.sizes());
  const at::Tensor loss =
      reduction == 0 ? at::empty(target.sizes(), x.options()) : at::empty({}, x.options());
  const at::Tensor total = at::empty({}, x.options());
  nll(x, target, weight.value_or(at::Tensor()), reduction, ignore_index.guard_int(__FILE__, __LINE__), loss,
      total);
  return {loss, total};
}

at::Tensor nll_loss2d_backward(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& target,
                               const std::optional<at::Tensor>& weight, int64_t reduction,
                               c10::SymInt ignore_index, const at::Tensor&) {
  const at::Tensor dx = at::empty_like(x);
  nll_backward(dy, x, target, weight.value_or(at::Tensor()), reduction,
               ignore_index.guard_int(__FILE__, __LINE__), dx);
  return dx;
}

// Binary cross-entropy

/// What the reduction makes of the terms.
at::Tensor reduced(const at::Tensor& terms, int64_t reduction) {
  return reduction == at::Reduction::Mean  ? terms.mean()
         : reduction == at::Reduction::Sum ? terms.sum()
                                           : terms;
}

at::Tensor like(const at::Tensor& x) {
  return at::empty_like(x, at::MemoryFormat::Preserve);
}

at::Tensor cross_entropy(const at::Tensor& x, const at::Tensor& target,
                         const std::optional<at::Tensor>& weight, int64_t reduction) {
  static constexpr Row row = expression("-(b * fmax(log(a), -100) + (1 - b) * fmax(log1p(-a), -100))");
  const at::Tensor terms = like(x);
  at::TensorIterator iter = at::TensorIterator::borrowing_binary_op(terms, x, target);
  run_pointwise(row, iter, {});
  if (weight && weight->defined()) terms.mul_(*weight);
  return reduced(terms, reduction);
}

at::Tensor cross_entropy_backward(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& target,
                                  const std::optional<at::Tensor>& weight, int64_t reduction) {
  static constexpr Row row = expression("(a - b) * p / ((1 - a) * a > 1e-12 ? (1 - a) * a : 1e-12)");
  const at::Tensor dx = like(x);
  at::TensorIterator iter = at::TensorIterator::borrowing_binary_op(dx, x, target);
  const std::array<at::Scalar, 1> scalars{
      reduction == at::Reduction::Mean ? 1.0 / static_cast<double>(x.numel()) : 1.0};
  run_pointwise(row, iter, scalars);
  if (weight && weight->defined()) dx.mul_(*weight);
  return dx.mul_(dy);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  OCL_CLASS(_softmax_out, Softmax)
  OCL_CLASS(_softmax_backward_data_out, SoftmaxBackward)
  OCL_CLASS(_log_softmax_out, LogSoftmax)
  OCL_CLASS(_log_softmax_backward_data_out, LogSoftmaxBackward)
  OCL_CLASS(nll_loss_forward_output, NllLoss)
  OCL_CLASS(nll_loss_backward_grad_input, NllLossBackward)
  OCL_FUNCTION(nll_loss2d_forward, nll_loss2d)
  OCL_FUNCTION(nll_loss2d_backward, nll_loss2d_backward)
  OCL_FUNCTION(binary_cross_entropy, cross_entropy)
  OCL_FUNCTION(binary_cross_entropy_backward, cross_entropy_backward)
}

}  // namespace

}  // namespace ocl
