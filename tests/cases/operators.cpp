// The list of calls, by the headers' alphabet.
#include "cases/operators.hpp"

#include <dlprim/activation.hpp>
#include <dlprim/affine_grid.hpp>
#include <dlprim/batch_norm.hpp>
#include <dlprim/conv.hpp>
#include <dlprim/copy.hpp>
#include <dlprim/ctc_loss.hpp>
#include <dlprim/dropout.hpp>
#include <dlprim/elementwise.hpp>
#include <dlprim/embedding.hpp>
#include <dlprim/gather.hpp>
#include <dlprim/gemm.hpp>
#include <dlprim/gradients.hpp>
#include <dlprim/grid_sample.hpp>
#include <dlprim/group_norm.hpp>
#include <dlprim/histogram.hpp>
#include <dlprim/index.hpp>
#include <dlprim/instance_norm.hpp>
#include <dlprim/interpolate.hpp>
#include <dlprim/layer_norm.hpp>
#include <dlprim/linear.hpp>
#include <dlprim/loss.hpp>
#include <dlprim/masked.hpp>
#include <dlprim/max_unpool.hpp>
#include <dlprim/movement.hpp>
#include <dlprim/optimizer.hpp>
#include <dlprim/pad.hpp>
#include <dlprim/pixel_shuffle.hpp>
#include <dlprim/pointwise.hpp>
#include <dlprim/pool.hpp>
#include <dlprim/random.hpp>
#include <dlprim/reduction.hpp>
#include <dlprim/sampling.hpp>
#include <dlprim/scan.hpp>
#include <dlprim/searchsorted.hpp>
#include <dlprim/softmax.hpp>
#include <dlprim/sort.hpp>
#include <dlprim/unique.hpp>

