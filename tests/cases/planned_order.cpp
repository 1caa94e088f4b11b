// Plans and calls that order elements, count them, or go along an axis.
#include <dlprim/histogram.hpp>
#include <dlprim/scan.hpp>
#include <dlprim/searchsorted.hpp>
#include <dlprim/sort.hpp>
#include <dlprim/unique.hpp>

#include "cases/planned.hpp"

namespace dlprim::test {

using namespace planning;

std::vector<PlannedOperator> planned_order() {
  return {
      planned<Sort>(
          "sort", "radix", {in("x", {6, 20}), out("y", {6, 20}), out("indices", {6, 20}, i64)},
          [=](Ts t) {
            return SortDesc{t[0], TensorDesc(t[1]), TensorDesc(t[2])};
          },
          [](const Sort& plan, St st, Ts t, Ws ws) { plan.run(st, t[0], t[1], t[2], ws); },
          [=](St st, Ts t, Op options, Ws ws) { sort(st, t[0], {}, t[1], t[2], options, ws); }),
      planned<Sort>(
          "argsort", "radix", {in("x", {6, 20}), out("indices", {6, 20}, i64)},
          [=](Ts t) {
            return SortDesc{t[0], {}, TensorDesc(t[1])};
          },
          [](const Sort& plan, St st, Ts t, Ws ws) { plan.run(st, t[0], {}, t[1], ws); },
          [=](St st, Ts t, Op options, Ws ws) { argsort(st, t[0], {}, t[1], options, ws); }),
      planned<TopK>(
          "top_k", "select", {in("x", {6, 20}), out("y", {6, 3}), out("indices", {6, 3}, i64)},
          [=](Ts t) {
            return TopKDesc{t[0], TensorDesc(t[1]), TensorDesc(t[2])};
          },
          [](const TopK& plan, St st, Ts t, Ws ws) { plan.run(st, t[0], t[1], t[2], ws); },
          [=](St st, Ts t, Op options, Ws ws) { top_k(st, t[0], {}, t[1], t[2], options, ws); }),
      planned<KthValue>(
          "kth_value", "rows", {in("x", {6, 20}), out("y", {6, 1}), out("indices", {6, 1}, i64)},
          [=](Ts t) {
            return KthValueDesc{t[0], TensorDesc(t[1]), TensorDesc(t[2]), 1, 4};
          },
          [](const KthValue& plan, St st, Ts t, Ws ws) { plan.run(st, t[0], t[1], t[2], ws); },
          [=](St st, Ts t, Op options, Ws ws) { kth_value(st, t[0], 4, 1, t[1], t[2], options, ws); }),
      planned<KthValue>(
          "median", "rows", {in("x", {6, 20}), out("y", {6, 1}), out("indices", {6, 1}, i64)},
          [=](Ts t) { return KthValueDesc{t[0], TensorDesc(t[1]), TensorDesc(t[2]), 1, 1, Median::median}; },
          [](const KthValue& plan, St st, Ts t, Ws ws) { plan.run(st, t[0], t[1], t[2], ws); },
          [=](St st, Ts t, Op options, Ws ws) { median(st, t[0], 1, t[1], t[2], options, ws); }),
      planned<KthValue>(
          "nan_median", "rows", {in("x", {6, 20}), out("y", {6, 1}), out("indices", {6, 1}, i64)},
          [=](Ts t) {
            return KthValueDesc{t[0], TensorDesc(t[1]), TensorDesc(t[2]), 1, 1, Median::nan_median};
          },
          [](const KthValue& plan, St st, Ts t, Ws ws) { plan.run(st, t[0], t[1], t[2], ws); },
          [=](St st, Ts t, Op options, Ws ws) { nan_median(st, t[0], 1, t[1], t[2], options, ws); }),
      planned<SortBackward>(
          "sort_backward", "scatter", {in("dy", {6, 1}), in("indices", {6, 1}, i64), out("dx", {6, 20})},
          [=](Ts t) {
            return SortBackwardDesc{t[0], t[1], t[2], 1};
          },
          [](const SortBackward& plan, St st, Ts t, Ws ws) { plan.run(st, t[0], t[1], t[2], ws); },
          [=](St st, Ts t, Op options, Ws ws) { sort_backward(st, t[0], t[1], 1, t[2], options, ws); }),
      planned<Unique>(
          "unique", "tiles",
          {in("x", {6, 20}), out("y", {7}), out("count", {1}, i64), out("inverse", {6, 20}, i64)},
          [=](Ts t) {
            return UniqueDesc{t[0], t[1], t[2], TensorDesc(t[3])};
          },
          [](const Unique& plan, St st, Ts t, Ws ws) {
            plan.run(st, t[0], {t[1], t[2], t[3], {}}, ws);
          },
          [=](St st, Ts t, Op options, Ws ws) {
            unique(st, t[0], {t[1], t[2], t[3], {}}, options, ws);
          }),
      planned<Unique>(
          "unique_consecutive", "chunks", {in("x", {6, 20}), out("y", {7}), out("count", {1}, i64)},
          [=](Ts t) { return UniqueDesc{t[0], t[1], t[2], {}, {}, true}; },
          [](const Unique& plan, St st, Ts t, Ws ws) {
            plan.run(st, t[0], {t[1], t[2], {}, {}}, ws);
          },
          [=](St st, Ts t, Op options, Ws ws) {
            unique_consecutive(st, t[0], {t[1], t[2], {}, {}}, options, ws);
          }),
      planned<Searchsorted>(
          "searchsorted", "halving", {in("sorted", {20}, i64), in("x", {6, 5}, i64), out("y", {6, 5}, i64)},
          [=](Ts t) {
            return SearchsortedDesc{t[0], t[1], t[2], true};
          },
          [](const Searchsorted& plan, St st, Ts t, Ws ws) { plan.run(st, t[0], t[1], t[2], ws); },
          [=](St st, Ts t, Op options, Ws ws) { searchsorted(st, t[0], t[1], true, t[2], options, ws); }),
      planned<Searchsorted>(
          "bucketize", "halving", {in("x", {6, 5}, i64), in("boundaries", {20}, i64), out("y", {6, 5}, i64)},
          [=](Ts t) {
            return SearchsortedDesc{t[1], t[0], t[2], true};
          },
          [](const Searchsorted& plan, St st, Ts t, Ws ws) { plan.run(st, t[1], t[0], t[2], ws); },
          [=](St st, Ts t, Op options, Ws ws) { bucketize(st, t[0], t[1], true, t[2], options, ws); }),
      planned<Bincount>(
          "bincount", "atomics", {in("x", {20}, i64), out("y", {6})},
          [=](Ts t) {
            return BincountDesc{t[0], {}, t[1]};
          },
          [](const Bincount& plan, St st, Ts t, Ws ws) { plan.run(st, t[0], {}, t[1], ws); },
          [=](St st, Ts t, Op options, Ws ws) { bincount(st, t[0], {}, t[1], options, ws); }),
      planned<Bincount>(
          "bincount of weights", "exact", {in("x", {20}, i64), in("weights", {20}), out("y", {6})},
          [=](Ts t) {
            return BincountDesc{t[0], TensorDesc(t[1]), t[2]};
          },
          [](const Bincount& plan, St st, Ts t, Ws ws) { plan.run(st, t[0], t[1], t[2], ws); },
          [=](St st, Ts t, Op options, Ws ws) { bincount(st, t[0], t[1], t[2], options, ws); }),
      planned<Bincount>(
          "bincount by sorting", "sorted", {in("x", {20}, i64), in("weights", {20}), out("y", {6})},
          [=](Ts t) {
            return BincountDesc{t[0], TensorDesc(t[1]), t[2]};
          },
          [](const Bincount& plan, St st, Ts t, Ws ws) { plan.run(st, t[0], t[1], t[2], ws); },
          [=](St st, Ts t, Op options, Ws ws) { bincount(st, t[0], t[1], t[2], options, ws); }),
      planned<Histc>(
          "histc", "parts", {in("x", {20}), out("y", {6})},
          [=](Ts t) {
            return HistcDesc{t[0], t[1], {}};
          },
          [](const Histc& plan, St st, Ts t, Ws ws) { plan.run(st, t[0], t[1], ws); },
          [=](St st, Ts t, Op options, Ws ws) { histc(st, t[0], {}, t[1], options, ws); }),
      planned<Scan>(
          "cumsum", "auto", {in("x", {100000}), out("y", {100000})},
          [=](Ts t) {
            return ScanDesc{t[0], t[1]};
          },
          [](const Scan& plan, St st, Ts t, Ws ws) { plan.run(st, t[0], t[1], {}, ws); },
          [=](St st, Ts t, Op options, Ws ws) { cumsum(st, t[0], {}, t[1], options, ws); }),
      planned<Scan>(
          "cumprod", "auto", {in("x", {6, 20}), out("y", {6, 20})},
          [=](Ts t) {
            return ScanDesc{t[0], t[1], 0, ScanKind::product};
          },
          [](const Scan& plan, St st, Ts t, Ws ws) { plan.run(st, t[0], t[1], {}, ws); },
          [=](St st, Ts t, Op options, Ws ws) { cumprod(st, t[0], {0}, t[1], options, ws); }),
      planned<Scan>(
          "cummax", "auto", {in("x", {100000}), out("y", {100000}), out("index", {100000}, i64)},
          [=](Ts t) { return ScanDesc{t[0], t[1], -1, ScanKind::maximum, false, false, TensorDesc(t[2])}; },
          [](const Scan& plan, St st, Ts t, Ws ws) { plan.run(st, t[0], t[1], t[2], ws); },
          [=](St st, Ts t, Op options, Ws ws) { cummax(st, t[0], {}, t[1], t[2], options, ws); }),
      planned<Scan>(
          "cummin", "auto", {in("x", {6, 20}), out("y", {6, 20})},
          [=](Ts t) {
            return ScanDesc{t[0], t[1], -1, ScanKind::minimum};
          },
          [](const Scan& plan, St st, Ts t, Ws ws) { plan.run(st, t[0], t[1], {}, ws); },
          [=](St st, Ts t, Op options, Ws ws) { cummin(st, t[0], {}, t[1], {}, options, ws); }),
      planned<Scan>(
          "cumsum_backward", "auto", {in("dy", {6, 20}), out("dx", {6, 20})},
          [=](Ts t) { return ScanDesc{t[0], t[1], -1, ScanKind::sum, false, true}; },
          [](const Scan& plan, St st, Ts t, Ws ws) { plan.run(st, t[0], t[1], {}, ws); },
          [=](St st, Ts t, Op options, Ws ws) { cumsum_backward(st, t[0], {}, t[1], options, ws); }),
      planned<CumprodBackward>(
          "cumprod_backward", "auto",
          {in("dy", {6, 20}), in("x", {6, 20}), in("y", {6, 20}), out("dx", {6, 20})},
          [=](Ts t) {
            return CumprodBackwardDesc{t[0], t[1], t[2], t[3]};
          },
          [](const CumprodBackward& plan, St st, Ts t, Ws ws) { plan.run(st, t[0], t[1], t[2], t[3], ws); },
          [=](St st, Ts t, Op options, Ws ws) {
            cumprod_backward(st, t[0], t[1], t[2], {}, t[3], options, ws);
          }),
      planned<CummaxBackward>(
          "cummax_backward", "auto", {in("dy", {6, 1}), in("index", {6, 1}, i64), out("dx", {6, 1})},
          [=](Ts t) {
            return CummaxBackwardDesc{t[0], t[1], t[2]};
          },
          [](const CummaxBackward& plan, St st, Ts t, Ws ws) { plan.run(st, t[0], t[1], t[2], ws); },
          [=](St st, Ts t, Op options, Ws ws) { cummax_backward(st, t[0], t[1], {}, t[2], options, ws); }),
  };
}

}  // namespace dlprim::test
