// Along one dimension: extremes and where they are, sorting, the first k, the k-th, medians, cumulative sums
// and extremes.
#include <ATen/OpMathType.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/native/ReduceOpsUtils.h>
#include <dlprim/reduction.hpp>
#include <dlprim/scan.hpp>
#include <dlprim/sort.hpp>

#include "plans.hpp"
#include "structured.hpp"

namespace ocl {

namespace {

/// The dimension `axis`, which a reduction took away, as one of size 1 again.
at::Tensor kept(const at::Tensor& result, int axis, bool keepdim) {
  return keepdim ? result : result.unsqueeze(axis);
}

/// A reduction of dlprim's list, over the dimensions where the results have size 1.
void reduce_by_name(const char* name, const at::Tensor& self, std::initializer_list<at::Tensor> outputs) {
  const dlprim::Tensor x = view(self);
  std::vector<dlprim::Tensor> results;
  Key key = Key::of(reinterpret_cast<intptr_t>(name), x);
  for (const at::Tensor& output : outputs) key.add(results.emplace_back(view(output)));
  run_plan<dlprim::ReductionForward>(
      home_of(self), key,
      [&] {
        return dlprim::ReductionForward(home_of(self).context, {name, x, {results.begin(), results.end()}});
      },
      [&](const dlprim::ReductionForward& plan, const dlprim::Stream& stream) {
        plan.run(stream, x, {}, results);
      });
}

void arg_extreme(const char* name, const at::Tensor& self, std::optional<int64_t> dim, bool keepdim,
                 const at::Tensor& out) {
  if (out.numel() == 0) return;
  if (!dim || self.dim() == 0) {
    const at::Tensor row = self.reshape({-1});
    return reduce_by_name(name, row, {out.reshape({1})});
  }
  reduce_by_name(name, self, {kept(out, axis_of(*dim, self), keepdim)});
}

void extreme(const char* name, const at::Tensor& self, int64_t dim, bool keepdim, const at::Tensor& values,
             const at::Tensor& indices) {
  if (values.numel() == 0) return;
  if (self.dim() == 0) {
    values.copy_(self);
    indices.zero_();
    return;
  }
  const int axis = axis_of(dim, self);
  reduce_by_name(name, self, {kept(values, axis, keepdim), kept(indices, axis, keepdim)});
}

#define ARG_EXTREME(Class, base, name)                                                                   \
  struct Class : at::meta::base {                                                                        \
    void impl(const at::Tensor& self, std::optional<int64_t> dim, bool keepdim, const at::Tensor& out) { \
      arg_extreme(name, self, dim, keepdim, out);                                                        \
    }                                                                                                    \
  };
ARG_EXTREME(ArgMax, structured_argmax, "argmax")
ARG_EXTREME(ArgMin, structured_argmin, "argmin")
#undef ARG_EXTREME

#define EXTREME(Class, base, name)                                                         \
  struct Class : at::meta::base {                                                          \
    void impl(const at::Tensor& self, int64_t dim, bool keepdim, const at::Tensor& values, \
              const at::Tensor& indices) {                                                 \
      extreme(name, self, dim, keepdim, values, indices);                                  \
    }                                                                                      \
  };
EXTREME(MaxDim, structured_max_dim, "max")
EXTREME(MinDim, structured_min_dim, "min")
#undef EXTREME

struct SortStable : at::meta::structured_sort_stable {
  void impl(const at::Tensor& self, std::optional<bool>, int64_t dim, bool descending,
            const at::Tensor& values, const at::Tensor& indices) {
    if (self.numel() == 0) return;
    const dlprim::Tensor x = view(at_least_1d(self)), y = view(at_least_1d(values)),
                         places = view(at_least_1d(indices));
    const int axis = axis_of(dim, self);
    run_plan<dlprim::Sort>(
        home_of(self), Key::of(x, y, places, axis, descending),
        [&] {
          return dlprim::Sort(home_of(self).context, {x, y, places, axis, descending});
        },
        [&](const dlprim::Sort& plan, const dlprim::Stream& stream) { plan.run(stream, x, y, places); });
  }
};

struct TopK : at::meta::structured_topk {
  void impl(const at::Tensor& self, int64_t, int64_t dim, bool largest, bool sorted, const at::Tensor& values,
            const at::Tensor& indices) {
    if (values.numel() == 0) return;
    const dlprim::Tensor x = view(at_least_1d(self)), y = view(at_least_1d(values)),
                         places = view(at_least_1d(indices));
    const int axis = axis_of(dim, self);
    run_plan<dlprim::TopK>(
        home_of(self), Key::of(x, y, places, axis, largest, sorted),
        [&] {
          return dlprim::TopK(home_of(self).context, {x, y, places, axis, largest, sorted});
        },
        [&](const dlprim::TopK& plan, const dlprim::Stream& stream) { plan.run(stream, x, y, places); });
  }
};

// One element of the order, and where it is

void kth(const at::Tensor& self, int64_t k, int64_t dim, bool keepdim, dlprim::Median median,
         at::Tensor& values, at::Tensor& indices) {
  TORCH_CHECK(values.scalar_type() == self.scalar_type() && indices.scalar_type() == at::kLong,
              "outputs are of dtypes ", values.scalar_type(), " and ", indices.scalar_type(), ", not ",
              self.scalar_type(), " and int64");
  const int axis = axis_of(dim, self);
  std::vector<int64_t> shape = self.sizes().vec();
  if (!shape.empty()) {
    TORCH_CHECK_INDEX(self.size(axis) > 0, "there is no element along dimension ", axis);
    if (keepdim)
      shape[static_cast<size_t>(axis)] = 1;
    else
      shape.erase(shape.begin() + axis);
  }
  at::native::resize_output(values, shape);
  at::native::resize_output(indices, shape);
  if (values.numel() == 0) return;
  if (self.dim() == 0) {
    values.copy_(self);
    indices.zero_();
    return;
  }
  const dlprim::Tensor x = view(self), y = view(kept(values, axis, keepdim)),
                       places = view(kept(indices, axis, keepdim));
  run_plan<dlprim::KthValue>(
      home_of(self), Key::of(x, y, places, axis, k, median),
      [&] {
        return dlprim::KthValue(home_of(self).context, {x, y, places, axis, k, median});
      },
      [&](const dlprim::KthValue& plan, const dlprim::Stream& stream) { plan.run(stream, x, y, places); });
}

/// The most frequent number, of equally frequent ones the least, and where its last is: of the sorted row's
/// runs of equal numbers the first of the longest ones.
std::tuple<at::Tensor, at::Tensor> mode(const at::Tensor& self, int64_t dim, bool keepdim) {
  const int64_t axis = at::maybe_wrap_dim(dim, self.dim());
  if (self.dim() == 0) return {self.clone(), at::zeros({}, self.options().dtype(at::kLong))};
  TORCH_CHECK_INDEX(self.size(axis) > 0, "mode: there is no element along dimension ", axis);
  const auto [sorted, places] = self.sort(true, axis, false);
  const int64_t count = sorted.size(axis);
  const at::Tensor place = at::arange(count, places.options());
  std::vector<int64_t> shape(static_cast<size_t>(self.dim()), 1);
  shape[static_cast<size_t>(axis)] = count;
  at::Tensor begins = at::ones(sorted.sizes(), sorted.options().dtype(at::kBool));
  if (count > 1)
    begins.narrow(axis, 1, count - 1)
        .copy_(sorted.narrow(axis, 1, count - 1).ne(sorted.narrow(axis, 0, count - 1)));
  const at::Tensor at_place = place.view(shape);
  const at::Tensor lengths = at_place.sub(std::get<0>(at_place.mul(begins).cummax(axis)));
  const at::Tensor last = lengths.argmax(axis, true);
  const at::Tensor value = sorted.gather(axis, last), index = places.gather(axis, last);
  return {keepdim ? value : value.squeeze(axis), keepdim ? index : index.squeeze(axis)};
}

using TwoRefs = std::tuple<at::Tensor&, at::Tensor&>;

TwoRefs kthvalue(const at::Tensor& self, c10::SymInt number, int64_t dim, bool keepdim, at::Tensor& values,
                 at::Tensor& indices) {
  const int64_t k = number.guard_int(__FILE__, __LINE__), size = self.dim() ? self.size(dim) : 1;
  at::native::zero_numel_check_dims(self, at::maybe_wrap_dim(dim, self.dim()), "kthvalue()");
  TORCH_CHECK(k >= 1 && k <= size, "kthvalue: k is ", k, " of ", size);
  kth(self, k, dim, keepdim, dlprim::Median::none, values, indices);
  return {values, indices};
}

template <dlprim::Median median>
TwoRefs median_along(const at::Tensor& self, int64_t dim, bool keepdim, at::Tensor& values,
                     at::Tensor& indices) {
  at::native::zero_numel_check_dims(self, at::maybe_wrap_dim(dim, self.dim()), "median()");
  kth(self, 1, dim, keepdim, median, values, indices);
  return {values, indices};
}

template <dlprim::Median median>
at::Tensor median_of_all(const at::Tensor& self) {
  if (self.numel() == 0) return at::full({}, std::numeric_limits<double>::quiet_NaN(), self.options());
  at::Tensor value = at::empty({0}, self.options()), index = at::empty({0}, self.options().dtype(at::kLong));
  kth(self.reshape({-1}), 1, 0, false, median, value, index);
  return value;
}

/// `places`: where along the dimension the extremes are, or not defined.
void scan(dlprim::ScanKind kind, const at::Tensor& self, int64_t dim, const at::Tensor& out,
          const at::Tensor& places = {}) {
  if (out.numel() == 0) return;
  if (!at::isFloatingType(out.scalar_type()) && self.is_floating_point())
    return scan(kind, self.to(out.scalar_type()), dim, out, places);
  const dlprim::Tensor x = view(at_least_1d(self)), y = view(at_least_1d(out)),
                       index = places.defined() ? view(at_least_1d(places)) : dlprim::Tensor();
  const int axis = axis_of(dim, self);
  run_plan<dlprim::Scan>(
      home_of(self), Key::of(x, y, index, axis, kind),
      [&] {
        dlprim::ScanDesc desc{x, y};
        desc.axis = axis;
        desc.kind = kind;
        desc.index = description(index);
        return dlprim::Scan(home_of(self).context, desc);
      },
      [&](const dlprim::Scan& plan, const dlprim::Stream& stream) { plan.run(stream, x, y, index); });
}

struct CumSum : at::meta::structured_cumsum {
  void impl(const at::Tensor& self, int64_t dim, std::optional<at::ScalarType>, const at::Tensor& out) {
    scan(dlprim::ScanKind::sum, self, dim, out);
  }
};
struct CumProd : at::meta::structured_cumprod {
  void impl(const at::Tensor& self, int64_t dim, std::optional<at::ScalarType>, const at::Tensor& out) {
    scan(dlprim::ScanKind::product, self, dim, out);
  }
};

/// Maxima or minima so far, and where the last of them was.
template <dlprim::ScanKind kind>
void extremes_so_far(const at::Tensor& self, at::Tensor& values, at::Tensor& indices, int64_t dim) {
  scan(kind, self, dim, values, indices);
}

/// By doubling: after each step an element stands for twice as many, up to itself. No number is far from
/// those that it is added to, so nothing is lost, however they differ along the dimension.
at::Tensor& log_cum_sum_exp_out(const at::Tensor& self, int64_t dim, at::Tensor& out) {
  const int64_t axis = at::maybe_wrap_dim(dim, self.dim());
  at::native::resize_output(out, self.sizes());
  if (self.numel() == 0) return out;
  const int64_t count = self.dim() == 0 ? 1 : self.size(axis);
  at::Tensor x = self.to(at::toOpMathType(self.scalar_type()));
  for (int64_t step = 1; step < count; step *= 2) {
    const at::Tensor next = at::empty_like(x);
    next.narrow(axis, 0, step).copy_(x.narrow(axis, 0, step));
    at::Tensor rest = next.narrow(axis, step, count - step);
    at::logaddexp_out(rest, x.narrow(axis, step, count - step), x.narrow(axis, 0, count - step));
    x = next;
  }
  return out.copy_(x);
}

at::Tensor log_cum_sum_exp(const at::Tensor& self, int64_t dim) {
  at::Tensor out = at::empty({0}, self.options());
  return log_cum_sum_exp_out(self, dim, out);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  OCL_FLOATING(_logcumsumexp, log_cum_sum_exp)
  OCL_FLOATING(_logcumsumexp_out, log_cum_sum_exp_out)
  OCL_FUNCTION(mode, mode)
  OCL_FUNCTION(kthvalue_values, kthvalue)
  OCL_FUNCTION(median, median_of_all<dlprim::Median::median>)
  OCL_FUNCTION(median_dim_values, median_along<dlprim::Median::median>)
  OCL_FUNCTION(nanmedian, median_of_all<dlprim::Median::nan_median>)
  OCL_FUNCTION(nanmedian_dim_values, median_along<dlprim::Median::nan_median>)
  OCL_FUNCTION(_cummax_helper, extremes_so_far<dlprim::ScanKind::maximum>)
  OCL_FUNCTION(_cummin_helper, extremes_so_far<dlprim::ScanKind::minimum>)
  OCL_CLASS(argmax_out, ArgMax)
  OCL_CLASS(argmin_out, ArgMin)
  OCL_CLASS(max_dim_max, MaxDim)
  OCL_CLASS(min_dim_min, MinDim)
  OCL_CLASS(sort_values_stable, SortStable)
  OCL_CLASS(topk_values, TopK)
  OCL_CLASS(cumsum_out, CumSum)
  OCL_CLASS(cumprod_out, CumProd)
}

}  // namespace

}  // namespace ocl