namespace dlprim::test {
namespace {

using St = const Stream&;
using Ts = const Tensors&;
using Sz = const Sizes&;

Operand in(const char* name, const Shape& shape, DType dtype = DType::f32) {
  return {name, shape, dtype, false};
}
Operand out(const char* name, const Shape& shape, DType dtype = DType::f32) {
  return {name, shape, dtype, true};
}

constexpr DType i32 = DType::i32, i64 = DType::i64, u8 = DType::u8;

/// `factor` times as many.
int64_t times(int64_t factor, int64_t size) {
  return factor * size;
}

std::vector<OperatorCall> norms_and_losses() {
  const auto planes = [](Sz s) { return Shape{s[0], s[1], s[2], s[3]}; };
  return {
      {"batch_norm_training",
       {2, 3, 4, 5},
       [=](Sz s) {
         return Operands{in("x", planes(s)),          in("gamma", {s[1]}),        in("beta", {s[1]}),
                         out("running_mean", {s[1]}), out("running_var", {s[1]}), out("y", planes(s)),
                         out("mean", {s[1]}),         out("inv_std", {s[1]}),     in("residual", planes(s))};
       },
       [](St st, Ts t) {
         batch_norm_training(st, t[0], t[1], t[2], {}, t[3], t[4], t[5], t[6], t[7], t[8]);
       }},
      {"batch_norm_inference",
       {2, 3, 4, 5},
       [=](Sz s) {
         return Operands{in("x", planes(s)),         in("gamma", {s[1]}),       in("beta", {s[1]}),
                         in("running_mean", {s[1]}), in("running_var", {s[1]}), out("y", planes(s)),
                         in("residual", planes(s))};
       },
       [](St st, Ts t) { batch_norm_inference(st, t[0], t[1], t[2], t[3], t[4], {}, t[5], t[6]); }},
      {"batch_norm_backward",
       {2, 3, 4, 5},
       [=](Sz s) {
         return Operands{in("dy", planes(s)),        in("x", planes(s)),    in("gamma", {s[1]}),
                         in("mean", {s[1]}),         in("inv_std", {s[1]}), out("dx", planes(s)),
                         out("dgamma", {s[1]}),      out("dbeta", {s[1]}),  in("y", planes(s)),
                         out("dresidual", planes(s))};
       },
       [](St st, Ts t) {
         batch_norm_backward(st, t[0], t[1], t[2], t[3], t[4], t[5], t[6], t[7], Activation::relu, t[8],
                             t[9]);
       }},
      {"group_norm",
       {2, 4, 4, 5},
       [=](Sz s) {
         return Operands{in("x", planes(s)),  in("weight", {s[1]}),   in("bias", {s[1]}),
                         out("y", planes(s)), out("mean", {s[0], 2}), out("inv_std", {s[0], 2})};
       },
       [](St st, Ts t) { group_norm(st, t[0], 2, t[1], t[2], 1e-5, t[3], t[4], t[5]); }},
      {"group_norm_backward",
       {2, 4, 4, 5},
       [=](Sz s) {
         return Operands{in("dy", planes(s)),    in("x", planes(s)),       in("weight", {s[1]}),
                         in("mean", {s[0], 2}),  in("inv_std", {s[0], 2}), out("dx", planes(s)),
                         out("dweight", {s[1]}), out("dbias", {s[1]})};
       },
       [](St st, Ts t) { group_norm_backward(st, t[0], t[1], 2, t[2], t[3], t[4], t[5], t[6], t[7]); }},
      {"instance_norm",
       {2, 4, 4, 5},
       [=](Sz s) {
         return Operands{in("x", planes(s)),          in("weight", {s[1]}),        in("bias", {s[1]}),
                         out("running_mean", {s[1]}), out("running_var", {s[1]}),  out("y", planes(s)),
                         out("mean", {s[0], s[1]}),   out("inv_std", {s[0], s[1]})};
       },
       [](St st, Ts t) { instance_norm(st, t[0], t[1], t[2], {}, t[3], t[4], t[5], t[6], t[7]); }},
      {"instance_norm_backward",
       {2, 4, 4, 5},
       [=](Sz s) {
         return Operands{in("dy", planes(s)),      in("x", planes(s)),          in("weight", {s[1]}),
                         in("mean", {s[0], s[1]}), in("inv_std", {s[0], s[1]}), out("dx", planes(s)),
                         out("dweight", {s[1]}),   out("dbias", {s[1]})};
       },
       [](St st, Ts t) { instance_norm_backward(st, t[0], t[1], t[2], t[3], t[4], t[5], t[6], t[7]); }},
      {"layer_norm",
       {6, 20},
       [](Sz s) {
         return Operands{in("x", {s[0], s[1]}),  in("weight", {s[1]}),   in("bias", {s[1]}),
                         out("y", {s[0], s[1]}), out("mean", {s[0], 1}), out("inv_std", {s[0], 1})};
       },
       [](St st, Ts t) { layer_norm(st, t[0], 1, t[1], t[2], 1e-5, t[3], t[4], t[5]); }},
      {"layer_norm_backward",
       {6, 20},
       [](Sz s) {
         return Operands{in("dy", {s[0], s[1]}), in("x", {s[0], s[1]}),    in("weight", {s[1]}),
                         in("mean", {s[0], 1}),  in("inv_std", {s[0], 1}), out("dx", {s[0], s[1]}),
                         out("dweight", {s[1]}), out("dbias", {s[1]})};
       },
       [](St st, Ts t) { layer_norm_backward(st, t[0], t[1], 1, t[2], t[3], t[4], t[5], t[6], t[7]); }},
      {"rms_norm",
       {6, 20},
       [](Sz s) {
         return Operands{in("x", {s[0], s[1]}), in("weight", {s[1]}), out("y", {s[0], s[1]}),
                         out("inv_std", {s[0], 1})};
       },
       [](St st, Ts t) { rms_norm(st, t[0], 1, t[1], 1e-5, t[2], t[3]); }},
      {"rms_norm_backward",
       {6, 20},
       [](Sz s) {
         return Operands{in("dy", {s[0], s[1]}),   in("x", {s[0], s[1]}),   in("weight", {s[1]}),
                         in("inv_std", {s[0], 1}), out("dx", {s[0], s[1]}), out("dweight", {s[1]})};
       },
       [](St st, Ts t) { rms_norm_backward(st, t[0], t[1], 1, t[2], t[3], t[4], t[5]); }},
      {"softmax",
       {6, 20},
       [](Sz s) {
         return Operands{in("x", {s[0], s[1]}), out("y", {s[0], s[1]}), in("mask", {s[0], s[1]})};
       },
       [](St st, Ts t) { softmax(st, t[0], 1, t[1], t[2]); }},
      {"softmax_backward",
       {6, 20},
       [](Sz s) {
         return Operands{in("dy", {s[0], s[1]}), in("y", {s[0], s[1]}), out("dx", {s[0], s[1]})};
       },
       [](St st, Ts t) { softmax_backward(st, t[0], t[1], 1, t[2]); }},
      {"logsumexp",
       {6, 20},
       [](Sz s) {
         return Operands{in("x", {s[0], s[1]}), out("y", {s[0], 1})};
       },
       [](St st, Ts t) { logsumexp(st, t[0], 1, t[1]); }},
      {"logsumexp_backward",
       {6, 20},
       [](Sz s) {
         return Operands{in("dy", {s[0], 1}), in("x", {s[0], s[1]}), in("y", {s[0], 1}),
                         out("dx", {s[0], s[1]})};
       },
       [](St st, Ts t) { logsumexp_backward(st, t[0], t[1], t[2], 1, t[3]); }},
      {"loss",
       {6, 20},
       [](Sz s) {
         return Operands{in("x", {s[0], s[1]}), in("target", {s[0], s[1]}), out("y", {1})};
       },
       [](St st, Ts t) { loss(st, "mse", t[0], t[1], t[2]); }},
      {"loss_backward",
       {6, 20},
       [](Sz s) {
         return Operands{in("dy", {1}), in("x", {s[0], s[1]}), in("target", {s[0], s[1]}),
                         out("dx", {s[0], s[1]}), out("dtarget", {s[0], s[1]})};
       },
       [](St st, Ts t) { loss_backward(st, "mse", t[0], t[1], t[2], t[3], t[4]); }},
      {"nll_loss",
       {6, 20},
       [](Sz s) {
         return Operands{in("x", {s[0], s[1]}), in("target", {s[0]}, i64), out("loss", {1}),
                         in("weight", {s[1]})};
       },
       [](St st, Ts t) { nll_loss(st, t[0], t[1], t[2], {}, t[3]); }},
      {"nll_loss_backward",
       {6, 20},
       [](Sz s) {
         return Operands{in("dloss", {1}), in("target", {s[0]}, i64), out("dx", {s[0], s[1]}),
                         in("weight", {s[1]})};
       },
       [](St st, Ts t) { nll_loss_backward(st, t[0], t[1], t[2], {}, t[3]); }},
      {"cross_entropy",
       {6, 20},
       [](Sz s) {
         return Operands{in("x", {s[0], s[1]}), in("target", {s[0]}, i64), out("loss", {1}),
                         in("weight", {s[1]})};
       },
       [](St st, Ts t) { cross_entropy(st, t[0], t[1], t[2], {}, t[3]); }},
      {"cross_entropy_backward",
       {6, 20},
       [](Sz s) {
         return Operands{in("dloss", {1}), in("x", {s[0], s[1]}), in("target", {s[0]}, i64),
                         out("dx", {s[0], s[1]}), in("weight", {s[1]})};
       },
       [](St st, Ts t) { cross_entropy_backward(st, t[0], t[1], t[2], t[3], {}, t[4]); }},
      {"ctc_loss",
       {6, 3, 5, 4},
       [](Sz s) {
         return Operands{in("x", {s[0], s[1], s[2]}),
                         in("labels", {s[1], s[3]}, i64),
                         in("x_lengths", {s[1]}, i64),
                         in("label_lengths", {s[1]}, i64),
                         out("loss", {1}),
                         out("alpha", {s[1], s[0], 2 * s[3] + 1})};
       },
       [](St st, Ts t) {
         ctc_loss(st, {t[0], t[1], t[2], t[3]}, t[4], t[5]);
       }},
      {"ctc_loss_backward",
       {6, 3, 5, 4},
       [](Sz s) {
         return Operands{in("dloss", {1}),
                         in("x", {s[0], s[1], s[2]}),
                         in("labels", {s[1], s[3]}, i64),
                         in("x_lengths", {s[1]}, i64),
                         in("label_lengths", {s[1]}, i64),
                         in("alpha", {s[1], s[0], 2 * s[3] + 1}),
                         out("dx", {s[0], s[1], s[2]})};
       },
       [](St st, Ts t) {
         ctc_loss_backward(st, t[0], {t[1], t[2], t[3], t[4]}, t[5], t[6]);
       }},
  };
}

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

std::vector<OperatorCall> elements_and_reductions() {
  const auto x2 = [](Sz s) { return Shape{s[0], s[1]}; };
  const auto one_to_one = [=](Sz s) { return Operands{in("x", x2(s)), out("y", x2(s))}; };
  return {
      {"activation", {6, 20}, one_to_one, [](St st, Ts t) { activation(st, t[0], Activation::relu, t[1]); }},
      {"activation_backward",
       {6, 20},
       [=](Sz s) {
         return Operands{in("dy", x2(s)), in("y", x2(s)), out("dx", x2(s))};
       },
       [](St st, Ts t) { activation_backward(st, t[0], t[1], Activation::relu, t[2]); }},
      {"copy", {6, 20}, one_to_one, [](St st, Ts t) { copy(st, t[0], t[1]); }},
      {"dropout", {6, 20}, one_to_one, [](St st, Ts t) { dropout(st, t[0], 0.5, {}, t[1]); }},
      {"elementwise",
       {6, 20},
       [=](Sz s) {
         return Operands{in("x", x2(s)), in("y", {s[1]}), out("z", x2(s))};
       },
       [](St st, Ts t) {
         elementwise(st, "add", {t[0], t[1]}, t[2]);
       }},
      {"elementwise_backward",
       {6, 20},
       [=](Sz s) {
         return Operands{in("dy", x2(s)), in("x", x2(s)), in("y", {s[1]}), out("dx", x2(s)),
                         out("dz", {s[1]})};
       },
       [](St st, Ts t) {
         elementwise_backward(st, "mul", t[0], {t[1], t[2]}, {t[3], t[4]});
       }},
      {"pointwise",
       {6, 20},
       [=](Sz s) {
         return Operands{in("x", x2(s)), out("y", x2(s)), out("z", x2(s))};
       },
       [](St st, Ts t) {
         pointwise(st, {t[0]}, {t[1], t[2]}, {}, "y0 = x0; y1 = -x0");
       }},
      {"reduce along rows",
       {6, 20},
       [=](Sz s) {
         return Operands{in("x", x2(s)), out("y", {s[0], 1})};
       },
       [](St st, Ts t) { reduce(st, {t[0]}, {t[1]}, {}, sum_of("x0")); }},
      {"reduce along columns",
       {6, 20},
       [=](Sz s) {
         return Operands{in("x", x2(s)), out("y", {s[1]})};
       },
       [](St st, Ts t) { reduce(st, {t[0]}, {t[1]}, {}, sum_of("x0")); }},
      {"reduction",
       {6, 20},
       [=](Sz s) {
         return Operands{in("x", x2(s)), out("y", {s[0], 1}), out("mean", {s[0], 1})};
       },
       [](St st, Ts t) {
         reduction(st, "var_mean", t[0], {t[1], t[2]}, {0});
       }},
      {"reduction_backward",
       {6, 20},
       [=](Sz s) {
         return Operands{in("dy", {s[0], 1}), in("x", x2(s)), in("y", {s[0], 1}), out("dx", x2(s))};
       },
       [](St st, Ts t) { reduction_backward(st, "amax", {t[0]}, t[1], {t[2]}, t[3]); }},
      {"cumsum", {6, 20}, one_to_one, [](St st, Ts t) { cumsum(st, t[0], 1, t[1]); }},
      {"cummax",
       {6, 20},
       [=](Sz s) {
         return Operands{in("x", x2(s)), out("y", x2(s)), out("index", x2(s), i64)};
       },
       [](St st, Ts t) { cummax(st, t[0], 0, t[1], t[2]); }},
      {"cumprod_backward",
       {6, 20},
       [=](Sz s) {
         return Operands{in("dy", x2(s)), in("x", x2(s)), in("y", x2(s)), out("dx", x2(s))};
       },
       [](St st, Ts t) { cumprod_backward(st, t[0], t[1], t[2], 1, t[3]); }},
      {"cummax_backward",
       {6, 20},
       [=](Sz s) {
         return Operands{in("dy", x2(s)), in("index", x2(s), i64), out("dx", x2(s))};
       },
       [](St st, Ts t) { cummax_backward(st, t[0], t[1], 1, t[2]); }},
      {"multinomial",
       {6, 20, 3},
       [=](Sz s) {
         return Operands{in("w", x2(s)), out("y", {s[0], s[2]}, i64)};
       },
       [](St st, Ts t) { multinomial(st, t[0], true, {}, t[1]); }},
      {"random_normal",
       {6, 20},
       [=](Sz s) { return Operands{out("y", x2(s))}; },
       [](St st, Ts t) { random_normal(st, t[0], 0, 1, {}); }},
      {"random_permutation",
       {20},
       [](Sz s) { return Operands{out("y", {s[0]}, i64)}; },
       [](St st, Ts t) { random_permutation(st, t[0], {}); }},
      {"optimize",
       {6, 20},
       [=](Sz s) {
         return Operands{out("w", x2(s)), in("dw", x2(s)), out("v", x2(s))};
       },
       [](St st, Ts t) {
         OptimizerDesc desc;
         desc.momentum = true;
         optimize(st, desc, {{t[0]}, {t[1]}, {}, {{t[2]}}}, {});
       }},
      {"update_averages",
       {6, 20},
       [=](Sz s) {
         return Operands{out("averages", x2(s)), in("w", x2(s))};
       },
       [](St st, Ts t) { update_averages(st, {t[0]}, {t[1]}, 0.5); }},
      {"gradient_norm",
       {6, 20},
       [=](Sz s) {
         return Operands{in("dw", x2(s)), in("more", {s[1]}), out("norm", {1}), out("factor", {1})};
       },
       [](St st, Ts t) {
         gradient_norm(st, {t[0], t[1]}, NormOrder::two, t[2], t[3], 1);
       }},
      {"scale_gradients",
       {6, 20},
       [=](Sz s) {
         return Operands{out("dw", x2(s)), out("more", {s[1]}), in("factor", {1}), in("scale", {1})};
       },
       [](St st, Ts t) {
         scale_gradients(st, {t[0], t[1]}, t[2], t[3]);
       }},
      {"clip_gradients_by_norm",
       {6, 20},
       [=](Sz s) {
         return Operands{out("dw", x2(s)), out("more", {s[1]}), out("norm", {1})};
       },
       [](St st, Ts t) {
         clip_gradients_by_norm(st, {t[0], t[1]}, 1, t[2]);
       }},
      {"clip_gradients_by_value",
       {6, 20},
       [=](Sz s) {
         return Operands{out("dw", x2(s)), out("more", {s[1]})};
       },
       [](St st, Ts t) {
         clip_gradients_by_value(st, {t[0], t[1]}, 1);
       }},
      {"unscale_gradients",
       {6, 20},
       [=](Sz s) {
         return Operands{out("dw", x2(s)), out("more", {s[1]}), in("scale", {1}), out("found_inf", {1})};
       },
       [](St st, Ts t) {
         unscale_gradients(st, {t[0], t[1]}, t[2], t[3]);
       }},
      {"update_loss_scale",
       {},
       [](Sz) {
         return Operands{out("scale", {1}), out("good_steps", {1}, i32), in("found_inf", {1})};
       },
       [](St st, Ts t) { update_loss_scale(st, t[0], t[1], t[2]); }},
  };
}

std::vector<OperatorCall> movement_and_order() {
  const auto x2 = [](Sz s) { return Shape{s[0], s[1]}; };
  const auto one_to_one = [=](Sz s) { return Operands{in("x", x2(s)), out("y", x2(s))}; };
  return {
      {"concat",
       {6, 20, 3},
       [=](Sz s) {
         return Operands{in("a", x2(s)), in("b", {s[0], s[2]}), out("y", {s[0], s[1] + s[2]})};
       },
       [](St st, Ts t) {
         concat(st, {t[0], t[1]}, 1, t[2]);
       }},
      {"slice_backward",
       {6, 5},
       [](Sz s) {
         return Operands{in("dy", {s[0], s[1]}), out("dx", {s[0], 2 * s[1]})};
       },
       [](St st, Ts t) { slice_backward(st, t[0], 1, 0, t[1].size(1), 2, t[1]); }},
      {"tile",
       {6, 5, 3},
       [](Sz s) {
         return Operands{in("x", {s[0], s[1]}), out("y", {s[0], s[1] * s[2]})};
       },
       [](St st, Ts t) { tile(st, t[0], t[1]); }},
      {"tile_backward",
       {6, 5, 3},
       [](Sz s) {
         return Operands{in("dy", {s[0], s[1] * s[2]}), out("dx", {s[0], s[1]})};
       },
       [](St st, Ts t) { tile_backward(st, t[0], t[1]); }},
      {"flip", {6, 20}, one_to_one, [](St st, Ts t) { flip(st, t[0], {1}, t[1]); }},
      {"roll", {6, 20}, one_to_one, [](St st, Ts t) { roll(st, t[0], {3}, {1}, t[1]); }},
      {"tril", {6, 20}, one_to_one, [](St st, Ts t) { tril(st, t[0], 0, t[1]); }},
      {"eye",
       {6, 20},
       [=](Sz s) { return Operands{out("y", x2(s))}; },
       [](St st, Ts t) { eye(st, 0, t[0]); }},
      {"linspace",
       {20},
       [](Sz s) { return Operands{out("y", {s[0]})}; },
       [](St st, Ts t) { linspace(st, 0, 1, t[0]); }},
      {"one_hot",
       {6, 20},
       [=](Sz s) {
         return Operands{in("index", {s[0]}, i64), out("y", x2(s))};
       },
       [](St st, Ts t) { one_hot(st, t[0], t[1]); }},
      {"masked_fill",
       {6, 20},
       [=](Sz s) {
         return Operands{in("x", x2(s)), in("mask", x2(s), u8), out("y", x2(s))};
       },
       [](St st, Ts t) { masked_fill(st, t[0], t[1], 3, t[2]); }},
      {"masked_select",
       {6, 20},
       [=](Sz s) {
         return Operands{in("x", x2(s)), in("mask", x2(s), u8), out("y", {s[0] * s[1]}),
                         out("count", {1}, i64)};
       },
       [](St st, Ts t) { masked_select(st, t[0], t[1], t[2], t[3]); }},
      {"masked_select_backward",
       {6, 20, 7},
       [=](Sz s) {
         return Operands{in("dy", {s[2]}), in("mask", x2(s), u8), out("dx", x2(s))};
       },
       [](St st, Ts t) { masked_select_backward(st, t[0], t[1], t[2]); }},
      {"nonzero",
       {6, 20, 7},
       [=](Sz s) {
         return Operands{in("x", x2(s)), out("y", {s[2], 2}, i64), out("count", {1}, i64)};
       },
       [](St st, Ts t) { nonzero(st, t[0], t[1], t[2]); }},
      {"unique",
       {6, 20, 7},
       [=](Sz s) {
         return Operands{in("x", x2(s)), out("y", {s[2]}), out("count", {1}, i64), out("inverse", x2(s), i64),
                         out("counts", {s[2]}, i64)};
       },
       [](St st, Ts t) {
         unique(st, t[0], {t[1], t[2], t[3], t[4]});
       }},
      {"unique_consecutive",
       {6, 20, 7},
       [=](Sz s) {
         return Operands{in("x", x2(s)), out("y", {s[2]}), out("count", {1}, i64), out("inverse", x2(s), i64),
                         out("counts", {s[2]}, i64)};
       },
       [](St st, Ts t) {
         unique_consecutive(st, t[0], {t[1], t[2], t[3], t[4]});
       }},
      {"sort",
       {6, 20},
       [=](Sz s) {
         return Operands{in("x", x2(s)), out("y", x2(s)), out("indices", x2(s), i64)};
       },
       [](St st, Ts t) { sort(st, t[0], {}, t[1], t[2]); }},
      {"top_k",
       {6, 20, 3},
       [=](Sz s) {
         return Operands{in("x", x2(s)), out("y", {s[0], s[2]}), out("indices", {s[0], s[2]}, i64)};
       },
       [](St st, Ts t) { top_k(st, t[0], {}, t[1], t[2]); }},
      {"median",
       {6, 20},
       [=](Sz s) {
         return Operands{in("x", x2(s)), out("y", {s[0], 1}), out("indices", {s[0], 1}, i64)};
       },
       [](St st, Ts t) { median(st, t[0], 1, t[1], t[2]); }},
      {"sort_backward",
       {6, 20, 3},
       [=](Sz s) {
         return Operands{in("dy", {s[0], s[2]}), in("indices", {s[0], s[2]}, i64), out("dx", x2(s))};
       },
       [](St st, Ts t) { sort_backward(st, t[0], t[1], 1, t[2]); }},
      {"searchsorted",
       {20, 6, 5},
       [](Sz s) {
         return Operands{in("sorted", {s[0]}), in("x", {s[1], s[2]}), out("y", {s[1], s[2]}, i64)};
       },
       [](St st, Ts t) { searchsorted(st, t[0], t[1], t[2]); }},
      {"bincount",
       {20, 6},
       [](Sz s) {
         return Operands{in("x", {s[0]}, i64), in("weights", {s[0]}), out("y", {s[1]})};
       },
       [](St st, Ts t) { bincount(st, t[0], t[1], t[2]); }},
      {"histc",
       {20, 6},
       [](Sz s) {
         return Operands{in("x", {s[0]}), out("y", {s[1]})};
       },
       [](St st, Ts t) { histc(st, t[0], t[1]); }},
      {"embedding",
       {20, 6, 5},
       [](Sz s) {
         return Operands{in("w", {s[0], s[1]}), in("index", {s[2]}, i64), out("y", {s[2], s[1]})};
       },
       [](St st, Ts t) { embedding(st, t[0], t[1], t[2]); }},
      {"embedding_backward",
       {20, 6, 5},
       [](Sz s) {
         return Operands{in("dy", {s[2], s[1]}), in("index", {s[2]}, i64), out("dw", {s[0], s[1]})};
       },
       [](St st, Ts t) { embedding_backward(st, t[0], t[1], t[2]); }},
      {"gather",
       {6, 20, 3},
       [=](Sz s) {
         return Operands{in("x", x2(s)), in("index", {s[0], s[2]}, i64), out("y", {s[0], s[2]})};
       },
       [](St st, Ts t) { gather(st, t[0], t[1], 1, t[2]); }},
      {"gather_backward",
       {6, 20, 3},
       [=](Sz s) {
         return Operands{in("dy", {s[0], s[2]}), in("index", {s[0], s[2]}, i64), out("dx", x2(s))};
       },
       [](St st, Ts t) { gather_backward(st, t[0], t[1], 1, t[2]); }},
      {"scatter",
       {6, 20, 3},
       [=](Sz s) {
         return Operands{in("x", x2(s)), in("index", {s[0], s[2]}, i64), in("src", {s[0], s[2]}),
                         out("y", x2(s))};
       },
       [](St st, Ts t) { scatter(st, t[0], t[1], t[2], 1, t[3]); }},
      {"index_select",
       {6, 20, 3},
       [=](Sz s) {
         return Operands{in("x", x2(s)), in("index", {s[2]}, i64), out("y", {s[0], s[2]})};
       },
       [](St st, Ts t) { index_select(st, t[0], t[1], 1, t[2]); }},
      {"index_write",
       {6, 20, 3},
       [=](Sz s) {
         return Operands{in("x", x2(s)), in("index", {s[2]}, i64), in("src", {s[0], s[2]}), out("y", x2(s))};
       },
       [](St st, Ts t) { index_write(st, t[0], t[1], t[2], 1, t[3]); }},
      {"index",
       {6, 20, 3},
       [=](Sz s) {
         return Operands{in("x", x2(s)), in("index", {s[2]}, i64), out("y", {s[2], s[1]})};
       },
       [](St st, Ts t) { index(st, t[0], {t[1]}, t[2]); }},
      {"index_put",
       {6, 20, 3},
       [=](Sz s) {
         return Operands{in("x", x2(s)), in("index", {s[2]}, i64), in("values", {s[2], s[1]}),
                         out("y", x2(s))};
       },
       [](St st, Ts t) { index_put(st, t[0], {t[1]}, t[2], t[3]); }},
  };
}

}  // namespace

const std::vector<OperatorCall>& operator_calls() {
  static const std::vector<OperatorCall> calls = [] {
    std::vector<OperatorCall> all;
    for (const auto& family :
         {norms_and_losses(), products_and_windows(), elements_and_reductions(), movement_and_order()})
      all.insert(all.end(), family.begin(), family.end());
    return all;
  }();
  return calls;
}

}  // namespace dlprim::test
