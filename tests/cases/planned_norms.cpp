// Plans and calls of softmax and normalisation.
#include <dlprim/batch_norm.hpp>
#include <dlprim/group_norm.hpp>
#include <dlprim/instance_norm.hpp>
#include <dlprim/layer_norm.hpp>
#include <dlprim/softmax.hpp>

#include "cases/planned.hpp"

namespace dlprim::test {

using namespace planning;

std::vector<PlannedOperator> planned_norms() {
  return {
      planned<Softmax>(
          "softmax", "generated", {in("x", {6, 20}), in("mask", {20}), out("y", {6, 20})},
          [=](Ts t) {
            return SoftmaxDesc{t[0], t[2], 1, false, TensorDesc(t[1])};
          },
          [=](const Softmax& plan, St st, Ts t, Ws ws) { plan.run(st, t[0], t[1], t[2], ws); },
          [=](St st, Ts t, Op options, Ws ws) { softmax(st, t[0], t[1], 1, t[2], options, ws); }),
      planned<Softmax>(
          "log_softmax", "generated", {in("x", {6, 20}), out("y", {6, 20})},
          [=](Ts t) {
            return SoftmaxDesc{t[0], t[1], 1, true};
          },
          [=](const Softmax& plan, St st, Ts t, Ws ws) { plan.run(st, t[0], {}, t[1], ws); },
          [=](St st, Ts t, Op options, Ws ws) { log_softmax(st, t[0], {}, 1, t[1], options, ws); }),
      planned<SoftmaxBackward>(
          "softmax_backward", "generated", {in("dy", {6, 20}), in("y", {6, 20}), out("dx", {6, 20})},
          [=](Ts t) {
            return SoftmaxBackwardDesc{t[0], t[1], t[2], 1, false};
          },
          [=](const SoftmaxBackward& plan, St st, Ts t, Ws ws) { plan.run(st, t[0], t[1], {}, t[2], ws); },
          [=](St st, Ts t, Op options, Ws ws) {
            softmax_backward(st, t[0], t[1], {}, 1, t[2], options, ws);
          }),
      planned<SoftmaxBackward>(
          "log_softmax_backward", "generated", {in("dy", {6, 20}), in("y", {6, 20}), out("dx", {6, 20})},
          [=](Ts t) {
            return SoftmaxBackwardDesc{t[0], t[1], t[2], 1, true};
          },
          [=](const SoftmaxBackward& plan, St st, Ts t, Ws ws) { plan.run(st, t[0], t[1], {}, t[2], ws); },
          [=](St st, Ts t, Op options, Ws ws) {
            log_softmax_backward(st, t[0], t[1], {}, 1, t[2], options, ws);
          }),
      planned<LogSumExp>(
          "logsumexp", "generated", {in("x", {6, 20}), out("y", {6, 1})},
          [=](Ts t) {
            return LogSumExpDesc{t[0], t[1], 1};
          },
          [=](const LogSumExp& plan, St st, Ts t, Ws ws) { plan.run(st, t[0], t[1], ws); },
          [=](St st, Ts t, Op options, Ws ws) { logsumexp(st, t[0], 1, t[1], options, ws); }),
      planned<LogSumExpBackward>(
          "logsumexp_backward", "generated",
          {in("dy", {6, 1}), in("x", {6, 20}), in("y", {6, 1}), out("dx", {6, 20})},
          [=](Ts t) {
            return LogSumExpBackwardDesc{t[0], t[1], t[2], t[3], 1};
          },
          [=](const LogSumExpBackward& plan, St st, Ts t, Ws ws) {
            plan.run(st, t[0], t[1], t[2], t[3], ws);
          },
          [=](St st, Ts t, Op options, Ws ws) {
            logsumexp_backward(st, t[0], t[1], t[2], 1, t[3], options, ws);
          }),
      planned<BatchNormTraining>(
          "batch_norm_training", "generated",
          {in("x", {2, 4, 30, 50}), in("weight", {4}), in("bias", {4}), in("residual", {2, 4, 30, 50}),
           out("running_mean", {4}), out("running_var", {4}), out("y", {2, 4, 30, 50}), out("mean", {4}),
           out("inv_std", {4})},
          [=](Ts t) { return BatchNormDesc{t[0], t[6], {}, true, true, true, TensorDesc(t[3])}; },
          [=](const BatchNormTraining& plan, St st, Ts t, Ws ws) {
            plan.run(st, t[0], t[1], t[2], t[3], t[4], t[5], t[6], t[7], t[8], ws);
          },
          [=](St st, Ts t, Op options, Ws ws) {
            batch_norm_training(st, t[0], t[1], t[2], t[3], {}, t[4], t[5], t[6], t[7], t[8], options, ws);
          }),
      planned<BatchNormInference>(
          "batch_norm_inference", "generated",
          {in("x", {2, 4, 30, 50}), in("weight", {4}), in("bias", {4}), in("residual", {2, 4, 30, 50}),
           in("running_mean", {4}), in("running_var", {4}), out("y", {2, 4, 30, 50})},
          [=](Ts t) { return BatchNormDesc{t[0], t[6], {}, true, true, true, TensorDesc(t[3])}; },
          [=](const BatchNormInference& plan, St st, Ts t, Ws ws) {
            plan.run(st, t[0], t[1], t[2], t[3], t[4], t[5], t[6], ws);
          },
          [=](St st, Ts t, Op options, Ws ws) {
            batch_norm_inference(st, t[0], t[1], t[2], t[3], t[4], t[5], {}, t[6], options, ws);
          }),
      planned<BatchNormBackward>(
          "batch_norm_backward", "generated",
          {in("dy", {2, 4, 30, 50}), in("x", {2, 4, 30, 50}), in("weight", {4}), in("mean", {4}),
           in("inv_std", {4}), in("y", {2, 4, 30, 50}), out("dx", {2, 4, 30, 50}),
           out("dresidual", {2, 4, 30, 50})},
          [=](Ts t) {
            return BatchNormBackwardDesc{
                t[0],  t[1],  TensorDesc(t[5]), TensorDesc(t[6]), TensorDesc(t[7]), true,
                false, false, Activation::relu};
          },
          [=](const BatchNormBackward& plan, St st, Ts t, Ws ws) {
            plan.run(st, t[0], t[1], t[2], {}, t[3], t[4], t[5], t[6], {}, {}, t[7], ws);
          },
          [=](St st, Ts t, Op options, Ws ws) {
            batch_norm_backward(st, t[0], t[1], t[2], {}, t[3], t[4], t[5], Activation::relu, t[6], {}, {},
                                t[7], options, ws);
          }),
      planned<LayerNorm>(
          "layer_norm", "generated",
          {in("x", {6, 20}), in("weight", {20}), in("bias", {20}), out("y", {6, 20})},
          [=](Ts t) {
            return LayerNormDesc{t[0], t[3], TensorDesc(t[1]), TensorDesc(t[2])};
          },
          [=](const LayerNorm& plan, St st, Ts t, Ws ws) {
            plan.run(st, t[0], t[1], t[2], t[3], {}, {}, ws);
          },
          [=](St st, Ts t, Op options, Ws ws) {
            layer_norm(st, t[0], t[1], t[2], 1, 1e-5, t[3], {}, {}, options, ws);
          }),
      planned<LayerNorm>(
          "rms_norm", "generated", {in("x", {6, 20}), in("weight", {20}), out("y", {6, 20})},
          [=](Ts t) { return LayerNormDesc{t[0], t[2], TensorDesc(t[1]), {}, 1, 1e-5, true}; },
          [=](const LayerNorm& plan, St st, Ts t, Ws ws) { plan.run(st, t[0], t[1], {}, t[2], {}, {}, ws); },
          [=](St st, Ts t, Op options, Ws ws) { rms_norm(st, t[0], t[1], 1, 1e-5, t[2], {}, options, ws); }),
      planned<LayerNormBackward>(
          "layer_norm_backward", "cpu",
          {in("dy", {6, 20}), in("x", {6, 20}), in("weight", {20}), in("mean", {6, 1}), in("inv_std", {6, 1}),
           out("dx", {6, 20}), out("dweight", {20}), out("dbias", {20})},
          [=](Ts t) {
            return LayerNormBackwardDesc{
                t[0], t[1], TensorDesc(t[2]), TensorDesc(t[5]), TensorDesc(t[6]), TensorDesc(t[7])};
          },
          [=](const LayerNormBackward& plan, St st, Ts t, Ws ws) {
            plan.run(st, t[0], t[1], t[2], t[3], t[4], t[5], t[6], t[7], ws);
          },
          [=](St st, Ts t, Op options, Ws ws) {
            layer_norm_backward(st, t[0], t[1], t[2], t[3], t[4], 1, t[5], t[6], t[7], options, ws);
          }),
      planned<LayerNormBackward>(
          "rms_norm_backward", "generated",
          {in("dy", {6, 20}), in("x", {6, 20}), in("weight", {20}), in("inv_std", {6, 1}), out("dx", {6, 20}),
           out("dweight", {20})},
          [=](Ts t) {
            return LayerNormBackwardDesc{t[0], t[1], TensorDesc(t[2]), TensorDesc(t[4]), TensorDesc(t[5]), {},
                                         1,    true};
          },
          [=](const LayerNormBackward& plan, St st, Ts t, Ws ws) {
            plan.run(st, t[0], t[1], t[2], {}, t[3], t[4], t[5], {}, ws);
          },
          [=](St st, Ts t, Op options, Ws ws) {
            rms_norm_backward(st, t[0], t[1], t[2], t[3], 1, t[4], t[5], options, ws);
          }),
      planned<GroupNorm>(
          "group_norm", "generated",
          {in("x", {2, 4, 5, 6}), in("weight", {4}), in("bias", {4}), out("y", {2, 4, 5, 6}),
           out("mean", {2, 2}), out("inv_std", {2, 2})},
          [=](Ts t) { return GroupNormDesc{t[0], t[3], TensorDesc(t[1]), TensorDesc(t[2]), 2, 1e-5, true}; },
          [=](const GroupNorm& plan, St st, Ts t, Ws ws) {
            plan.run(st, t[0], t[1], t[2], t[3], t[4], t[5], {}, ws);
          },
          [=](St st, Ts t, Op options, Ws ws) {
            group_norm(st, t[0], t[1], t[2], 2, 1e-5, t[3], t[4], t[5], options, ws);
          }),
      planned<GroupNormBackward>(
          "group_norm_backward", "generated",
          {in("dy", {2, 4, 5, 6}), in("x", {2, 4, 5, 6}), in("weight", {4}), in("mean", {2, 2}),
           in("inv_std", {2, 2}), out("dx", {2, 4, 5, 6}), out("dweight", {4}), out("dbias", {4})},
          [=](Ts t) {
            return GroupNormBackwardDesc{
                t[0], t[1], TensorDesc(t[2]), TensorDesc(t[5]), TensorDesc(t[6]), TensorDesc(t[7]), 2};
          },
          [=](const GroupNormBackward& plan, St st, Ts t, Ws ws) {
            plan.run(st, t[0], t[1], t[2], t[3], t[4], t[5], t[6], t[7], ws);
          },
          [=](St st, Ts t, Op options, Ws ws) {
            group_norm_backward(st, t[0], t[1], t[2], t[3], t[4], 2, t[5], t[6], t[7], options, ws);
          }),
      planned<InstanceNorm>(
          "instance_norm", "generated",
          {in("x", {2, 4, 5, 6}), in("weight", {4}), in("bias", {4}), out("running_mean", {4}),
           out("running_var", {4}), out("y", {2, 4, 5, 6}), in("old", {4})},
          [=](Ts t) { return InstanceNormDesc{t[0], t[5], TensorDesc(t[1]), TensorDesc(t[2]), {}, true}; },
          [=](const InstanceNorm& plan, St st, Ts t, Ws ws) {
            plan.run(st, t[0], t[1], t[2], renewed(st, t[6], t[3]), renewed(st, t[6], t[4]), t[5], {}, {},
                     ws);
          },
          [=](St st, Ts t, Op options, Ws ws) {
            instance_norm(st, t[0], t[1], t[2], {}, renewed(st, t[6], t[3]), renewed(st, t[6], t[4]), t[5],
                          {}, {}, options, ws);
          }),
      planned<GroupNormBackward>(
          "instance_norm_backward", "generated",
          {in("dy", {2, 4, 5, 6}), in("x", {2, 4, 5, 6}), in("mean", {2, 4}), in("inv_std", {2, 4}),
           out("dx", {2, 4, 5, 6})},
          [=](Ts t) { return GroupNormBackwardDesc{t[0], t[1], {}, TensorDesc(t[4]), {}, {}, 4}; },
          [=](const GroupNormBackward& plan, St st, Ts t, Ws ws) {
            plan.run(st, t[0], t[1], {}, t[2], t[3], t[4], {}, {}, ws);
          },
          [=](St st, Ts t, Op options, Ws ws) {
            instance_norm_backward(st, t[0], t[1], {}, t[2], t[3], t[4], {}, {}, options, ws);
          }),
  };
}

}  // namespace dlprim::test
