// Calls of operators: products, and operators over windows and places of images.
#include <dlprim/affine_grid.hpp>
#include <dlprim/conv.hpp>
#include <dlprim/gemm.hpp>
#include <dlprim/grid_sample.hpp>
#include <dlprim/interpolate.hpp>
#include <dlprim/linear.hpp>
#include <dlprim/max_unpool.hpp>
#include <dlprim/pad.hpp>
#include <dlprim/pixel_shuffle.hpp>
#include <dlprim/pool.hpp>

#include "cases/operators.hpp"

namespace dlprim::test {
namespace {

using St = const Stream&;
using Ts = const Tensors&;
using Sz = const Sizes&;
constexpr DType i64 = DType::i64;

/// `factor` times as many.
int64_t times(int64_t factor, int64_t size) {
  return factor * size;
}

}  // namespace

std::vector<OperatorCall> products_and_windows() {
  const auto x4 = [](Sz s) { return Shape{s[0], s[1], s[2], s[3]}; };
  const PoolParams halves{PoolMode::max, {2, 2}};
  return {
      {"gemm",
       {5, 6, 7},
       [](Sz s) {
         return Operands{in("a", {s[0], s[2]}), in("b", {s[2], s[1]}), out("c", {s[0], s[1]}),
                         in("bias", {s[1]})};
       },
       [](St st, Ts t) { gemm(st, t[0], t[1], t[3], {}, t[2]); }},
      {"gemm of a batch",
       {5, 6, 7, 3},
       [](Sz s) {
         return Operands{in("a", {s[3], s[0], s[2]}), in("b", {s[3], s[2], s[1]}),
                         out("c", {s[3], s[0], s[1]})};
       },
       [](St st, Ts t) { gemm(st, t[0], t[1], {}, {}, t[2]); }},
      {"linear",
       {5, 6, 7},
       [](Sz s) {
         return Operands{in("x", {s[0], s[2]}), in("w", {s[1], s[2]}), in("bias", {s[1]}),
                         out("y", {s[0], s[1]})};
       },
       [](St st, Ts t) { linear(st, t[0], t[1], t[2], Activation::relu, t[3]); }},
      {"linear_backward_data",
       {5, 6, 7},
       [](Sz s) {
         return Operands{in("dy", {s[0], s[1]}), in("w", {s[1], s[2]}), out("dx", {s[0], s[2]})};
       },
       [](St st, Ts t) { linear_backward_data(st, t[0], t[1], t[2]); }},
      {"linear_backward_weights",
       {5, 6, 7},
       [](Sz s) {
         return Operands{in("x", {s[0], s[2]}), in("dy", {s[0], s[1]}), out("dw", {s[1], s[2]})};
       },
       [](St st, Ts t) { linear_backward_weights(st, t[0], t[1], t[2]); }},
      {"linear_backward_bias",
       {5, 6},
       [](Sz s) {
         return Operands{in("dy", {s[0], s[1]}), out("dbias", {s[1]})};
       },
       [](St st, Ts t) { linear_backward_bias(st, t[0], t[1]); }},
      {"conv",
       {2, 3, 6, 7, 4},
       [=](Sz s) {
         return Operands{in("x", x4(s)), in("w", {s[4], s[1], 3, 3}), out("y", {s[0], s[4], s[2], s[3]}),
                         in("bias", {s[4]})};
       },
       [](St st, Ts t) {
         conv(st, t[0], t[1], t[3], {{}, {1, 1}, {1, 1}}, t[2]);
       }},
      {"conv_backward_data",
       {2, 3, 6, 7, 4},
       [=](Sz s) {
         return Operands{in("dy", {s[0], s[4], s[2], s[3]}), in("w", {s[4], s[1], 3, 3}), out("dx", x4(s))};
       },
       [](St st, Ts t) {
         conv_backward_data(st, t[0], t[1], {{}, {1, 1}, {1, 1}}, t[2]);
       }},
      {"conv_backward_filter",
       {2, 3, 6, 7, 4},
       [=](Sz s) {
         return Operands{in("x", x4(s)), in("dy", {s[0], s[4], s[2], s[3]}), out("dw", {s[4], s[1], 3, 3})};
       },
       [](St st, Ts t) {
         conv_backward_filter(st, t[0], t[1], {{}, {1, 1}, {1, 1}}, t[2]);
       }},
      {"conv_backward_bias",
       {2, 3, 6, 7},
       [=](Sz s) {
         return Operands{in("dy", x4(s)), out("dbias", {s[1]})};
       },
       [](St st, Ts t) { conv_backward_bias(st, t[0], t[1]); }},
      {"pool",
       {2, 3, 3, 4},
       [](Sz s) {
         return Operands{in("x", {s[0], s[1], 2 * s[2], 2 * s[3]}), out("y", {s[0], s[1], s[2], s[3]}),
                         out("indices", {s[0], s[1], s[2], s[3]}, i64)};
       },
       [=](St st, Ts t) { pool(st, t[0], halves, t[1], t[2]); }},
      {"pool_backward",
       {2, 3, 3, 4},
       [](Sz s) {
         return Operands{in("dy", {s[0], s[1], s[2], s[3]}), in("indices", {s[0], s[1], s[2], s[3]}, i64),
                         out("dx", {s[0], s[1], 2 * s[2], 2 * s[3]})};
       },
       [=](St st, Ts t) {
         pool_backward(st, t[0], {t[1], {}, {}}, halves, t[2]);
       }},
      {"max_unpool",
       {2, 3, 3, 4},
       [](Sz s) {
         return Operands{in("x", {s[0], s[1], s[2], s[3]}), in("indices", {s[0], s[1], s[2], s[3]}, i64),
                         out("y", {s[0], s[1], 2 * s[2], 2 * s[3]})};
       },
       [](St st, Ts t) { max_unpool(st, t[0], t[1], 2, t[2]); }},
      {"max_unpool_backward",
       {2, 3, 3, 4},
       [](Sz s) {
         return Operands{in("dy", {s[0], s[1], 2 * s[2], 2 * s[3]}),
                         in("indices", {s[0], s[1], s[2], s[3]}, i64), out("dx", {s[0], s[1], s[2], s[3]})};
       },
       [](St st, Ts t) { max_unpool_backward(st, t[0], t[1], 2, t[2]); }},
      {"interpolate",
       {2, 3, 4, 5, 7, 8},
       [=](Sz s) {
         return Operands{in("x", x4(s)), out("y", {s[0], s[1], s[4], s[5]})};
       },
       [](St st, Ts t) { interpolate(st, t[0], {InterpolateMode::linear}, t[1]); }},
      {"interpolate_backward",
       {2, 3, 4, 5, 7, 8},
       [=](Sz s) {
         return Operands{in("dy", {s[0], s[1], s[4], s[5]}), out("dx", x4(s))};
       },
       [](St st, Ts t) { interpolate_backward(st, t[0], {InterpolateMode::linear}, t[1]); }},
      {"affine_grid",
       {2, 4, 5},
       [](Sz s) {
         return Operands{in("theta", {s[0], 2, 3}), out("grid", {s[0], s[1], s[2], 2})};
       },
       [](St st, Ts t) { affine_grid(st, t[0], false, t[1]); }},
      {"affine_grid_backward",
       {2, 4, 5},
       [](Sz s) {
         return Operands{in("dgrid", {s[0], s[1], s[2], 2}), out("dtheta", {s[0], 2, 3})};
       },
       [](St st, Ts t) { affine_grid_backward(st, t[0], false, t[1]); }},
      {"grid_sample",
       {2, 3, 4, 5, 6, 7},
       [=](Sz s) {
         return Operands{in("x", x4(s)), in("grid", {s[0], s[4], s[5], 2}),
                         out("y", {s[0], s[1], s[4], s[5]})};
       },
       [](St st, Ts t) { grid_sample(st, t[0], t[1], {}, t[2]); }},
      {"grid_sample_backward_input",
       {2, 3, 4, 5, 6, 7},
       [=](Sz s) {
         return Operands{in("dy", {s[0], s[1], s[4], s[5]}), in("grid", {s[0], s[4], s[5], 2}),
                         out("dx", x4(s))};
       },
       [](St st, Ts t) { grid_sample_backward_input(st, t[0], t[1], {}, t[2]); }},
      {"grid_sample_backward_grid",
       {2, 3, 4, 5, 6, 7},
       [=](Sz s) {
         return Operands{in("dy", {s[0], s[1], s[4], s[5]}), in("x", x4(s)),
                         in("grid", {s[0], s[4], s[5], 2}), out("dgrid", {s[0], s[4], s[5], 2})};
       },
       [](St st, Ts t) { grid_sample_backward_grid(st, t[0], t[1], t[2], {}, t[3]); }},
      {"pad",
       {2, 4, 5},
       [](Sz s) {
         return Operands{in("x", {s[0], s[1], s[2]}), out("y", {s[0], s[1], s[2] + 2})};
       },
       [](St st, Ts t) {
         pad(st, t[0], {{0, 0, 1}, {0, 0, 1}, PadMode::circular}, 0, t[1]);
       }},
      {"pad_backward",
       {2, 4, 5},
       [](Sz s) {
         return Operands{in("dy", {s[0], s[1], s[2] + 2}), out("dx", {s[0], s[1], s[2]})};
       },
       [](St st, Ts t) {
         pad_backward(st, t[0], {{0, 0, 1}, {0, 0, 1}, PadMode::circular}, t[1]);
       }},
      {"pixel_shuffle",
       {2, 3, 4, 5},
       [=](Sz s) {
         return Operands{in("x", {s[0], times(4, s[1]), s[2], s[3]}),
                         out("y", {s[0], s[1], 2 * s[2], 2 * s[3]})};
       },
       [](St st, Ts t) { pixel_shuffle(st, t[0], 2, t[1]); }},
      {"pixel_unshuffle",
       {2, 3, 4, 5},
       [=](Sz s) {
         return Operands{in("x", {s[0], s[1], 2 * s[2], 2 * s[3]}),
                         out("y", {s[0], times(4, s[1]), s[2], s[3]})};
       },
       [](St st, Ts t) { pixel_unshuffle(st, t[0], 2, t[1]); }},
      {"channel_shuffle",
       {2, 4, 4, 5},
       [=](Sz s) {
         return Operands{in("x", x4(s)), out("y", x4(s))};
       },
       [](St st, Ts t) { channel_shuffle(st, t[0], 2, t[1]); }},
  };
}

}  // namespace dlprim::test
