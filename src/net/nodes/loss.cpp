// Losses of classes; dropout.
#include <limits>

#include <dlprim/class_loss.hpp>
#include <dlprim/copy.hpp>
#include <dlprim/pointwise.hpp>
#include <dlprim/random.hpp>
#include <dlprim/softmax.hpp>

#include "net/executor.hpp"
#include "net/nodes/families.hpp"
#include "net/nodes/params.hpp"

namespace dlprim::detail {
namespace {

LossReduction asked_reduction(const NodeStep& step) {
  const std::string name = step.text("reduction", "mean");
  require(name == "mean" || name == "sum" || name == "none", "reduction", "'", name,
          "' must be mean, sum or none");
  return name == "mean" ? LossReduction::mean : name == "sum" ? LossReduction::sum : LossReduction::none;
}

}  // namespace

ClassLossParams class_loss_params(const NodeStep& step) {
  ClassLossParams params;
  params.reduction = asked_reduction(step);
  params.ignore_index = step.integer("ignore_index", -1);
  params.label_smoothing = step.number("label_smoothing", 0);
  return params;
}

namespace {

/// Inputs: x [N, C, ...], logarithms of probabilities, or logits with "logits"; target [N, ...], classes; a
/// weight for each class (may be left out). Attributes: reduction (mean, which is by the targets' weights;
/// sum; none); ignore_index: a class without loss; label_smoothing, of logits. Outputs: the loss; of logits
/// their log-softmax.
void infer_class_loss(NodeStep& step) {
  const Shape& x = step.shape(0);
  require(x.size() >= 2, "x", x, " must have rank 2 or more");
  Shape target{x[0]};
  for (int i = 2; i < x.size(); i++) target.push_back(x[i]);
  require(step.shape(1) == target, "inputs", "the target is ", step.shape(1), ", must be ", target);
  step.output(0, step.dtype(0), asked_reduction(step) == LossReduction::none ? target : Shape{});
  step.output(1, step.dtype(0), x);
}
void run_class_loss(NodeStep& step) {
  const bool logits = step.flag("logits");
  const ClassLossParams params = class_loss_params(step);
  const Shape& shape = step.shape(0);
  if (element_count(shape) == 0) {
    const double nothing =
        params.reduction == LossReduction::mean ? std::numeric_limits<double>::quiet_NaN() : 0.0;
    if (step.y().numel() != 0) fill(step.stream, nothing, step.y(), step.options);
    if (step.wanted(1)) step.y(1);
    return;
  }
  // Any number of axes, as one.
  const int64_t places = element_count(shape) / (shape[0] * shape[1]);
  const bool one_axis = shape.size() == 2;
  const Tensor x = one_axis ? step.x(0) : step.dense(0).reshape({shape[0], shape[1], places});
  const Tensor target = one_axis ? step.x(1) : step.dense(1).reshape({shape[0], places});
  const Tensor y = params.reduction != LossReduction::none ? step.y().reshape({1})
                   : one_axis                              ? step.y()
                                                           : step.y().reshape({shape[0], places});
  (logits ? cross_entropy : nll_loss)(step.stream, x, target, step.x(2), params, y, step.options, {});
  if (step.wanted(1)) log_softmax(step.stream, step.x(0), {}, 1, step.y(1), step.options);
}

/// Inputs: x, ratio (0.5), training (a truth; false). Training: elements become 0 with probability `ratio`,
/// the others are divided by 1 - ratio, by other random numbers each time. samples: not elements become 0,
/// but places of the first axis. Outputs: y; which stayed.
Shape shape_of_mask(const NodeStep& step) {
  Shape shape = step.shape(0);
  for (int i = 1; i < shape.size() && step.flag("samples"); i++) shape[i] = 1;
  return shape;
}
void infer_dropout(NodeStep& step) {
  step.output(0, step.dtype(0), step.shape(0));
  step.output(1, DType::boolean, shape_of_mask(step));
}
void run_dropout(NodeStep& step) {
  const double ratio = step.has(1) ? step.numbers(1).at(0) : 0.5;
  const bool training = step.has(2) && step.numbers(2).at(0) != 0;
  require(!training || (ratio >= 0 && ratio < 1), "ratio", ratio, " must be in [0, 1)");
  const bool random = training && ratio != 0;
  require(!random || !step.flag("seeded"), "seed",
          "training with a seed is not supported: its random numbers would be another's");
  if (!random) {
    step.set(0, step.x(0));
    if (step.wanted(1) && step.y(1).numel() != 0) fill(step.stream, 1, step.y(1), step.options);
    return;
  }
  const Tensor mask = step.wanted(1) ? step.y(1) : step.scratch(shape_of_mask(step), DType::boolean);
  if (step.x(0).numel() == 0) return step.set(0, step.x(0));
  random_bernoulli(step.stream, 1 - ratio, step.random(mask.numel()), mask, step.options);
  pointwise(step.stream, {step.x(0), mask}, {step.y()}, {1 / (1 - ratio)}, "y0 = x1 ? x0 * s0 : 0",
            step.options);
}

constexpr NodeKind kKinds[] = {
    {"class_loss", 2, 3, infer_class_loss, run_class_loss},
    {"dropout", 1, 3, infer_dropout, run_dropout},
};

}  // namespace

KindList loss_kinds() {
  return list_of(kKinds);
}

}  // namespace dlprim::detail
