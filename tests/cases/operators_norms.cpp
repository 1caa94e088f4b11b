// Calls of operators: normalisations, softmax and losses.
#include <dlprim/batch_norm.hpp>
#include <dlprim/class_loss.hpp>
#include <dlprim/ctc_loss.hpp>
#include <dlprim/group_norm.hpp>
#include <dlprim/instance_norm.hpp>
#include <dlprim/layer_norm.hpp>
#include <dlprim/loss.hpp>
#include <dlprim/softmax.hpp>

#include "cases/operators.hpp"

namespace dlprim::test {
namespace {

using St = const Stream&;
using Ts = const Tensors&;
using Sz = const Sizes&;
constexpr DType i64 = DType::i64;

}  // namespace

std::vector<OperatorCall> norms_and_losses() {
  const auto planes = [](Sz s) { return Shape{s[0], s[1], s[2], s[3]}; };
  return {
      {"batch_norm_training",
       {2, 3, 4, 5},
       [=](Sz s) {
         return Operands{in("x", planes(s)),          in("weight", {s[1]}),       in("bias", {s[1]}),
                         out("running_mean", {s[1]}), out("running_var", {s[1]}), out("y", planes(s)),
                         out("mean", {s[1]}),         out("inv_std", {s[1]}),     in("residual", planes(s))};
       },
       [](St st, Ts t) {
         batch_norm_training(st, t[0], t[1], t[2], t[8], {}, t[3], t[4], t[5], t[6], t[7]);
       }},
      {"batch_norm_inference",
       {2, 3, 4, 5},
       [=](Sz s) {
         return Operands{in("x", planes(s)),         in("weight", {s[1]}),      in("bias", {s[1]}),
                         in("running_mean", {s[1]}), in("running_var", {s[1]}), out("y", planes(s)),
                         in("residual", planes(s))};
       },
       [](St st, Ts t) { batch_norm_inference(st, t[0], t[1], t[2], t[6], t[3], t[4], {}, t[5]); }},
      {"batch_norm_backward",
       {2, 3, 4, 5},
       [=](Sz s) {
         return Operands{in("dy", planes(s)),        in("x", planes(s)),    in("weight", {s[1]}),
                         in("mean", {s[1]}),         in("inv_std", {s[1]}), out("dx", planes(s)),
                         out("dweight", {s[1]}),     out("dbias", {s[1]}),  in("y", planes(s)),
                         out("dresidual", planes(s))};
       },
       [](St st, Ts t) {
         batch_norm_backward(st, t[0], t[1], t[2], {}, t[3], t[4], t[8], Activation::relu, t[5], t[6], t[7],
                             t[9]);
       }},
      {"group_norm",
       {2, 4, 4, 5},
       [=](Sz s) {
         return Operands{in("x", planes(s)),  in("weight", {s[1]}),   in("bias", {s[1]}),
                         out("y", planes(s)), out("mean", {s[0], 2}), out("inv_std", {s[0], 2})};
       },
       [](St st, Ts t) { group_norm(st, t[0], t[1], t[2], 2, 1e-5, t[3], t[4], t[5]); }},
      {"group_norm_backward",
       {2, 4, 4, 5},
       [=](Sz s) {
         return Operands{in("dy", planes(s)),    in("x", planes(s)),       in("weight", {s[1]}),
                         in("mean", {s[0], 2}),  in("inv_std", {s[0], 2}), out("dx", planes(s)),
                         out("dweight", {s[1]}), out("dbias", {s[1]})};
       },
       [](St st, Ts t) { group_norm_backward(st, t[0], t[1], t[2], t[3], t[4], 2, t[5], t[6], t[7]); }},
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
       [](St st, Ts t) { layer_norm(st, t[0], t[1], t[2], 1, 1e-5, t[3], t[4], t[5]); }},
      {"layer_norm_backward",
       {6, 20},
       [](Sz s) {
         return Operands{in("dy", {s[0], s[1]}), in("x", {s[0], s[1]}),    in("weight", {s[1]}),
                         in("mean", {s[0], 1}),  in("inv_std", {s[0], 1}), out("dx", {s[0], s[1]}),
                         out("dweight", {s[1]}), out("dbias", {s[1]})};
       },
       [](St st, Ts t) { layer_norm_backward(st, t[0], t[1], t[2], t[3], t[4], 1, t[5], t[6], t[7]); }},
      {"rms_norm",
       {6, 20},
       [](Sz s) {
         return Operands{in("x", {s[0], s[1]}), in("weight", {s[1]}), out("y", {s[0], s[1]}),
                         out("inv_std", {s[0], 1})};
       },
       [](St st, Ts t) { rms_norm(st, t[0], t[1], 1, 1e-5, t[2], t[3]); }},
      {"rms_norm_backward",
       {6, 20},
       [](Sz s) {
         return Operands{in("dy", {s[0], s[1]}),   in("x", {s[0], s[1]}),   in("weight", {s[1]}),
                         in("inv_std", {s[0], 1}), out("dx", {s[0], s[1]}), out("dweight", {s[1]})};
       },
       [](St st, Ts t) { rms_norm_backward(st, t[0], t[1], t[2], t[3], 1, t[4], t[5]); }},
      {"softmax",
       {6, 20},
       [](Sz s) {
         return Operands{in("x", {s[0], s[1]}), out("y", {s[0], s[1]}), in("mask", {s[0], s[1]})};
       },
       [](St st, Ts t) { softmax(st, t[0], t[2], 1, t[1]); }},
      {"softmax_backward",
       {6, 20},
       [](Sz s) {
         return Operands{in("dy", {s[0], s[1]}), in("y", {s[0], s[1]}), out("dx", {s[0], s[1]})};
       },
       [](St st, Ts t) { softmax_backward(st, t[0], t[1], {}, 1, t[2]); }},
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
       [](St st, Ts t) { loss(st, "mse", t[0], t[1], {}, {}, t[2]); }},
      {"loss_backward",
       {6, 20},
       [](Sz s) {
         return Operands{in("dy", {1}), in("x", {s[0], s[1]}), in("target", {s[0], s[1]}),
                         out("dx", {s[0], s[1]}), out("dtarget", {s[0], s[1]})};
       },
       [](St st, Ts t) { loss_backward(st, "mse", t[0], t[1], t[2], {}, {}, t[3], t[4]); }},
      {"nll_loss",
       {6, 20},
       [](Sz s) {
         return Operands{in("x", {s[0], s[1]}), in("target", {s[0]}, i64), out("loss", {1}),
                         in("weight", {s[1]})};
       },
       [](St st, Ts t) { nll_loss(st, t[0], t[1], t[3], {}, t[2]); }},
      {"nll_loss_backward",
       {6, 20},
       [](Sz s) {
         return Operands{in("dloss", {1}), in("target", {s[0]}, i64), out("dx", {s[0], s[1]}),
                         in("weight", {s[1]})};
       },
       [](St st, Ts t) { nll_loss_backward(st, t[0], t[1], t[3], {}, t[2]); }},
      {"cross_entropy",
       {6, 20},
       [](Sz s) {
         return Operands{in("x", {s[0], s[1]}), in("target", {s[0]}, i64), out("loss", {1}),
                         in("weight", {s[1]})};
       },
       [](St st, Ts t) { cross_entropy(st, t[0], t[1], t[3], {}, t[2]); }},
      {"cross_entropy_backward",
       {6, 20},
       [](Sz s) {
         return Operands{in("dloss", {1}), in("x", {s[0], s[1]}), in("target", {s[0]}, i64),
                         out("dx", {s[0], s[1]}), in("weight", {s[1]})};
       },
       [](St st, Ts t) { cross_entropy_backward(st, t[0], t[1], t[2], t[4], {}, t[3]); }},
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
         ctc_loss(st, {t[0], t[1], t[2], t[3]}, {}, t[4], t[5]);
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
         ctc_loss_backward(st, t[0], {t[1], t[2], t[3], t[4]}, t[5], {}, t[6]);
       }},
  };
}

}  // namespace dlprim::test
