// Sort, top-k, k-th value and median: checks, the lists of engines, the calls. The engines are in
// sort_<engine>.cpp, top_k_<engine>.cpp and kth_value.cpp.
#include <climits>

#include "core/composed.hpp"
#include "core/engine.hpp"
#include "ops/sort/sort_impl.hpp"

namespace dlprim::detail {
template <>
inline constexpr int kFields<SortDesc> = 5;
template <>
inline constexpr int kFields<TopKDesc> = 6;
template <>
inline constexpr int kFields<KthValueDesc> = 6;
}  // namespace dlprim::detail

namespace dlprim {
namespace detail {

extern const SortEngine kSortLanes, kSortRows, kSortPieces, kSortBitonic, kSortRadix, kSortBoostCompute,
    kTopKFilter, kTopKSelect, kKthRows, kKthSelect, kKthBitonic;

namespace {

/// What the operators have in common.
struct Asked {
  const char* op;
  const TensorDesc& x;
  const std::optional<TensorDesc>&y, &indices;
  int axis;
  bool descending;
  bool top = false;  ///< part of the axis is wanted
  bool sorted = true;
  int64_t k = 0;  ///< of a single element, from 1 on; 0: none is asked for
  Median median = Median::none;
};

// A whole sort of short rows, of which the front is kept, is as fast as selecting.
constexpr EngineList<SortProblem, SortImpl> kSortEngines = {&kSortLanes,   &kSortRows,  &kSortPieces,
                                                            &kSortBitonic, &kSortRadix, &kSortBoostCompute},
                                            kTopKEngines = {&kTopKFilter, &kSortLanes,   &kSortRows,
                                                            &kSortPieces, &kSortBitonic, &kTopKSelect,
                                                            &kSortRadix},
                                            kKthEngines = {&kKthRows, &kKthBitonic, &kKthSelect};

int to_count(int64_t size) {
  require(size < INT_MAX, "x", "size ", size, " along the axis is not less than ", INT_MAX);
  return static_cast<int>(size);
}

void check_output(const char* name, const std::optional<TensorDesc>& desc, const Shape& shape) {
  if (!desc) return;
  require_shape(name, *desc, shape);
  require_writable(name, *desc);
}

SortProblem problem_of(const Asked& a) {
  require_strides("x", a.x);
  require(a.x.shape.size() >= 1, "x", "rank 0 must be 1 or more");
  require(a.y || a.indices, "y", "neither values nor indices are wanted");
  const int axis = normalize_axis("axis", a.axis, a.x.shape.size());
  Shape shape = a.x.shape;
  if (a.top) {
    const TensorDesc& first = a.y ? *a.y : *a.indices;
    require_rank(a.y ? "y" : "indices", first, shape.size());
    require(first.shape[axis] <= shape[axis], "k", first.shape[axis], " is more than the ", shape[axis],
            " elements along axis ", axis);
    shape[axis] = first.shape[axis];
  }
  check_output("y", a.y, shape);
  check_output("indices", a.indices, shape);
  if (a.y) require_dtype("y", *a.y, a.x.dtype);
  if (a.indices)
    require(a.indices->dtype == DType::i32 || a.indices->dtype == DType::i64, "indices", "dtype ",
            name_of(a.indices->dtype), " must be i32 or i64");

  const TensorDesc none(shape);
  SortProblem p{SortRows({&a.x, a.y ? &*a.y : &none, a.indices ? &*a.indices : &none}, axis)};
  p.n = to_count(a.x.shape[axis]);
  p.k = to_count(shape[axis]);
  p.dtype = a.x.dtype;
  if (a.indices) p.index = a.indices->dtype;
  p.y = a.y.has_value();
  p.indices = a.indices.has_value();
  p.descending = a.descending;
  p.sorted = a.sorted;
  if (a.k) {
    require(p.k == 1, a.y ? "y" : "indices", "size ", p.k, " along axis ", axis, " must be 1");
    require(a.k >= 1 && a.k <= p.n, "k", a.k, " does not lie in [1, ", p.n, "]");
    p.rank = a.median == Median::none ? static_cast<int>(a.k) - 1 : (p.n - 1) / 2;
    p.median = a.median;
    p.one = true;
  }
  return p;
}

std::shared_ptr<const SortImpl> plan(const Context& context, const Asked& asked, const Options& options,
                                     std::shared_ptr<const PlanInfo>& info) {
  const SortProblem p = problem_of(asked);
  PlanInfo made;
  std::shared_ptr<const SortImpl> impl = choose_engine(asked.op,
                                                       asked.k     ? kKthEngines
                                                       : asked.top ? kTopKEngines
                                                                   : kSortEngines,
                                                       context, p, options, made);
  made.text = cat("op=", asked.op, " engine=", made.engine, " x=", brief(asked.x), " axis=", asked.axis);
  made.bytes = traffic({asked.x});
  for (const auto& [name, desc] : {std::pair("y", &asked.y), std::pair("indices", &asked.indices)})
    if (*desc) {
      made.text += cat(" ", name, "=", brief(**desc));
      made.bytes += traffic({**desc});
    }
  made.text += cat(" descending=", asked.descending);
  if (asked.k)
    made.text += cat(" k=", p.rank + 1);
  else if (asked.top)
    made.text += cat(" sorted=", asked.sorted);
  info = std::make_shared<const PlanInfo>(std::move(made));
  return impl;
}

template <class Desc>
void run_plan(const PlanInfo& info, const SortImpl& impl, const Desc& desc, const Stream& stream,
              const SortTensors& t, const Tensor& workspace) {
  require_stream(info, stream);
  require_tensor("x", t.x, stream.context(), desc.x);
  require_optional("y", t.y, stream.context(), desc.y);
  require_optional("indices", t.indices, stream.context(), desc.indices);
  require_apart({{"y", t.y}, {"indices", t.indices}, {"workspace", workspace}}, {{"x", t.x}});
  if (impl.p.at.rows == 0 || impl.p.k == 0) return;
  const Tensor ws = workspace_for(info, stream, workspace);
  const OperatorScope scope(stream, info);
  impl.run(stream, t, ws);
}

/// k of a median does not matter.
int64_t checked_k(const KthValueDesc& desc) {
  if (desc.median != Median::none) return 1;
  require(desc.k >= 1, "k", desc.k, " is below 1");
  return desc.k;
}

template <class Desc>
void describe(Desc& desc, const Tensor& x, const Tensor& y, const Tensor& indices) {
  require_defined({{"x", x}});
  desc.x = x;
  if (y.defined()) desc.y = y;
  if (indices.defined()) desc.indices = indices;
}

}  // namespace
}  // namespace detail

using namespace detail;

Sort::Sort(const Context& context, const SortDesc& desc, const Options& options)
    : Plan(nullptr),
      desc_(desc),
      impl_(plan(context, {"sort", desc.x, desc.y, desc.indices, desc.axis, desc.descending}, options,
                 info_)) {}

void Sort::run(const Stream& stream, const Tensor& x, const Tensor& y, const Tensor& indices,
               const Tensor& workspace) const {
  run_plan(*info_, *impl_, desc_, stream, {x, y, indices}, workspace);
}

TopK::TopK(const Context& context, const TopKDesc& desc, const Options& options)
    : Plan(nullptr),
      desc_(desc),
      impl_(plan(context, {"top_k", desc.x, desc.y, desc.indices, desc.axis, desc.largest, true, desc.sorted},
                 options, info_)) {}

void TopK::run(const Stream& stream, const Tensor& x, const Tensor& y, const Tensor& indices,
               const Tensor& workspace) const {
  run_plan(*info_, *impl_, desc_, stream, {x, y, indices}, workspace);
}

KthValue::KthValue(const Context& context, const KthValueDesc& desc, const Options& options)
    : Plan(nullptr),
      desc_(desc),
      impl_(plan(context,
                 {desc.median == Median::none     ? "kth_value"
                  : desc.median == Median::median ? "median"
                                                  : "nan_median",
                  desc.x, desc.y, desc.indices, desc.axis, false, true, true, checked_k(desc), desc.median},
                 options, info_)) {}

void KthValue::run(const Stream& stream, const Tensor& x, const Tensor& y, const Tensor& indices,
                   const Tensor& workspace) const {
  run_plan(*info_, *impl_, desc_, stream, {x, y, indices}, workspace);
}

void sort(const Stream& stream, const Tensor& x, const SortParams& params, const Tensor& y,
          const Tensor& indices, const Options& options, const Tensor& workspace) {
  SortDesc desc;
  describe(desc, x, y, indices);
  desc.axis = params.axis;
  desc.descending = params.descending;
  cached_plan<Sort>(stream, "sort", desc, options, workspace)->run(stream, x, y, indices, workspace);
}

void top_k(const Stream& stream, const Tensor& x, const TopKParams& params, const Tensor& y,
           const Tensor& indices, const Options& options, const Tensor& workspace) {
  TopKDesc desc;
  describe(desc, x, y, indices);
  desc.axis = params.axis;
  desc.largest = params.largest;
  desc.sorted = params.sorted;
  cached_plan<TopK>(stream, "top_k", desc, options, workspace)->run(stream, x, y, indices, workspace);
}

namespace {

void kth(const Stream& stream, KthValueDesc desc, const Tensor& x, const Tensor& y, const Tensor& indices,
         const Options& options, const Tensor& workspace) {
  describe(desc, x, y, indices);
  cached_plan<KthValue>(stream, "kth_value", desc, options, workspace)->run(stream, x, y, indices, workspace);
}

KthValueDesc kth_desc(int axis, int64_t k, Median median) {
  KthValueDesc desc;
  desc.axis = axis, desc.k = k, desc.median = median;
  return desc;
}

}  // namespace

void kth_value(const Stream& stream, const Tensor& x, int64_t k, int axis, const Tensor& y,
               const Tensor& indices, const Options& options, const Tensor& workspace) {
  kth(stream, kth_desc(axis, k, Median::none), x, y, indices, options, workspace);
}
void median(const Stream& stream, const Tensor& x, int axis, const Tensor& y, const Tensor& indices,
            const Options& options, const Tensor& workspace) {
  kth(stream, kth_desc(axis, 1, Median::median), x, y, indices, options, workspace);
}
void nan_median(const Stream& stream, const Tensor& x, int axis, const Tensor& y, const Tensor& indices,
                const Options& options, const Tensor& workspace) {
  kth(stream, kth_desc(axis, 1, Median::nan_median), x, y, indices, options, workspace);
}

}  // namespace dlprim
