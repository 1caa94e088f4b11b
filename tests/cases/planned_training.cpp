// Plans and calls of random numbers, optimizers and gradients.
#include <dlprim/dropout.hpp>
#include <dlprim/gradients.hpp>
#include <dlprim/multi_pointwise.hpp>
#include <dlprim/optimizer.hpp>
#include <dlprim/random.hpp>
#include <dlprim/sampling.hpp>

#include "cases/planned.hpp"

namespace dlprim::test {

using namespace planning;

namespace {

MultiPointwiseTensors from_to(const Tensors& x, const Tensors& y) {
  MultiPointwiseTensors tensors;
  tensors.inputs = {x};
  tensors.outputs = {y};
  return tensors;
}

}  // namespace

std::vector<PlannedOperator> planned_training() {
  return {
      planned<Random>(
          "random_normal", "copied", {in("unused", {1}), out("y", {6, 20})},
          [=](Ts t) {
            return RandomDesc{t[1], Distribution::normal};
          },
          [=](const Random& plan, St st, Ts t, Ws ws) { plan.run(st, 0, 1, {}, t[1], ws); },
          [=](St st, Ts t, Op options, Ws ws) { random_normal(st, 0, 1, {}, t[1], options, ws); }),
      planned<Random>(
          "random_bernoulli", "copied", {in("unused", {1}), out("y", {6, 20})},
          [=](Ts t) {
            return RandomDesc{t[1], Distribution::bernoulli};
          },
          [=](const Random& plan, St st, Ts t, Ws ws) { plan.run(st, 0.5, 0, {}, t[1], ws); },
          [=](St st, Ts t, Op options, Ws ws) { random_bernoulli(st, 0.5, {}, t[1], options, ws); }),
      planned<Random>(
          "random_integers", "copied", {in("unused", {1}), out("y", {6, 20}, i64)},
          [=](Ts t) {
            return RandomDesc{t[1], Distribution::integers};
          },
          [=](const Random& plan, St st, Ts t, Ws ws) { plan.run_integers(st, 0, 9, {}, t[1], ws); },
          [=](St st, Ts t, Op options, Ws ws) { random_integers(st, 0, 9, {}, t[1], options, ws); }),
      planned<Dropout>(
          "dropout", "masked", {in("x", {6, 20}), out("y", {6, 20})},
          [=](Ts t) {
            return DropoutDesc{t[0], t[1]};
          },
          [=](const Dropout& plan, St st, Ts t, Ws ws) { plan.run(st, t[0], 0.5, {}, t[1], ws); },
          [=](St st, Ts t, Op options, Ws ws) { dropout(st, t[0], 0.5, {}, t[1], options, ws); }),
      planned<RandomPermutation>(
          "random_permutation", "direct", {in("unused", {1}), out("y", {20}, i64)},
          [=](Ts t) { return RandomPermutationDesc{t[1]}; },
          [=](const RandomPermutation& plan, St st, Ts t, Ws ws) { plan.run(st, {}, t[1], ws); },
          [=](St st, Ts t, Op options, Ws ws) { random_permutation(st, {}, t[1], options, ws); }),
      planned<Multinomial>(
          "multinomial", "direct", {in("w", {6, 20}), out("y", {6, 3}, i64)},
          [=](Ts t) {
            return MultinomialDesc{t[0], t[1], true};
          },
          [=](const Multinomial& plan, St st, Ts t, Ws ws) { plan.run(st, t[0], {}, t[1], ws); },
          [=](St st, Ts t, Op options, Ws ws) { multinomial(st, t[0], true, {}, t[1], options, ws); }),
      planned<Optimizer>(
          "optimize", "multi_tensor", {in("old", {6, 20}), in("dw", {6, 20}), out("w", {6, 20})},
          [](Ts) { return OptimizerDesc(); },
          [=](const Optimizer& plan, St st, Ts t, Ws ws) {
            plan.run(st, {}, {{renewed(st, t[0], t[2])}, {t[1]}, {}, {}}, ws);
          },
          [=](St st, Ts t, Op options, Ws ws) {
            optimize(st, {}, {}, {{renewed(st, t[0], t[2])}, {t[1]}, {}, {}}, options, ws);
          }),
      planned<UpdateAverages>(
          "update_averages", "multi_tensor", {in("old", {6, 20}), in("w", {6, 20}), out("averages", {6, 20})},
          [](Ts) { return UpdateAveragesDesc(); },
          [=](const UpdateAverages& plan, St st, Ts t, Ws ws) {
            plan.run(st, {t[1]}, 0.5, {renewed(st, t[0], t[2])}, ws);
          },
          [=](St st, Ts t, Op options, Ws ws) {
            update_averages(st, {t[1]}, 0.5, {renewed(st, t[0], t[2])}, options, ws);
          }),
      planned<MultiPointwise>(
          "multi_pointwise", "multi_tensor", {in("x", {6, 20}), out("y", {6, 20})},
          [](Ts) {
            MultiPointwiseDesc desc;
            desc.inputs = desc.outputs = {DType::f32};
            desc.scalars = 1;
            desc.body = "y0 = s0 * x0";
            return desc;
          },
          [=](const MultiPointwise& plan, St st, Ts t, Ws ws) {
            plan.run(st, from_to({t[0]}, {t[1]}), {2}, {}, ws);
          },
          [=](St st, Ts t, Op options, Ws ws) {
            multi_pointwise(st, from_to({t[0]}, {t[1]}), {2}, {}, "y0 = s0 * x0", options, ws);
          }),
      planned<GradientNorm>(
          "gradient_norm", "multi_tensor",
          {in("dw", {6, 20}), in("more", {20}), out("norm", {1}), out("factor", {1})},
          [](Ts) {
            return GradientNormDesc{DType::f32, NormOrder::two, 2, 140};
          },
          [=](const GradientNorm& plan, St st, Ts t, Ws ws) {
            plan.run(st, {t[0], t[1]}, 1, t[2], t[3], ws);
          },
          [=](St st, Ts t, Op options, Ws ws) {
            gradient_norm(st, {t[0], t[1]}, {NormOrder::two, 1}, t[2], t[3], options, ws);
          }),
      planned<ClipGradientsByNorm>(
          "clip_gradients_by_norm", "multi_tensor",
          {in("old", {6, 20}), out("dw", {6, 20}), out("norm", {1})},
          [](Ts) {
            return GradientNormDesc{DType::f32, NormOrder::two, 1, 120};
          },
          [=](const ClipGradientsByNorm& plan, St st, Ts t, Ws ws) {
            plan.run(st, 1, {renewed(st, t[0], t[1])}, t[2], ws);
          },
          [=](St st, Ts t, Op options, Ws ws) {
            clip_gradients_by_norm(st, {NormOrder::two, 1}, {renewed(st, t[0], t[1])}, t[2], options, ws);
          }),
      planned<ScaleGradients>(
          "scale_gradients", "multi_tensor",
          {in("old", {6, 20}), out("dw", {6, 20}), in("factor", {1}), in("scale", {1})},
          [](Ts) { return GradientsDesc(); },
          [=](const ScaleGradients& plan, St st, Ts t, Ws ws) {
            plan.run(st, t[2], t[3], {renewed(st, t[0], t[1])}, ws);
          },
          [=](St st, Ts t, Op options, Ws ws) {
            scale_gradients(st, t[2], t[3], {renewed(st, t[0], t[1])}, options, ws);
          }),
      planned<ClipGradientsByValue>(
          "clip_gradients_by_value", "multi_tensor", {in("old", {6, 20}), out("dw", {6, 20})},
          [](Ts) { return GradientsDesc(); },
          [=](const ClipGradientsByValue& plan, St st, Ts t, Ws ws) {
            plan.run(st, 1, {renewed(st, t[0], t[1])}, ws);
          },
          [=](St st, Ts t, Op options, Ws ws) {
            clip_gradients_by_value(st, 1, {renewed(st, t[0], t[1])}, options, ws);
          }),
      planned<UnscaleGradients>(
          "unscale_gradients", "multi_tensor",
          {in("old", {6, 20}), out("dw", {6, 20}), in("scale", {1}), out("found_inf", {1})},
          [](Ts) { return GradientsDesc(); },
          [=](const UnscaleGradients& plan, St st, Ts t, Ws ws) {
            plan.run(st, t[2], {renewed(st, t[0], t[1])}, t[3], ws);
          },
          [=](St st, Ts t, Op options, Ws ws) {
            unscale_gradients(st, t[2], {renewed(st, t[0], t[1])}, t[3], options, ws);
          }),
      planned<UpdateLossScale>(
          "update_loss_scale", "direct",
          {in("found_inf", {1}), in("old", {1}), in("old_steps", {1}, i32), out("scale", {1}),
           out("good_steps", {1}, i32)},
          [](Ts) { return LossScaling(); },
          [=](const UpdateLossScale& plan, St st, Ts t, Ws ws) {
            plan.run(st, t[0], renewed(st, t[1], t[3]), renewed(st, t[2], t[4]), ws);
          },
          [=](St st, Ts t, Op options, Ws ws) {
            update_loss_scale(st, t[0], {}, renewed(st, t[1], t[3]), renewed(st, t[2], t[4]), options, ws);
          }),
  };
}

}  // namespace dlprim::test
