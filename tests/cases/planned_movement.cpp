// Plans and calls that move elements, or make them of their places.
#include <dlprim/copy.hpp>
#include <dlprim/movement.hpp>
#include <dlprim/patterns.hpp>

#include "cases/planned.hpp"

namespace dlprim::test {

using namespace planning;

std::vector<PlannedOperator> planned_movement() {
  return {
      planned<Copy>(
          "copy", "generated", {in("x", {6, 20}), out("y", {6, 20}, i64)},
          [=](Ts t) {
            return CopyDesc{t[0], t[1]};
          },
          [](const Copy& plan, St st, Ts t, Ws ws) { plan.run(st, t[0], t[1], ws); },
          [=](St st, Ts t, Op options, Ws ws) { copy(st, t[0], t[1], options, ws); }),
      planned<Fill>(
          "fill", "generated", {out("y", {6, 20})}, [=](Ts t) { return FillDesc{t[0]}; },
          [](const Fill& plan, St st, Ts t, Ws ws) { plan.run(st, 3, t[0], ws); },
          [=](St st, Ts t, Op options, Ws ws) { fill(st, 3, t[0], options, ws); }),
      planned<Concat>(
          "concat", "words", {in("a", {6, 20}), in("b", {6, 3}), out("y", {6, 23})},
          [=](Ts t) {
            return ConcatDesc{{t[0], t[1]}, t[2], 1};
          },
          [](const Concat& plan, St st, Ts t, Ws ws) {
            plan.run(st, {t[0], t[1]}, t[2], ws);
          },
          [=](St st, Ts t, Op options, Ws ws) {
            concat(st, {t[0], t[1]}, 1, t[2], options, ws);
          }),
      planned<SliceBackward>(
          "slice_backward", "direct", {in("dy", {6, 5}), out("dx", {6, 10})},
          [=](Ts t) { return SliceBackwardDesc{t[0], t[1], 1, 0, 10, 2}; },
          [](const SliceBackward& plan, St st, Ts t, Ws ws) { plan.run(st, t[0], t[1], ws); },
          [=](St st, Ts t, Op options, Ws ws) { slice_backward(st, t[0], 1, 0, 10, 2, t[1], options, ws); }),
      planned<Tile>(
          "tile", "copy", {in("x", {6, 5}), out("y", {6, 15})},
          [=](Ts t) {
            return TileDesc{t[0], t[1]};
          },
          [](const Tile& plan, St st, Ts t, Ws ws) { plan.run(st, t[0], t[1], ws); },
          [=](St st, Ts t, Op options, Ws ws) { tile(st, t[0], t[1], options, ws); }),
      planned<TileBackward>(
          "tile_backward", "generated", {in("dy", {40000, 2}), out("dx", {1, 2})},
          [=](Ts t) {
            return TileBackwardDesc{t[0], t[1]};
          },
          [](const TileBackward& plan, St st, Ts t, Ws ws) { plan.run(st, t[0], t[1], ws); },
          [=](St st, Ts t, Op options, Ws ws) { tile_backward(st, t[0], t[1], options, ws); }),
      planned<Flip>(
          "flip", "direct", {in("x", {6, 20}), out("y", {6, 20})},
          [=](Ts t) {
            return FlipDesc{t[0], t[1], {1}};
          },
          [](const Flip& plan, St st, Ts t, Ws ws) { plan.run(st, t[0], t[1], ws); },
          [=](St st, Ts t, Op options, Ws ws) { flip(st, t[0], {1}, t[1], options, ws); }),
      planned<Roll>(
          "roll", "copies", {in("x", {6, 20}), out("y", {6, 20})},
          [=](Ts t) {
            return RollDesc{t[0], t[1], {3}, {1}};
          },
          [](const Roll& plan, St st, Ts t, Ws ws) { plan.run(st, t[0], t[1], ws); },
          [=](St st, Ts t, Op options, Ws ws) { roll(st, t[0], {3}, {1}, t[1], options, ws); }),
      planned<Triangle>(
          "tril", "generated", {in("x", {6, 20}), out("y", {6, 20})},
          [=](Ts t) {
            return TriangleDesc{t[0], t[1], 2, false};
          },
          [](const Triangle& plan, St st, Ts t, Ws ws) { plan.run(st, t[0], t[1], ws); },
          [=](St st, Ts t, Op options, Ws ws) { tril(st, t[0], 2, t[1], options, ws); }),
      planned<Triangle>(
          "triu", "generated", {in("x", {6, 20}), out("y", {6, 20})},
          [=](Ts t) {
            return TriangleDesc{t[0], t[1], -2, true};
          },
          [](const Triangle& plan, St st, Ts t, Ws ws) { plan.run(st, t[0], t[1], ws); },
          [=](St st, Ts t, Op options, Ws ws) { triu(st, t[0], -2, t[1], options, ws); }),
      planned<Eye>(
          "eye", "fills", {out("y", {6, 20})},
          [=](Ts t) {
            return EyeDesc{t[0], 1};
          },
          [](const Eye& plan, St st, Ts t, Ws ws) { plan.run(st, t[0], ws); },
          [=](St st, Ts t, Op options, Ws ws) { eye(st, 1, t[0], options, ws); }),
      planned<Arange>(
          "arange", "direct", {out("y", {20})}, [=](Ts t) { return ArangeDesc{t[0]}; },
          [](const Arange& plan, St st, Ts t, Ws ws) { plan.run(st, 3, 2, t[0], ws); },
          [=](St st, Ts t, Op options, Ws ws) { arange(st, 3, 2, t[0], options, ws); }),
      planned<Linspace>(
          "linspace", "direct", {out("y", {20})}, [=](Ts t) { return LinspaceDesc{t[0]}; },
          [](const Linspace& plan, St st, Ts t, Ws ws) { plan.run(st, 0, 1, t[0], ws); },
          [=](St st, Ts t, Op options, Ws ws) { linspace(st, 0, 1, t[0], options, ws); }),
      planned<OneHot>(
          "one_hot", "generated", {in("index", {6}, i64), out("y", {6, 20})},
          [=](Ts t) {
            return OneHotDesc{t[0], t[1]};
          },
          [](const OneHot& plan, St st, Ts t, Ws ws) { plan.run(st, t[0], t[1], ws); },
          [=](St st, Ts t, Op options, Ws ws) { one_hot(st, t[0], t[1], options, ws); }),
  };
}

}  // namespace dlprim::test
