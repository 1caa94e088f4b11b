// Plans and calls element by element, and of reductions.
#include <dlprim/activation.hpp>
#include <dlprim/elementwise.hpp>
#include <dlprim/pointwise.hpp>
#include <dlprim/reduction.hpp>

#include "cases/planned.hpp"

namespace dlprim::test {

using namespace planning;

namespace {

PlannedOperator reduce_by(const std::string& engine) {
  return {"reduce by " + engine,
          engine,
          {in("x", {80000}), out("y", {1})},
          [](Ts t, Op options) {
            const auto plan =
                std::make_shared<const Reduce>(t[0].context(), std::vector<TensorDesc>{t[0]},
                                               std::vector<TensorDesc>{t[1]}, 0, sum_of("x0"), options);
            return PlannedOperator::Made{plan, [=](St st, Ws ws) { plan->run(st, {t[0]}, {t[1]}, {}, ws); }};
          },
          [](St st, Ts t, Op options, Ws ws) { reduce(st, {t[0]}, {t[1]}, {}, sum_of("x0"), options, ws); }};
}

}  // namespace

std::vector<PlannedOperator> planned_elements() {
  return {
      planned<ActivationForward>(
          "activation", "generated", {in("x", {6, 20}), out("y", {6, 20})},
          [=](Ts t) {
            return ActivationDesc{t[0], t[1], Activation::relu};
          },
          [=](const ActivationForward& plan, St st, Ts t, Ws ws) { plan.run(st, t[0], t[1], ws); },
          [=](St st, Ts t, Op options, Ws ws) { activation(st, t[0], Activation::relu, t[1], options, ws); }),
      planned<ActivationBackward>(
          "activation_backward", "generated", {in("dy", {6, 20}), in("y", {6, 20}), out("dx", {6, 20})},
          [=](Ts t) {
            return ActivationBackwardDesc{t[0], t[1], t[2], Activation::relu};
          },
          [=](const ActivationBackward& plan, St st, Ts t, Ws ws) { plan.run(st, t[0], t[1], t[2], ws); },
          [=](St st, Ts t, Op options, Ws ws) {
            activation_backward(st, t[0], t[1], Activation::relu, t[2], options, ws);
          }),
      planned<Elementwise>(
          "elementwise", "generated", {in("a", {6, 20}), in("b", {20}), out("y", {6, 20})},
          [=](Ts t) {
            return ElementwiseDesc{"add", {t[0], t[1]}, t[2]};
          },
          [=](const Elementwise& plan, St st, Ts t, Ws ws) {
            plan.run(st, {t[0], t[1]}, {2.0}, t[2], ws);
          },
          [=](St st, Ts t, Op options, Ws ws) {
            elementwise(st, "add", {t[0], t[1]}, {2.0}, t[2], options, ws);
          }),
      planned<ElementwiseBackward>(
          "elementwise_backward", "generated",
          {in("dy", {40000, 2}), in("a", {40000, 2}), in("b", {2}), out("da", {40000, 2}), out("db", {2})},
          [=](Ts t) {
            return ElementwiseBackwardDesc{"mul", t[0], {t[1], t[2]}, {TensorDesc(t[3]), TensorDesc(t[4])}};
          },
          [=](const ElementwiseBackward& plan, St st, Ts t, Ws ws) {
            plan.run(st, t[0], {t[1], t[2]}, {}, {t[3], t[4]}, ws);
          },
          [=](St st, Ts t, Op options, Ws ws) {
            elementwise_backward(st, "mul", t[0], {t[1], t[2]}, {}, {t[3], t[4]}, options, ws);
          }),
      planned<ReductionForward>(
          "reduction", "generated", {in("x", {1, 80000}), out("y", {1, 1}), out("index", {1, 1}, i64)},
          [=](Ts t) {
            return ReductionDesc{"max", t[0], {t[1], t[2]}};
          },
          [=](const ReductionForward& plan, St st, Ts t, Ws ws) {
            plan.run(st, t[0], {}, {t[1], t[2]}, ws);
          },
          [=](St st, Ts t, Op options, Ws ws) {
            reduction(st, "max", t[0], {}, {t[1], t[2]}, options, ws);
          }),
      planned<ReductionBackward>(
          "reduction_backward", "generated",
          {in("dy", {6, 1}), in("x", {6, 20}), in("y", {6, 1}), out("dx", {6, 20})},
          [=](Ts t) {
            return ReductionBackwardDesc{"amax", {t[0]}, TensorDesc(t[1]), {TensorDesc(t[2])}, t[3]};
          },
          [=](const ReductionBackward& plan, St st, Ts t, Ws ws) {
            plan.run(st, {t[0]}, t[1], {t[2]}, {}, t[3], ws);
          },
          [=](St st, Ts t, Op options, Ws ws) {
            reduction_backward(st, "amax", {t[0]}, t[1], {t[2]}, {}, t[3], options, ws);
          }),
      {"pointwise",
       "cpu",
       {in("x", {6, 20}), out("y", {6, 20})},
       [](Ts t, Op options) {
         const auto plan =
             std::make_shared<const Pointwise>(t[0].context(), std::vector<TensorDesc>{t[0]},
                                               std::vector<TensorDesc>{t[1]}, 1, "y0 = s0 * x0", options);
         return PlannedOperator::Made{plan, [=](St st, Ws ws) { plan->run(st, {t[0]}, {t[1]}, {2.0}, ws); }};
       },
       [](St st, Ts t, Op options, Ws ws) {
         pointwise(st, {t[0]}, {t[1]}, {2.0}, "y0 = s0 * x0", options, ws);
       }},
      reduce_by("cpu"),
      reduce_by("gpu"),
  };
}

}  // namespace dlprim::test
