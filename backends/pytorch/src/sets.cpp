// Distinct elements, places in sorted sequences, membership, counts. How many distinct or repeated elements
// there are decides a result's size: that waits for the device.
#include <ATen/ExpandUtils.h>
#include <ATen/Functions.h>
#include <ATen/TensorMeta.h>
#include <ATen/TensorOperators.h>
#include <ATen/native/BucketizationUtils.h>
#include <dlprim/histogram.hpp>
#include <dlprim/searchsorted.hpp>
#include <dlprim/unique.hpp>

#include "plans.hpp"
#include "structured.hpp"

namespace ocl {

namespace {

using OptionalTensor = std::optional<at::Tensor>;
using Three = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

// Distinct elements

/// The distinct elements, for each element its place among them, and how often each one is there.
Three distinct(const at::Tensor& self, bool consecutive, bool with_inverse, bool with_counts) {
  const at::TensorOptions numbers = self.options().dtype(at::kLong);
  const int64_t room = self.numel();
  at::Tensor values = at::empty({room}, self.options()),
             inverse = with_inverse ? at::empty(self.sizes(), numbers) : at::empty({0}, numbers),
             counts = at::empty({with_counts ? room : 0}, numbers);
  if (room == 0) return {values, inverse, counts};
  const at::Tensor counted = at::empty({1}, numbers);
  const dlprim::Tensor x = view(at_least_1d(self));
  const dlprim::UniqueResults results{view(values), view(counted),
                                      with_inverse ? view(at_least_1d(inverse)) : dlprim::Tensor(),
                                      with_counts ? view(counts) : dlprim::Tensor()};
  run_plan<dlprim::Unique>(
      home_of(self), Key::of(x, results.inverse, results.counts, consecutive),
      [&] {
        return dlprim::Unique(home_of(self).context,
                              {x, results.y, results.count, description(results.inverse),
                               description(results.counts), consecutive});
      },
      [&](const dlprim::Unique& plan, const dlprim::Stream& stream) { plan.run(stream, x, results); });
  if (const int64_t count = counted.item<int64_t>(); count < room) {  // without the memory of the rest
    values = values.narrow(0, 0, count).clone();
    if (with_counts) counts = counts.narrow(0, 0, count).clone();
  }
  return {values, inverse, counts};
}

Three unique2(const at::Tensor& self, bool, bool with_inverse, bool with_counts) {
  return distinct(self, false, with_inverse, with_counts);
}

std::tuple<at::Tensor, at::Tensor> unique(const at::Tensor& self, bool, bool with_inverse) {
  const auto [values, inverse, counts] = distinct(self, false, with_inverse, false);
  return {values, inverse};
}

/// Slices along a dimension that differ from the one before.
Three distinct_slices(const at::Tensor& self, int64_t dim, bool with_inverse, bool with_counts) {
  const int64_t n = self.size(dim);
  const at::Tensor rows = self.movedim(dim, 0).reshape({n, -1});
  const at::TensorOptions numbers = self.options().dtype(at::kLong);
  const at::Tensor starts = at::ones({n}, numbers.dtype(at::kBool));
  if (n > 1) starts.narrow(0, 1, n - 1).copy_(rows.narrow(0, 1, n - 1).ne(rows.narrow(0, 0, n - 1)).any(1));
  const at::Tensor places = starts.nonzero().flatten();
  const at::Tensor inverse = with_inverse ? starts.cumsum(0).sub_(1) : at::empty({0}, numbers);
  at::Tensor counts = at::empty({0}, numbers);
  if (with_counts)
    counts =
        at::cat({places.narrow(0, 1, std::max<int64_t>(places.numel() - 1, 0)), at::full({1}, n, numbers)}) -
        places;
  return {self.index_select(dim, places), inverse, counts};
}

Three unique_consecutive(const at::Tensor& self, bool with_inverse, bool with_counts,
                         std::optional<int64_t> dim) {
  if (!dim) return distinct(self, true, with_inverse, with_counts);
  if (self.dim() > 0 && self.numel() > 0) return distinct_slices(self, *dim, with_inverse, with_counts);
  TORCH_CHECK(self.dim() > 0 && self.size(*dim) == 0,
              "unique_consecutive: there are slices, but no elements in them: the sizes are ", self.sizes());
  const at::Tensor none = at::empty({0}, self.options().dtype(at::kLong));
  return {self.clone(), none, none.clone()};
}

// Places in sorted sequences

void search(const at::Tensor& sorted, const at::Tensor& values, bool right, const at::Tensor& out) {
  if (out.numel() == 0) return;
  if (sorted.numel() == 0) {
    out.zero_();
    return;
  }
  const at::ScalarType type = at::native::result_type(sorted, values);
  const dlprim::Tensor s = view(sorted.to(type)), x = view(at_least_1d(values.to(type))),
                       y = view(at_least_1d(out));
  run_plan<dlprim::Searchsorted>(
      home_of(out), Key::of(s, x, y, right),
      [&] {
        return dlprim::Searchsorted(home_of(out).context, {s, x, y, right});
      },
      [&](const dlprim::Searchsorted& plan, const dlprim::Stream& stream) { plan.run(stream, s, x, y); });
}

at::Tensor& searchsorted_out(const at::Tensor& sorted, const at::Tensor& self, bool out_int32, bool right,
                             std::optional<c10::string_view> side, const OptionalTensor& sorter,
                             at::Tensor& out) {
  // Without the sorter: to see whether its numbers are in range would wait for them.
  at::native::searchsorted_pre_check(sorted, self, out, out_int32, right, side, at::Tensor());
  at::native::resize_output(out, self.sizes());
  const bool indirect = sorter && sorter->defined();
  TORCH_CHECK(!indirect || (sorter->sizes() == sorted.sizes() && sorter->scalar_type() == at::kLong),
              "searchsorted: the sorter is not int64, or has other sizes than the sequence");
  search(indirect ? sorted.gather(-1, *sorter) : sorted, self, right || (side && *side == "right"), out);
  return out;
}

at::Tensor places_in(const at::Tensor& sorted, const at::Tensor& self, bool out_int32, bool right,
                     std::optional<c10::string_view> side, const OptionalTensor& sorter) {
  at::Tensor out = at::empty({0}, self.options().dtype(out_int32 ? at::kInt : at::kLong));
  return searchsorted_out(sorted, self, out_int32, right, side, sorter, out);
}

at::Tensor number(const at::Scalar& value, const at::Tensor& beside) {
  return at::native::searchsorted_scalar_tensor(value, beside.device());
}

at::Tensor& searchsorted_scalar_out(const at::Tensor& sorted, const at::Scalar& self, bool out_int32,
                                    bool right, std::optional<c10::string_view> side,
                                    const OptionalTensor& sorter, at::Tensor& out) {
  return searchsorted_out(sorted, number(self, sorted), out_int32, right, side, sorter, out);
}

at::Tensor place_in(const at::Tensor& sorted, const at::Scalar& self, bool out_int32, bool right,
                    std::optional<c10::string_view> side, const OptionalTensor& sorter) {
  return places_in(sorted, number(self, sorted), out_int32, right, side, sorter);
}

at::Tensor& bucketize_out(const at::Tensor& self, const at::Tensor& boundaries, bool out_int32, bool right,
                          at::Tensor& out) {
  TORCH_CHECK(boundaries.dim() == 1, "bucketize: the boundaries have ", boundaries.dim(), " dimensions");
  return searchsorted_out(boundaries, self, out_int32, right, std::nullopt, std::nullopt, out);
}

at::Tensor buckets_of(const at::Tensor& self, const at::Tensor& boundaries, bool out_int32, bool right) {
  at::Tensor out = at::empty({0}, self.options().dtype(out_int32 ? at::kInt : at::kLong));
  return bucketize_out(self, boundaries, out_int32, right, out);
}

at::Tensor bucket_of(const at::Scalar& self, const at::Tensor& boundaries, bool out_int32, bool right) {
  return buckets_of(number(self, boundaries), boundaries, out_int32, right);
}

// Membership

/// Of each element: whether the one at its place in the sorted tests is its equal. A NaN is nobody's.
void is_in(const at::Tensor& elements, const at::Tensor& tests, bool invert, const at::Tensor& out) {
  if (out.numel() == 0) return;
  if (tests.numel() == 0) {
    out.fill_(invert);
    return;
  }
  const at::ScalarType type = at::native::result_type(elements, tests);
  const at::Tensor x = elements.to(type), sorted = std::get<0>(tests.to(type).flatten().sort());
  const at::Tensor places = at::empty(x.sizes(), x.options().dtype(at::kLong));
  search(sorted, x, false, places);
  const at::Tensor there =
      sorted.index_select(0, places.clamp_max_(sorted.numel() - 1).flatten()).view(x.sizes());
  if (invert)
    at::ne_outf(there, x, const_cast<at::Tensor&>(out));  // NOLINT: at:: takes results so
  else
    at::eq_outf(there, x, const_cast<at::Tensor&>(out));  // NOLINT
}

struct IsIn : at::meta::structured_isin_Tensor_Tensor {
  void impl(const at::Tensor& elements, const at::Tensor& tests, bool, bool invert, const at::Tensor& out) {
    is_in(elements, tests, invert, out);
  }
};
struct IsInScalar : at::meta::structured_isin_Tensor_Scalar {
  void impl(const at::Tensor& elements, const at::Scalar& test, bool, bool invert, const at::Tensor& out) {
    out.copy_(invert ? elements.ne(test) : elements.eq(test));
  }
};
struct ScalarIsIn : at::meta::structured_isin_Scalar_Tensor {
  void impl(const at::Scalar& element, const at::Tensor& tests, bool, bool invert, const at::Tensor& out) {
    at::native::resize_output(out, {});  // meta() made it empty
    const at::Tensor found = tests.eq(element).any();
    out.copy_(invert ? found.logical_not() : found);
  }
};

// Counts

/// How often each number from 0 on is there, or the sums of their weights.
at::Tensor bincount(const at::Tensor& self, const OptionalTensor& weights, c10::SymInt minlength) {
  const int64_t least = minlength.guard_int(__FILE__, __LINE__);
  const bool weighted = weights && weights->defined();
  TORCH_CHECK(least >= 0, "bincount: minlength is ", least);
  TORCH_CHECK(self.dim() == 1 && at::isIntegralType(self.scalar_type(), true),
              "bincount takes a vector of integers, this one has ", self.dim(),
              " dimensions and is of dtype ", self.scalar_type());
  TORCH_CHECK(!weighted || (weights->dim() == 1 && weights->size(0) == self.size(0)),
              "bincount: the weights are no vector of ", self.size(0));
  if (self.numel() == 0) return at::zeros({least}, self.options().dtype(at::kLong));
  const at::Tensor ends = at::stack({self.min(), self.max()}).to(at::kLong).cpu();
  const int64_t first = ends[0].item<int64_t>(), last = ends[1].item<int64_t>();
  TORCH_CHECK(first >= 0, "bincount: there is a negative number, ", first);
  const at::ScalarType type = !weighted                              ? at::kLong
                              : weights->scalar_type() == at::kFloat ? at::kFloat
                                                                     : at::kDouble;
  const at::Tensor out = at::empty({std::max(last + 1, least)}, self.options().dtype(type));
  TORCH_CHECK(serves(out), "bincount: weights that are not float32 give float64, which the device lacks");
  const dlprim::Tensor x = view(self), w = weighted ? view(weights->to(type)) : dlprim::Tensor(),
                       y = view(out);
  run_plan<dlprim::Bincount>(
      home_of(self), Key::of(x, w, y),
      [&] {
        return dlprim::Bincount(home_of(self).context, {x, description(w), y});
      },
      [&](const dlprim::Bincount& plan, const dlprim::Stream& stream) { plan.run(stream, x, w, y); });
  return out;
}

at::Tensor& histc_out(const at::Tensor& self, int64_t bins, const at::Scalar& low, const at::Scalar& high,
                      at::Tensor& out) {
  TORCH_CHECK(bins > 0, "histc: the number of bins is ", bins);
  TORCH_CHECK(self.scalar_type() == out.scalar_type(), "histc: the input is of dtype ", self.scalar_type(),
              ", the output of ", out.scalar_type());
  // Of whole numbers the range is whole too, as on CUDA.
  const bool whole = !self.is_floating_point();
  const dlprim::HistogramRange range{whole ? static_cast<double>(low.toLong()) : low.toDouble(),
                                     whole ? static_cast<double>(high.toLong()) : high.toDouble()};
  at::native::resize_output(out, {bins});
  if (self.numel() == 0) return out.zero_();
  const dlprim::Tensor x = view(at_least_1d(self)), y = view(out);
  run_plan<dlprim::Histc>(
      home_of(self), Key::of(x, y, range.low, range.high),
      [&] {
        return dlprim::Histc(home_of(self).context, {x, y, range});
      },
      [&](const dlprim::Histc& plan, const dlprim::Stream& stream) { plan.run(stream, x, y); });
  return out;
}

at::Tensor histc(const at::Tensor& self, int64_t bins, const at::Scalar& low, const at::Scalar& high) {
  at::Tensor out = at::empty({0}, self.options());
  return histc_out(self, bins, low, high, out);
}

/// Each place as often as it is to be repeated: where it lies among the sums.
at::Tensor repeat_interleave(const at::Tensor& repeats, std::optional<c10::SymInt> output_size) {
  TORCH_CHECK(repeats.dim() == 1 && (repeats.scalar_type() == at::kInt || repeats.scalar_type() == at::kLong),
              "repeat_interleave: the repeats are no vector of int32 or int64");
  if (repeats.numel() == 0) return at::empty_like(repeats);
  const at::Tensor sums = repeats.cumsum(0);
  const int64_t total = output_size ? output_size->guard_int(__FILE__, __LINE__) : sums[-1].item<int64_t>();
  const at::Tensor out = at::empty({total}, repeats.options());
  search(sums, at::arange(total, sums.options()), true, out);
  return out;
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  OCL_FUNCTION(_unique, unique)
  OCL_FUNCTION(_unique2, unique2)
  OCL_FUNCTION(unique_consecutive, unique_consecutive)
  OCL_FUNCTION(searchsorted_Tensor, places_in)
  OCL_FUNCTION(searchsorted_Tensor_out, searchsorted_out)
  OCL_FUNCTION(searchsorted_Scalar, place_in)
  OCL_FUNCTION(searchsorted_Scalar_out, searchsorted_scalar_out)
  OCL_FUNCTION(bucketize_Tensor, buckets_of)
  OCL_FUNCTION(bucketize_Tensor_out, bucketize_out)
  OCL_FUNCTION(bucketize_Scalar, bucket_of)
  OCL_CLASS(isin_Tensor_Tensor_out, IsIn)
  OCL_CLASS(isin_Tensor_Scalar_out, IsInScalar)
  OCL_CLASS(isin_Scalar_Tensor_out, ScalarIsIn)
  OCL_FUNCTION(bincount, bincount)
  OCL_FUNCTION(histc, histc)
  OCL_FUNCTION(histc_out, histc_out)
  OCL_FUNCTION(repeat_interleave_Tensor, repeat_interleave)
}

}  // namespace

}  // namespace ocl
