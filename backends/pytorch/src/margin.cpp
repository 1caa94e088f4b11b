// Losses of margins between scores of classes: the right one's or ones' against all others.
#include <ATen/TensorOperators.h>
#include <ATen/core/Reduction.h>

#include "compute.hpp"
#include "structured.hpp"

namespace ocl {

namespace {

/// The sum of `element` over the dimensions that y has not, times the last of the scalars.
void sum_of(Device& on, const char* element, const std::vector<dlprim::Tensor>& inputs,
            const dlprim::Tensor& y, const std::vector<dlprim::Scalar>& scalars) {
  Key key = Key::of(reinterpret_cast<intptr_t>(element), y);
  for (const dlprim::Tensor& x : inputs) key.add(x);
  const std::string finish = "y0 = a0 * s" + std::to_string(scalars.size() - 1);
  run_plan<dlprim::Reduce>(
      on, key,
      [&] {
        return dlprim::Reduce(on.context, {inputs.begin(), inputs.end()}, {y},
                              static_cast<int>(scalars.size()), dlprim::sum_of(element, finish));
      },
      [&](const dlprim::Reduce& plan, const dlprim::Stream& stream) {
        plan.run(stream, inputs, {y}, scalars);
      });
}

at::Tensor reduced(const at::Tensor& losses, int64_t reduction) {
  if (losses.numel() == 0 && reduction != at::Reduction::None) return at::zeros({}, losses.options());
  if (reduction == at::Reduction::Mean) return losses.mean();
  return reduction == at::Reduction::Sum ? losses.sum() : losses;
}

/// The gradient that comes in, a number for each sample or for all of them, times 1 / classes: [N or 1, 1].
at::Tensor slopes(const at::Tensor& grad, const at::Tensor& x, int64_t reduction) {
  const auto samples = static_cast<double>(reduction == at::Reduction::Mean ? x.size(0) : 1);
  return grad.reshape({-1, 1}) / (samples * static_cast<double>(x.size(1)));
}

at::Tensor batched(const at::Tensor& x) {
  return x.dim() == 2 ? x : x.reshape({1, -1});
}

// One right class

struct Margins {
  Margins(const at::Tensor& input, const at::Tensor& classes, const at::Scalar& power, const at::Scalar& m)
      : x(batched(input)), target(classes.reshape({-1, 1})), scalars{m.toDouble(), power.toDouble()} {
    TORCH_CHECK(input.dim() <= 2 && x.size(1) > 0 && target.size(0) == x.size(0),
                "multi_margin_loss: an input of sizes ", input.sizes(), " and a target of ", classes.sizes());
    TORCH_CHECK(power.toDouble() == 1 || power.toDouble() == 2, "multi_margin_loss: p is ", power.toDouble(),
                ", not 1 or 2");
  }

  /// Scores, right classes, scores of those, classes
  std::vector<dlprim::Tensor> inputs() const {
    chosen = x.gather(1, target);
    places = at::arange(x.size(1), target.options());
    return {view(x), view(target), view(chosen), view(places)};
  }
  at::Tensor weights(const at::Tensor& of_classes) const {
    return of_classes.index_select(0, target.flatten()).unsqueeze(1);
  }

