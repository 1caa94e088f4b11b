// Plans and calls of losses.
#include <dlprim/class_loss.hpp>
#include <dlprim/ctc_loss.hpp>
#include <dlprim/loss.hpp>

#include "cases/planned.hpp"

namespace dlprim::test {

using namespace planning;

std::vector<PlannedOperator> planned_losses() {
  return {
      planned<Loss>(
          "loss", "generated", {in("x", {200, 90}), in("target", {200, 90}), out("y", {1})},
          [=](Ts t) {
            return LossDesc{"huber", t[0], t[1], t[2]};
          },
          [=](const Loss& plan, St st, Ts t, Ws ws) { plan.run(st, t[0], t[1], {}, {2.0}, t[2], ws); },
          [=](St st, Ts t, Op options, Ws ws) {
            loss(st, "huber", t[0], t[1], {}, {LossReduction::mean, {2.0}}, t[2], options, ws);
          }),
      planned<LossBackward>(
          "loss_backward", "generated",
          {in("dy", {1}), in("x", {200, 90}), in("target", {200, 90}), out("dx", {200, 90})},
          [=](Ts t) {
            return LossBackwardDesc{"huber", t[0], t[1], t[2], LossReduction::mean, {}, TensorDesc(t[3])};
          },
          [=](const LossBackward& plan, St st, Ts t, Ws ws) {
            plan.run(st, t[0], t[1], t[2], {}, {2.0}, t[3], {}, ws);
          },
          [=](St st, Ts t, Op options, Ws ws) {
            loss_backward(st, "huber", t[0], t[1], t[2], {}, {LossReduction::mean, {2.0}}, t[3], {}, options,
                          ws);
          }),
      planned<NllLoss>(
          "nll_loss", "direct",
          {in("x", {6, 20}), in("target", {6}, i64), in("weight", {20}), out("loss", {1})},
          [=](Ts t) {
            return ClassLossDesc{t[0], t[1], t[3], TensorDesc(t[2])};
          },
          [=](const NllLoss& plan, St st, Ts t, Ws ws) { plan.run(st, t[0], t[1], t[2], t[3], ws); },
          [=](St st, Ts t, Op options, Ws ws) { nll_loss(st, t[0], t[1], t[2], {}, t[3], options, ws); }),
      planned<NllLossBackward>(
          "nll_loss_backward", "direct",
          {in("dloss", {1}), in("target", {6}, i64), in("weight", {20}), out("dx", {6, 20})},
          [=](Ts t) {
            return NllLossBackwardDesc{t[0], t[1], t[3], TensorDesc(t[2])};
          },
          [=](const NllLossBackward& plan, St st, Ts t, Ws ws) { plan.run(st, t[0], t[1], t[2], t[3], ws); },
          [=](St st, Ts t, Op options, Ws ws) {
            nll_loss_backward(st, t[0], t[1], t[2], {}, t[3], options, ws);
          }),
      planned<CrossEntropy>(
          "cross_entropy", "row",
          {in("x", {6, 20}), in("target", {6}, i64), in("weight", {20}), out("loss", {1})},
          [=](Ts t) {
            return ClassLossDesc{t[0], t[1], t[3], TensorDesc(t[2])};
          },
          [=](const CrossEntropy& plan, St st, Ts t, Ws ws) { plan.run(st, t[0], t[1], t[2], t[3], ws); },
          [=](St st, Ts t, Op options, Ws ws) {
            cross_entropy(st, t[0], t[1], t[2], {}, t[3], options, ws);
          }),
      planned<CrossEntropyBackward>(
          "cross_entropy_backward", "row",
          {in("dloss", {1}), in("x", {6, 20}), in("target", {6}, i64), in("weight", {20}),
           out("dx", {6, 20})},
          [=](Ts t) {
            return CrossEntropyBackwardDesc{t[0], t[1], t[2], t[4], TensorDesc(t[3])};
          },
          [=](const CrossEntropyBackward& plan, St st, Ts t, Ws ws) {
            plan.run(st, t[0], t[1], t[2], t[3], t[4], ws);
          },
          [=](St st, Ts t, Op options, Ws ws) {
            cross_entropy_backward(st, t[0], t[1], t[2], t[3], {}, t[4], options, ws);
          }),
      planned<CtcLoss>(
          "ctc_loss", "direct",
          {in("x", {6, 3, 5}), in("labels", {3, 4}, i64), in("x_lengths", {3}, i64),
           in("label_lengths", {3}, i64), out("loss", {1}), out("alpha", {3, 6, 9})},
          [=](Ts t) { return CtcLossDesc{t[0], t[1], t[2], t[3], t[4], t[5]}; },
          [=](const CtcLoss& plan, St st, Ts t, Ws ws) {
            plan.run(st, {t[0], t[1], t[2], t[3]}, t[4], t[5], ws);
          },
          [=](St st, Ts t, Op options, Ws ws) {
            ctc_loss(st, {t[0], t[1], t[2], t[3]}, {}, t[4], t[5], options, ws);
          }),
      planned<CtcLossBackward>(
          "ctc_loss_backward", "direct",
          {in("x", {6, 3, 5}), in("labels", {3, 4}, i64), in("x_lengths", {3}, i64),
           in("label_lengths", {3}, i64), in("dloss", {1}), in("alpha", {3, 6, 9}), out("dx", {6, 3, 5})},
          [=](Ts t) { return CtcLossBackwardDesc{t[4], t[0], t[1], t[2], t[3], t[5], t[6]}; },
          [=](const CtcLossBackward& plan, St st, Ts t, Ws ws) {
            plan.run(st, t[4], {t[0], t[1], t[2], t[3]}, t[5], t[6], ws);
          },
          [=](St st, Ts t, Op options, Ws ws) {
            ctc_loss_backward(st, t[4], {t[0], t[1], t[2], t[3]}, t[5], {}, t[6], options, ws);
          }),
  };
}

}  // namespace dlprim::test
