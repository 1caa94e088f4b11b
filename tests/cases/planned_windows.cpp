// Plans and calls over windows and places of images.
#include <dlprim/affine_grid.hpp>
#include <dlprim/grid_sample.hpp>
#include <dlprim/interpolate.hpp>
#include <dlprim/max_unpool.hpp>
#include <dlprim/pad.hpp>
#include <dlprim/pixel_shuffle.hpp>
#include <dlprim/pool.hpp>

#include "cases/planned.hpp"

namespace dlprim::test {

using namespace planning;

std::vector<PlannedOperator> planned_windows() {
  const PoolParams halves{PoolMode::max, {2, 2}}, whole = global_pool(PoolMode::average, 2);
  const InterpolateParams smooth{InterpolateMode::cubic, false, true};
  const PadParams around{{0, 0, 1}, {0, 0, 1}, PadMode::circular};
  return {
      planned<Pool>(
          "pool", "direct",
          {in("x", {2, 3, 6, 8}), out("y", {2, 3, 3, 4}), out("indices", {2, 3, 3, 4}, i64)},
          [=](Ts t) {
            return PoolDesc{t[0], t[1], halves, TensorDesc(t[2])};
          },
          [](const Pool& plan, St st, Ts t, Ws ws) { plan.run(st, t[0], t[1], t[2], ws); },
          [=](St st, Ts t, Op options, Ws ws) { pool(st, t[0], halves, t[1], t[2], options, ws); }),
      planned<Pool>(
          "pool of the whole plane", "generated", {in("x", {2, 3, 60, 80}), out("y", {2, 3, 1, 1})},
          [=](Ts t) {
            return PoolDesc{t[0], t[1], whole, {}};
          },
          [](const Pool& plan, St st, Ts t, Ws ws) { plan.run(st, t[0], t[1], {}, ws); },
          [=](St st, Ts t, Op options, Ws ws) { pool(st, t[0], whole, t[1], {}, options, ws); }),
      planned<PoolBackward>(
          "pool_backward", "direct",
          {in("dy", {2, 3, 3, 4}), in("indices", {2, 3, 3, 4}, i64), out("dx", {2, 3, 6, 8})},
          [=](Ts t) { return PoolBackwardDesc{t[0], t[2], halves, TensorDesc(t[1]), {}, {}}; },
          [](const PoolBackward& plan, St st, Ts t, Ws ws) {
            plan.run(st, t[0], {t[1], {}, {}}, t[2], ws);
          },
          [=](St st, Ts t, Op options, Ws ws) {
            pool_backward(st, t[0], {t[1], {}, {}}, halves, t[2], options, ws);
          }),
      planned<MaxUnpool>(
          "max_unpool", "claims",
          {in("x", {2, 3, 3, 4}), in("indices", {2, 3, 3, 4}, i64), out("y", {2, 3, 6, 8})},
          [=](Ts t) {
            return MaxUnpoolDesc{t[0], t[1], t[2], 2};
          },
          [](const MaxUnpool& plan, St st, Ts t, Ws ws) { plan.run(st, t[0], t[1], t[2], ws); },
          [=](St st, Ts t, Op options, Ws ws) { max_unpool(st, t[0], t[1], 2, t[2], options, ws); }),
      planned<MaxUnpoolBackward>(
          "max_unpool_backward", "direct",
          {in("dy", {2, 3, 6, 8}), in("indices", {2, 3, 3, 4}, i64), out("dx", {2, 3, 3, 4})},
          [=](Ts t) {
            return MaxUnpoolBackwardDesc{t[0], t[1], t[2], 2};
          },
          [](const MaxUnpoolBackward& plan, St st, Ts t, Ws ws) { plan.run(st, t[0], t[1], t[2], ws); },
          [=](St st, Ts t, Op options, Ws ws) { max_unpool_backward(st, t[0], t[1], 2, t[2], options, ws); }),
      planned<Interpolate>(
          "interpolate", "direct", {in("x", {2, 3, 40, 50}), out("y", {2, 3, 7, 8})},
          [=](Ts t) {
            return InterpolateDesc{t[0], t[1], smooth};
          },
          [](const Interpolate& plan, St st, Ts t, Ws ws) { plan.run(st, t[0], t[1], ws); },
          [=](St st, Ts t, Op options, Ws ws) { interpolate(st, t[0], smooth, t[1], options, ws); }),
      planned<InterpolateBackward>(
          "interpolate_backward", "direct", {in("dy", {2, 3, 7, 8}), out("dx", {2, 3, 40, 50})},
          [=](Ts t) {
            return InterpolateBackwardDesc{t[0], t[1], smooth};
          },
          [](const InterpolateBackward& plan, St st, Ts t, Ws ws) { plan.run(st, t[0], t[1], ws); },
          [=](St st, Ts t, Op options, Ws ws) { interpolate_backward(st, t[0], smooth, t[1], options, ws); }),
      planned<GridSample>(
          "grid_sample", "direct", {in("x", {2, 3, 4, 5}), in("grid", {2, 6, 7, 2}), out("y", {2, 3, 6, 7})},
          [=](Ts t) {
            return GridSampleDesc{t[0], t[1], t[2], {}};
          },
          [](const GridSample& plan, St st, Ts t, Ws ws) { plan.run(st, t[0], t[1], t[2], ws); },
          [=](St st, Ts t, Op options, Ws ws) { grid_sample(st, t[0], t[1], {}, t[2], options, ws); }),
      planned<GridSampleBackwardInput>(
          "grid_sample_backward_input", "direct",
          {in("dy", {2, 3, 6, 7}), in("grid", {2, 6, 7, 2}), out("dx", {2, 3, 4, 5})},
          [=](Ts t) {
            return GridSampleBackwardInputDesc{t[0], t[1], t[2], {}};
          },
          [](const GridSampleBackwardInput& plan, St st, Ts t, Ws ws) { plan.run(st, t[0], t[1], t[2], ws); },
          [=](St st, Ts t, Op options, Ws ws) {
            grid_sample_backward_input(st, t[0], t[1], {}, t[2], options, ws);
          }),
      planned<GridSampleBackwardGrid>(
          "grid_sample_backward_grid", "direct",
          {in("dy", {2, 3, 6, 7}), in("x", {2, 3, 4, 5}), in("grid", {2, 6, 7, 2}),
           out("dgrid", {2, 6, 7, 2})},
          [=](Ts t) {
            return GridSampleBackwardGridDesc{t[0], t[1], t[2], t[3], {}};
          },
          [](const GridSampleBackwardGrid& plan, St st, Ts t, Ws ws) {
            plan.run(st, t[0], t[1], t[2], t[3], ws);
          },
          [=](St st, Ts t, Op options, Ws ws) {
            grid_sample_backward_grid(st, t[0], t[1], t[2], {}, t[3], options, ws);
          }),
      planned<AffineGrid>(
          "affine_grid", "direct", {in("theta", {2, 2, 3}), out("grid", {2, 4, 5, 2})},
          [=](Ts t) {
            return AffineGridDesc{t[0], t[1], true};
          },
          [](const AffineGrid& plan, St st, Ts t, Ws ws) { plan.run(st, t[0], t[1], ws); },
          [=](St st, Ts t, Op options, Ws ws) { affine_grid(st, t[0], true, t[1], options, ws); }),
      planned<AffineGridBackward>(
          "affine_grid_backward", "generated", {in("dgrid", {2, 4, 5, 2}), out("dtheta", {2, 2, 3})},
          [=](Ts t) {
            return AffineGridBackwardDesc{t[0], t[1], true};
          },
          [](const AffineGridBackward& plan, St st, Ts t, Ws ws) { plan.run(st, t[0], t[1], ws); },
          [=](St st, Ts t, Op options, Ws ws) { affine_grid_backward(st, t[0], true, t[1], options, ws); }),
      planned<Pad>(
          "pad", "direct", {in("x", {2, 4, 5}), out("y", {2, 4, 7})},
          [=](Ts t) {
            return PadDesc{t[0], t[1], around};
          },
          [](const Pad& plan, St st, Ts t, Ws ws) { plan.run(st, t[0], 0, t[1], ws); },
          [=](St st, Ts t, Op options, Ws ws) { pad(st, t[0], around, 0, t[1], options, ws); }),
      planned<PadBackward>(
          "pad_backward", "direct", {in("dy", {2, 4, 7}), out("dx", {2, 4, 5})},
          [=](Ts t) {
            return PadBackwardDesc{t[0], t[1], around};
          },
          [](const PadBackward& plan, St st, Ts t, Ws ws) { plan.run(st, t[0], t[1], ws); },
          [=](St st, Ts t, Op options, Ws ws) { pad_backward(st, t[0], around, t[1], options, ws); }),
      planned<PixelShuffle>(
          "pixel_shuffle", "copy", {in("x", {2, 12, 4, 5}), out("y", {2, 3, 8, 10})},
          [=](Ts t) {
            return PixelShuffleDesc{t[0], t[1], 2};
          },
          [](const PixelShuffle& plan, St st, Ts t, Ws ws) { plan.run(st, t[0], t[1], ws); },
          [=](St st, Ts t, Op options, Ws ws) { pixel_shuffle(st, t[0], 2, t[1], options, ws); }),
      planned<PixelUnshuffle>(
          "pixel_unshuffle", "copy", {in("x", {2, 3, 8, 10}), out("y", {2, 12, 4, 5})},
          [=](Ts t) {
            return PixelUnshuffleDesc{t[0], t[1], 2};
          },
          [](const PixelUnshuffle& plan, St st, Ts t, Ws ws) { plan.run(st, t[0], t[1], ws); },
          [=](St st, Ts t, Op options, Ws ws) { pixel_unshuffle(st, t[0], 2, t[1], options, ws); }),
      planned<ChannelShuffle>(
          "channel_shuffle", "copy", {in("x", {2, 4, 4, 5}), out("y", {2, 4, 4, 5})},
          [=](Ts t) {
            return ChannelShuffleDesc{t[0], t[1], 2};
          },
          [](const ChannelShuffle& plan, St st, Ts t, Ws ws) { plan.run(st, t[0], t[1], ws); },
          [=](St st, Ts t, Op options, Ws ws) { channel_shuffle(st, t[0], 2, t[1], options, ws); }),
  };
}

}  // namespace dlprim::test