  at::Tensor x, target;
  std::vector<dlprim::Scalar> scalars;
  mutable at::Tensor chosen, places;
};

at::Tensor multi_margin(const at::Tensor& input, const at::Tensor& target, const at::Scalar& p,
                        const at::Scalar& margin, const std::optional<at::Tensor>& weight,
                        int64_t reduction) {
  Margins m(input, target, p, margin);
  const at::Tensor losses = at::empty({m.x.size(0), 1}, input.options());
  if (losses.numel() > 0) {
    m.scalars.emplace_back(1.0 / static_cast<double>(m.x.size(1)));
    sum_of(home_of(input),
           "(x1 != x3 && s0 - x2 + x0 > 0 ? (s1 == 1 ? 1 : s0 - x2 + x0) * (s0 - x2 + x0) : 0)", m.inputs(),
           view(losses), m.scalars);
  }
  if (weight && weight->defined()) losses.mul_(m.weights(*weight));
  return reduced(target.dim() == 0 ? losses.reshape({}) : losses.squeeze(1), reduction);
}

at::Tensor& multi_margin_out(const at::Tensor& input, const at::Tensor& target, const at::Scalar& p,
                             const at::Scalar& margin, const std::optional<at::Tensor>& weight,
                             int64_t reduction, at::Tensor& out) {
  const at::Tensor loss = multi_margin(input, target, p, margin, weight, reduction);
  at::native::resize_output(out, loss.sizes());
  return out.copy_(loss);
}

at::Tensor multi_margin_backward(const at::Tensor& grad, const at::Tensor& input, const at::Tensor& target,
                                 const at::Scalar& p, const at::Scalar& margin,
                                 const std::optional<at::Tensor>& weight, int64_t reduction) {
  const Margins m(input, target, p, margin);
  const at::Tensor dx = at::empty(m.x.sizes(), input.options());
  if (dx.numel() == 0) return dx.view(input.sizes());
  at::Tensor dy = slopes(grad, m.x, reduction);
  if (weight && weight->defined()) dy = dy.mul(m.weights(*weight));
  std::vector<dlprim::Tensor> inputs = m.inputs();
  inputs.push_back(view(dy));
  compute(home_of(input), "real z = s0 - x2 + x0; y0 = x1 != x3 && z > 0 ? (s1 == 1 ? 1 : 2 * z) * x4 : 0",
          inputs, {view(dx)}, m.scalars);
  return dx.scatter_(1, m.target, dx.sum(1, true).neg()).view(input.sizes());
}

// Several right classes, listed in front of the first negative number

struct Labels {
  Labels(const at::Tensor& input, const at::Tensor& target) : x(batched(input)) {
    TORCH_CHECK(input.dim() <= 2 && target.sizes() == input.sizes() && x.size(1) > 0,
                "multilabel_margin_loss: an input of sizes ", input.sizes(), " and a target of ",
                target.sizes());
    const at::Tensor listed = batched(target);
    counts = listed.ge(0).to(at::kLong).cumprod(1);
    labels = listed.clamp_min(0);
    chosen = x.gather(1, labels);
    right = at::zeros(x.sizes(), x.options()).scatter_add_(1, labels, counts.to(x.scalar_type())).gt(0);
  }

  /// Scores of listed classes, whether those count, scores of all, whether they are right: [N, listed, all]
  std::vector<dlprim::Tensor> inputs() const {
    return {view(chosen.unsqueeze(2)), view(counts.unsqueeze(2)), view(x.unsqueeze(1)),
            view(right.unsqueeze(1))};
  }

  at::Tensor x, counts, labels, chosen, right;
};

std::tuple<at::Tensor, at::Tensor> multilabel_margin(const at::Tensor& input, const at::Tensor& target,
                                                     int64_t reduction) {
  const Labels l(input, target);
  const at::Tensor losses = at::empty({l.x.size(0), 1, 1}, input.options());
  if (losses.numel() > 0)
    sum_of(home_of(input), "(x1 != 0 && x3 == 0 && 1 - x0 + x2 > 0 ? 1 - x0 + x2 : 0)", l.inputs(),
           view(losses), {1.0 / static_cast<double>(l.x.size(1))});
  return {reduced(input.dim() <= 1 ? losses.reshape({}) : losses.flatten(), reduction),
          l.right.to(input.scalar_type()).view(target.sizes())};
}

std::tuple<at::Tensor&, at::Tensor&> multilabel_margin_out(const at::Tensor& input, const at::Tensor& target,
                                                           int64_t reduction, at::Tensor& out,
                                                           at::Tensor& is_target) {
  const auto [loss, right] = multilabel_margin(input, target, reduction);
  at::native::resize_output(out, loss.sizes());
  at::native::resize_output(is_target, right.sizes());
  return {out.copy_(loss), is_target.copy_(right)};
}

at::Tensor multilabel_margin_backward(const at::Tensor& grad, const at::Tensor& input,
                                      const at::Tensor& target, int64_t reduction, const at::Tensor&) {
  static constexpr char kCounted[] = "(x1 != 0 && x3 == 0 && 1 - x0 + x2 > 0 ? 1 : 0)";
  const Labels l(input, target);
  const at::Tensor up = at::empty(l.x.sizes(), input.options()), down = at::empty_like(up);
  if (up.numel() == 0) return up.view(input.sizes());
  sum_of(home_of(input), kCounted, l.inputs(), view(up.unsqueeze(1)), {1.0});
  sum_of(home_of(input), kCounted, l.inputs(), view(down.unsqueeze(2)), {1.0});
  return up.scatter_add_(1, l.labels, down.neg_()).mul_(slopes(grad, l.x, reduction)).view(input.sizes());
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  OCL_FLOATING(multi_margin_loss, multi_margin)
  OCL_FLOATING(multi_margin_loss_out, multi_margin_out)
  OCL_FLOATING(multi_margin_loss_backward, multi_margin_backward)
  OCL_FLOATING(multilabel_margin_loss_forward, multilabel_margin)
  OCL_FLOATING(multilabel_margin_loss_forward_output, multilabel_margin_out)
  OCL_FLOATING(multilabel_margin_loss_backward, multilabel_margin_backward)
}

}  // namespace

}  // namespace ocl
