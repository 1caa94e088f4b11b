// Plans and calls that read and write by index, or choose by a mask.
#include <dlprim/embedding.hpp>
#include <dlprim/gather.hpp>
#include <dlprim/index.hpp>
#include <dlprim/masked.hpp>

#include "cases/planned.hpp"

namespace dlprim::test {

using namespace planning;

std::vector<PlannedOperator> planned_choices() {
  const ScatterParams sum{ScatterReduce::sum, true};
  return {
      planned<Gather>(
          "gather", "direct", {in("x", {6, 20}), in("index", {6, 3}, i64), out("y", {6, 3})},
          [=](Ts t) {
            return GatherDesc{t[0], t[1], t[2], 1};
          },
          [](const Gather& plan, St st, Ts t, Ws ws) { plan.run(st, t[0], t[1], t[2], ws); },
          [=](St st, Ts t, Op options, Ws ws) { gather(st, t[0], t[1], 1, t[2], options, ws); }),
      planned<Gather>(
          "take_along", "direct", {in("x", {6, 20}), in("index", {6, 3}, i64), out("y", {6, 3})},
          [=](Ts t) {
            return GatherDesc{t[0], t[1], t[2], 1};
          },
          [](const Gather& plan, St st, Ts t, Ws ws) { plan.run(st, t[0], t[1], t[2], ws); },
          [=](St st, Ts t, Op options, Ws ws) { take_along(st, t[0], t[1], 1, t[2], options, ws); }),
      planned<Scatter>(
          "scatter", "sorted",
          {in("x", {6, 20}), in("index", {6, 3}, i64), in("src", {6, 3}), out("y", {6, 20})},
          [=](Ts t) { return ScatterDesc{TensorDesc(t[0]), t[1], t[2], t[3], 1, sum}; },
          [](const Scatter& plan, St st, Ts t, Ws ws) { plan.run(st, t[0], t[1], t[2], t[3], ws); },
          [=](St st, Ts t, Op options, Ws ws) { scatter(st, t[0], t[1], t[2], 1, sum, t[3], options, ws); }),
      planned<Scatter>(
          "gather_backward", "sorted", {in("dy", {6, 3}), in("index", {6, 3}, i64), out("dx", {6, 20})},
          [=](Ts t) { return ScatterDesc{{}, t[1], t[0], t[2], 1, sum}; },
          [](const Scatter& plan, St st, Ts t, Ws ws) { plan.run(st, {}, t[1], t[0], t[2], ws); },
          [=](St st, Ts t, Op options, Ws ws) { gather_backward(st, t[0], t[1], 1, t[2], options, ws); }),
      planned<Index>(
          "index", "direct", {in("x", {6, 20}), in("index", {3}, i64), out("y", {3, 20})},
          [=](Ts t) {
            return IndexDesc{t[0], {TensorDesc(t[1])}, t[2]};
          },
          [](const Index& plan, St st, Ts t, Ws ws) { plan.run(st, t[0], {t[1]}, t[2], ws); },
          [=](St st, Ts t, Op options, Ws ws) { index(st, t[0], {t[1]}, t[2], options, ws); }),
      planned<Index>(
          "index_select", "direct", {in("x", {6, 20}), in("index", {3}, i64), out("y", {6, 3})},
          [=](Ts t) {
            return IndexDesc{t[0], {std::nullopt, TensorDesc(t[1])}, t[2]};
          },
          [](const Index& plan, St st, Ts t, Ws ws) {
            plan.run(st, t[0], {{}, t[1]}, t[2], ws);
          },
          [=](St st, Ts t, Op options, Ws ws) { index_select(st, t[0], t[1], 1, t[2], options, ws); }),
      planned<IndexPut>(
          "index_put", "sorted",
          {in("x", {6, 20}), in("index", {3}, i64), in("values", {3, 20}), out("y", {6, 20})},
          [=](Ts t) {
            return IndexPutDesc{TensorDesc(t[0]), {TensorDesc(t[1])}, t[2], t[3], sum};
          },
          [](const IndexPut& plan, St st, Ts t, Ws ws) { plan.run(st, t[0], {t[1]}, t[2], t[3], ws); },
          [=](St st, Ts t, Op options, Ws ws) { index_put(st, t[0], {t[1]}, t[2], sum, t[3], options, ws); }),
      planned<IndexPut>(
          "index_write", "sorted",
          {in("x", {6, 20}), in("index", {3}, i64), in("src", {3, 20}), out("y", {6, 20})},
          [=](Ts t) {
            return IndexPutDesc{TensorDesc(t[0]), {TensorDesc(t[1])}, t[2], t[3], sum};
          },
          [](const IndexPut& plan, St st, Ts t, Ws ws) { plan.run(st, t[0], {t[1]}, t[2], t[3], ws); },
          [=](St st, Ts t, Op options, Ws ws) {
            index_write(st, t[0], t[1], t[2], 0, sum, t[3], options, ws);
          }),
      planned<IndexPut>(
          "index_backward", "sorted", {in("dy", {3, 20}), in("index", {3}, i64), out("dx", {6, 20})},
          [=](Ts t) {
            return IndexPutDesc{{}, {TensorDesc(t[1])}, t[0], t[2], sum};
          },
          [](const IndexPut& plan, St st, Ts t, Ws ws) { plan.run(st, {}, {t[1]}, t[0], t[2], ws); },
          [=](St st, Ts t, Op options, Ws ws) { index_backward(st, t[0], {t[1]}, t[2], options, ws); }),
      planned<IndexPut>(
          "index_select_backward", "sorted", {in("dy", {3, 20}), in("index", {3}, i64), out("dx", {6, 20})},
          [=](Ts t) {
            return IndexPutDesc{{}, {TensorDesc(t[1])}, t[0], t[2], sum};
          },
          [](const IndexPut& plan, St st, Ts t, Ws ws) { plan.run(st, {}, {t[1]}, t[0], t[2], ws); },
          [=](St st, Ts t, Op options, Ws ws) {
            index_select_backward(st, t[0], t[1], 0, t[2], options, ws);
          }),
      planned<Index>(
          "embedding", "direct", {in("w", {6, 20}), in("index", {3}, i64), out("y", {3, 20})},
          [=](Ts t) {
            return IndexDesc{t[0], {TensorDesc(t[1])}, t[2]};
          },
          [](const Index& plan, St st, Ts t, Ws ws) { plan.run(st, t[0], {t[1]}, t[2], ws); },
          [=](St st, Ts t, Op options, Ws ws) { embedding(st, t[0], t[1], t[2], options, ws); }),
      planned<IndexPut>(
          "embedding_backward", "sorted", {in("dy", {3, 20}), in("index", {3}, i64), out("dw", {6, 20})},
          [=](Ts t) { return IndexPutDesc{{}, {TensorDesc(t[1])}, t[0], t[2], sum, 1}; },
          [](const IndexPut& plan, St st, Ts t, Ws ws) { plan.run(st, {}, {t[1]}, t[0], t[2], ws); },
          [=](St st, Ts t, Op options, Ws ws) {
            embedding_backward(st, t[0], t[1], {1, false}, t[2], options, ws);
          }),
      planned<MaskedSelect>(
          "masked_select", "tiles",
          {in("x", {6, 20}), in("mask", {6, 20}, u8), out("y", {120}), out("count", {1}, i64)},
          [=](Ts t) {
            return MaskedSelectDesc{t[0], t[1], t[2], t[3]};
          },
          [](const MaskedSelect& plan, St st, Ts t, Ws ws) { plan.run(st, t[0], t[1], t[2], t[3], ws); },
          [=](St st, Ts t, Op options, Ws ws) { masked_select(st, t[0], t[1], t[2], t[3], options, ws); }),
      planned<MaskedSelectBackward>(
          "masked_select_backward", "chunks", {in("dy", {7}), in("mask", {6, 20}, u8), out("dx", {6, 20})},
          [=](Ts t) {
            return MaskedSelectBackwardDesc{t[0], t[1], t[2]};
          },
          [](const MaskedSelectBackward& plan, St st, Ts t, Ws ws) { plan.run(st, t[0], t[1], t[2], ws); },
          [=](St st, Ts t, Op options, Ws ws) { masked_select_backward(st, t[0], t[1], t[2], options, ws); }),
      planned<Nonzero>(
          "nonzero", "tiles", {in("x", {6, 20}), out("y", {70, 2}, i64), out("count", {1}, i64)},
          [=](Ts t) {
            return NonzeroDesc{t[0], t[1], t[2]};
          },
          [](const Nonzero& plan, St st, Ts t, Ws ws) { plan.run(st, t[0], t[1], t[2], ws); },
          [=](St st, Ts t, Op options, Ws ws) { nonzero(st, t[0], t[1], t[2], options, ws); }),
      planned<MaskedFill>(
          "masked_fill", "generated", {in("x", {6, 20}), in("mask", {6, 20}, u8), out("y", {6, 20})},
          [=](Ts t) {
            return MaskedFillDesc{t[0], t[1], t[2]};
          },
          [](const MaskedFill& plan, St st, Ts t, Ws ws) { plan.run(st, t[0], t[1], 3, t[2], ws); },
          [=](St st, Ts t, Op options, Ws ws) { masked_fill(st, t[0], t[1], 3, t[2], options, ws); }),
  };
}

}  // namespace dlprim::test
