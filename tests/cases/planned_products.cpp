// Plans and calls of matrix products and convolutions.
#include <dlprim/conv.hpp>
#include <dlprim/gemm.hpp>

#include "cases/planned.hpp"

namespace dlprim::test {

using namespace planning;

std::vector<PlannedOperator> planned_products() {
  const ConvParams params{{}, {1}};
  const Shape x{2, 3, 6, 8}, w{4, 3, 3, 3}, y{2, 4, 6, 8};
  return {
      planned<Gemm>(
          "gemm", "fma", {in("a", {6, 200}), in("b", {200, 5}), out("c", {6, 5})},
          [](Ts t) {
            return GemmDesc{t[0], t[1], t[2]};
          },
          [](const Gemm& plan, St st, Ts t, Ws ws) { plan.run(st, t[0], t[1], {}, t[2], ws); },
          [](St st, Ts t, Op options, Ws ws) { gemm(st, t[0], t[1], {}, {}, t[2], options, ws); }),
      planned<Conv>(
          "conv", "fma", {in("x", x), in("w", w), out("y", y)},
          [=](Ts t) {
            return ConvDesc{t[0], t[1], t[2], params};
          },
          [](const Conv& plan, St st, Ts t, Ws ws) { plan.run(st, t[0], t[1], {}, t[2], ws); },
          [=](St st, Ts t, Op options, Ws ws) { conv(st, t[0], t[1], {}, params, t[2], options, ws); }),
      planned<ConvBackwardData>(
          "conv_backward_data", "fma", {in("dy", y), in("w", w), out("dx", x)},
          [=](Ts t) {
            return ConvBackwardDataDesc{t[0], t[1], t[2], params};
          },
          [](const ConvBackwardData& plan, St st, Ts t, Ws ws) { plan.run(st, t[0], t[1], t[2], ws); },
          [=](St st, Ts t, Op options, Ws ws) {
            conv_backward_data(st, t[0], t[1], params, t[2], options, ws);
          }),
      planned<ConvBackwardFilter>(
          "conv_backward_filter", "fma", {in("x", x), in("dy", y), out("dw", w)},
          [=](Ts t) {
            return ConvBackwardFilterDesc{t[0], t[1], t[2], params};
          },
          [](const ConvBackwardFilter& plan, St st, Ts t, Ws ws) { plan.run(st, t[0], t[1], {}, t[2], ws); },
          [=](St st, Ts t, Op options, Ws ws) {
            conv_backward_filter(st, t[0], t[1], params, t[2], options, ws);
          }),
      planned<ConvBackwardFilter>(
          "conv_backward_filter add", "naive", {in("x", x), in("dy", y), in("old", w), out("dw", w)},
          [=](Ts t) {
            return ConvBackwardFilterDesc{t[0], t[1], t[3], params, Write::add};
          },
          [](const ConvBackwardFilter& plan, St st, Ts t, Ws ws) {
            plan.run(st, t[0], t[1], {}, renewed(st, t[2], t[3]), ws);
          },
          [=](St st, Ts t, Op options, Ws ws) {
            conv_backward_filter(st, t[0], t[1], params, renewed(st, t[2], t[3]), Write::add, options, ws);
          }),
  };
}

}  // namespace dlprim::test
