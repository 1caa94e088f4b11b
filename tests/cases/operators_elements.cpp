// Calls of operators: element by element, reductions, scans, random numbers, optimizers; movement, order,
// choices.
#include <dlprim/activation.hpp>
#include <dlprim/copy.hpp>
#include <dlprim/dropout.hpp>
#include <dlprim/elementwise.hpp>
#include <dlprim/embedding.hpp>
#include <dlprim/gather.hpp>
#include <dlprim/gradients.hpp>
#include <dlprim/histogram.hpp>
#include <dlprim/index.hpp>
#include <dlprim/masked.hpp>
#include <dlprim/movement.hpp>
#include <dlprim/multi_pointwise.hpp>
#include <dlprim/optimizer.hpp>
#include <dlprim/patterns.hpp>
#include <dlprim/pointwise.hpp>
#include <dlprim/random.hpp>
#include <dlprim/reduction.hpp>
#include <dlprim/sampling.hpp>
#include <dlprim/scan.hpp>
#include <dlprim/searchsorted.hpp>
#include <dlprim/sort.hpp>
#include <dlprim/unique.hpp>

#include "cases/operators.hpp"

namespace dlprim::test {
namespace {

using St = const Stream&;
using Ts = const Tensors&;
using Sz = const Sizes&;
constexpr DType i32 = DType::i32, i64 = DType::i64, u8 = DType::u8;

}  // namespace

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
         elementwise(st, "add", {t[0], t[1]}, {}, t[2]);
       }},
      {"elementwise_backward",
       {6, 20},
       [=](Sz s) {
         return Operands{in("dy", x2(s)), in("x", x2(s)), in("y", {s[1]}), out("dx", x2(s)),
                         out("dz", {s[1]})};
       },
       [](St st, Ts t) {
         elementwise_backward(st, "mul", t[0], {t[1], t[2]}, {}, {t[3], t[4]});
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
         reduction(st, "var_mean", t[0], {0}, {t[1], t[2]});
       }},
      {"reduction_backward",
       {6, 20},
       [=](Sz s) {
         return Operands{in("dy", {s[0], 1}), in("x", x2(s)), in("y", {s[0], 1}), out("dx", x2(s))};
       },
       [](St st, Ts t) { reduction_backward(st, "amax", {t[0]}, t[1], {t[2]}, {}, t[3]); }},
      {"cumsum", {6, 20}, one_to_one, [](St st, Ts t) { cumsum(st, t[0], {1}, t[1]); }},
      {"cummax",
       {6, 20},
       [=](Sz s) {
         return Operands{in("x", x2(s)), out("y", x2(s)), out("index", x2(s), i64)};
       },
       [](St st, Ts t) { cummax(st, t[0], {0}, t[1], t[2]); }},
      {"cumprod_backward",
       {6, 20},
       [=](Sz s) {
         return Operands{in("dy", x2(s)), in("x", x2(s)), in("y", x2(s)), out("dx", x2(s))};
       },
       [](St st, Ts t) { cumprod_backward(st, t[0], t[1], t[2], {1}, t[3]); }},
      {"cummax_backward",
       {6, 20},
       [=](Sz s) {
         return Operands{in("dy", x2(s)), in("index", x2(s), i64), out("dx", x2(s))};
       },
       [](St st, Ts t) { cummax_backward(st, t[0], t[1], {1}, t[2]); }},
      {"multinomial",
       {6, 20, 3},
       [=](Sz s) {
         return Operands{in("w", x2(s)), out("y", {s[0], s[2]}, i64)};
       },
       [](St st, Ts t) { multinomial(st, t[0], true, {}, t[1]); }},
      {"random_normal",
       {6, 20},
       [=](Sz s) { return Operands{out("y", x2(s))}; },
       [](St st, Ts t) { random_normal(st, 0, 1, {}, t[0]); }},
      {"random_permutation",
       {20},
       [](Sz s) { return Operands{out("y", {s[0]}, i64)}; },
       [](St st, Ts t) { random_permutation(st, {}, t[0]); }},
      {"optimize",
       {6, 20},
       [=](Sz s) {
         return Operands{out("w", x2(s)), in("dw", x2(s)), out("v", x2(s))};
       },
       [](St st, Ts t) {
         OptimizerDesc desc;
         desc.momentum = true;
         optimize(st, desc, {}, {{t[0]}, {t[1]}, {}, {{t[2]}}});
       }},
      {"update_averages",
       {6, 20},
       [=](Sz s) {
         return Operands{out("averages", x2(s)), in("w", x2(s))};
       },
       [](St st, Ts t) { update_averages(st, {t[1]}, 0.5, {t[0]}); }},
      {"multi_pointwise",
       {6, 20},
       [=](Sz s) {
         return Operands{out("changed", x2(s)), in("x", x2(s)),       in("single", {1}),
                         in("number", {1}),     out("other", {s[1]}), in("more", {s[1]})};
       },
       [](St st, Ts t) {
         MultiPointwiseTensors tensors;
         tensors.changed = {{t[0], t[4]}};
         tensors.inputs = {{t[1], t[5]}};
         tensors.singles = {{t[2], t[2]}};
         tensors.numbers = {t[3]};
         multi_pointwise(st, tensors, {}, {}, "y0 = x0 + x1 * x2 + x3");
       }},
      {"gradient_norm",
       {6, 20},
       [=](Sz s) {
         return Operands{in("dw", x2(s)), in("more", {s[1]}), out("norm", {1}), out("factor", {1})};
       },
       [](St st, Ts t) {
         gradient_norm(st, {t[0], t[1]}, {NormOrder::two, 1}, t[2], t[3]);
       }},
      {"scale_gradients",
       {6, 20},
       [=](Sz s) {
         return Operands{out("dw", x2(s)), out("more", {s[1]}), in("factor", {1}), in("scale", {1})};
       },
       [](St st, Ts t) {
         scale_gradients(st, t[2], t[3], {t[0], t[1]});
       }},
      {"clip_gradients_by_norm",
       {6, 20},
       [=](Sz s) {
         return Operands{out("dw", x2(s)), out("more", {s[1]}), out("norm", {1})};
       },
       [](St st, Ts t) {
         clip_gradients_by_norm(st, {NormOrder::two, 1}, {t[0], t[1]}, t[2]);
       }},
      {"clip_gradients_by_value",
       {6, 20},
       [=](Sz s) {
         return Operands{out("dw", x2(s)), out("more", {s[1]})};
       },
       [](St st, Ts t) {
         clip_gradients_by_value(st, 1, {t[0], t[1]});
       }},
      {"unscale_gradients",
       {6, 20},
       [=](Sz s) {
         return Operands{out("dw", x2(s)), out("more", {s[1]}), in("scale", {1}), out("found_inf", {1})};
       },
       [](St st, Ts t) {
         unscale_gradients(st, t[2], {t[0], t[1]}, t[3]);
       }},
      {"update_loss_scale",
       {},
       [](Sz) {
         return Operands{out("scale", {1}), out("good_steps", {1}, i32), in("found_inf", {1})};
       },
       [](St st, Ts t) { update_loss_scale(st, t[2], {}, t[0], t[1]); }},
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
       [](St st, Ts t) { searchsorted(st, t[0], t[1], false, t[2]); }},
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
       [](St st, Ts t) { histc(st, t[0], {}, t[1]); }},
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
       [](St st, Ts t) { embedding_backward(st, t[0], t[1], {}, t[2]); }},
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
       [](St st, Ts t) { scatter(st, t[0], t[1], t[2], 1, {}, t[3]); }},
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
       [](St st, Ts t) { index_write(st, t[0], t[1], t[2], 1, {}, t[3]); }},
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
       [](St st, Ts t) { index_put(st, t[0], {t[1]}, t[2], {}, t[3]); }},
  };
}

}  // namespace dlprim::test
