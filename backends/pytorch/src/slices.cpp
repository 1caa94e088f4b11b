// Distinct slices along a dimension, and reductions of segments of one.
#include <ATen/OpMathType.h>
#include <ATen/TensorOperators.h>
#include <ATen/WrapDimUtils.h>

#include "structured.hpp"

namespace ocl {

namespace {

using OptionalTensor = std::optional<at::Tensor>;
using Three = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

// Distinct slices

/// Of each column: how many different smaller numbers there are.
at::Tensor ranks_of(const at::Tensor& columns) {
  const int64_t rows = columns.size(0);
  const auto [sorted, places] = columns.sort(true, 0, false);
  const at::Tensor differs = at::zeros(columns.sizes(), places.options());
  if (rows > 1)
    differs.narrow(0, 1, rows - 1).copy_(sorted.narrow(0, 1, rows - 1).ne(sorted.narrow(0, 0, rows - 1)));
  return at::empty_like(differs).scatter_(0, places, differs.cumsum(0));
}

/// In the order of their first numbers, then of their second ones, and so on. Ranks of columns, two by two,
/// are numbers that order pairs of columns: so log2 of the columns sorts are enough, of all pairs at a time.
Three unique_dim(const at::Tensor& self, int64_t dim, bool, bool with_inverse, bool with_counts) {
  const int64_t axis = at::maybe_wrap_dim(dim, self.dim());
  const at::TensorOptions numbers = self.options().dtype(at::kLong);
  const at::Tensor none = at::empty({0}, numbers);
  if (self.dim() == 0 || self.size(axis) == 0) {
    TORCH_CHECK(self.dim() > 0, "unique_dim: there is no dimension");
    TORCH_CHECK(std::count(self.sizes().begin(), self.sizes().end(), 0) == 1,
                "unique_dim: there are no slices, nor elements in them: the sizes are ", self.sizes());
    return {self.clone(), none, none.clone()};
  }
  TORCH_CHECK(self.numel() > 0, "unique_dim: there are no elements in slices: the sizes are ", self.sizes());
  const int64_t rows = self.size(axis);
  at::Tensor ranks = ranks_of(self.movedim(axis, 0).reshape({rows, -1}));
  while (ranks.size(1) > 1) {
    const int64_t pairs = ranks.size(1) / 2;
    const at::Tensor odd = ranks.narrow(1, 2 * pairs, ranks.size(1) % 2),
                     paired = ranks.narrow(1, 0, 2 * pairs).reshape({rows, pairs, 2});
    ranks = ranks_of(at::cat({paired.select(2, 0).mul(rows).add_(paired.select(2, 1)), odd}, 1));
  }
  const at::Tensor inverse = ranks.flatten();
  const auto [sorted, places] = inverse.sort(true, 0, false);
  const at::Tensor counts = std::get<2>(at::unique_consecutive(sorted, false, true));
  const at::Tensor first = places.index_select(0, counts.cumsum(0).sub_(counts));
  return {self.index_select(axis, first), with_inverse ? inverse : none, with_counts ? counts : none.clone()};
}

// Segments

struct Segments {
  Segments(const at::Tensor& data, const OptionalTensor& given_lengths, const OptionalTensor& given_offsets,
           int64_t dim)
      : axis(at::maybe_wrap_dim(dim, data.dim())) {
    const bool by_offsets = given_offsets && given_offsets->defined();
    TORCH_CHECK(by_offsets || (given_lengths && given_lengths->defined()),
                "segment_reduce: there are neither lengths nor offsets");
    const at::Tensor given = (by_offsets ? *given_offsets : *given_lengths).to(at::kLong);
    TORCH_CHECK(given.dim() == axis + 1, "segment_reduce along dimension ", axis,
                ": lengths or offsets have ", given.dim(), " dimensions");
    const at::Tensor offsets = by_offsets ? given : at::constant_pad_nd(given.cumsum(-1), {1, 0}, 0);
    count = offsets.size(-1) - 1;
    std::vector<int64_t> shape = data.sizes().slice(0, static_cast<size_t>(axis) + 1).vec();
    const at::Tensor places = at::arange(shape.back(), given.options()).expand(shape).contiguous();
    lengths = stretched(offsets.narrow(-1, 1, count) - offsets.narrow(-1, 0, count), data);
    segment =
        stretched(at::searchsorted(offsets.contiguous(), places, false, true), data).expand(data.sizes());
  }

  /// With the data's further dimensions, of size 1.
  static at::Tensor stretched(at::Tensor t, const at::Tensor& data) {
    while (t.dim() < data.dim()) t = t.unsqueeze(-1);
    return t;
  }
  /// Sizes of what has a number for each segment, and one in front and behind for elements outside of all.
  std::vector<int64_t> sizes(const at::Tensor& data) const {
    std::vector<int64_t> shape = data.sizes().vec();
    shape[static_cast<size_t>(axis)] = count + 2;
    return shape;
  }
  at::Tensor inner(const at::Tensor& all) const { return all.narrow(axis, 1, count); }
  /// For each element of the data its segment's number; 0 outside of all.
  at::Tensor spread(const at::Tensor& numbers) const {
    std::vector<int64_t> shape = numbers.sizes().vec();
    shape[static_cast<size_t>(axis)] = count + 2;
    const at::Tensor all = at::zeros(shape, numbers.options());
    inner(all).copy_(numbers);
    return all.gather(axis, segment);
  }
  at::Tensor fold(const at::Tensor& data, c10::string_view how, const at::Scalar& first) const {
    return inner(
        at::full(sizes(data), first, data.options()).scatter_reduce_(axis, segment, data, how, true));
  }

  int64_t axis, count;
  at::Tensor lengths;  ///< of segments, with as many dimensions as the data
  at::Tensor segment;  ///< of each element, counted from 1
};

at::Tensor segment_reduce(const at::Tensor& data, c10::string_view reduce, const OptionalTensor& lengths,
                          const OptionalTensor&, const OptionalTensor& offsets, int64_t axis, bool,
                          const std::optional<at::Scalar>& initial) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const Segments s(data, lengths, offsets, axis);
  const at::Tensor x = data.to(at::toOpMathType(data.scalar_type()));
  at::Tensor y;
  if (reduce == "max")
    y = s.fold(x, "amax", initial.value_or(-infinity));
  else if (reduce == "min")
    y = s.fold(x, "amin", initial.value_or(infinity));
  else if (reduce == "prod")
    y = s.fold(x, "prod", initial.value_or(1));
  else
    y = s.fold(x, "sum", initial.value_or(0));
  if (reduce == "mean") {
    const at::Tensor mean = y / s.lengths;
    y = initial ? at::where(s.lengths.eq(0), y, mean) : mean;  // else 0 / 0
  } else {
    TORCH_CHECK(reduce == "max" || reduce == "min" || reduce == "prod" || reduce == "sum",
                "segment_reduce: there is no reduction '", reduce, "'");
  }
  return y.to(data.scalar_type()).contiguous();
}

/// An extreme's gradient is shared by the elements that have it. One zero's is the product of the others.
at::Tensor segment_reduce_backward(const at::Tensor& grad, const at::Tensor& output, const at::Tensor& data,
                                   c10::string_view reduce, const OptionalTensor& lengths,
                                   const OptionalTensor& offsets, int64_t axis,
                                   const std::optional<at::Scalar>& initial) {
  const Segments s(data, lengths, offsets, axis);
  if (reduce == "sum") return s.spread(grad);
  if (reduce == "mean") return s.spread(grad / s.lengths);
  const at::ScalarType wide = at::toOpMathType(data.scalar_type());
  const at::Tensor x = data.to(wide), dy = s.spread(grad.to(wide)), y = s.spread(output.to(wide));
  if (reduce != "prod") {
    const at::Tensor hits = at::logical_or(x.eq(y), x.isnan()).to(wide);
    return (hits * dy / s.spread(s.fold(hits, "sum", 0)).clamp_min(1)).to(data.scalar_type());
  }
  const at::Tensor odd = at::logical_or(x.eq(0), x.isnan());
  const at::Tensor alone = s.spread(s.fold(odd.to(wide), "sum", 0)).eq(1);
  const at::Tensor rest = s.spread(s.fold(x.masked_fill(odd, 1), "prod", initial.value_or(1)));
  return (dy * at::where(odd, at::where(alone, rest, y), y / x)).to(data.scalar_type());
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  OCL_FUNCTION(unique_dim, unique_dim)
  OCL_FLOATING(segment_reduce, segment_reduce)
  OCL_FLOATING(_segment_reduce_backward, segment_reduce_backward)
}

}  // namespace

}  // namespace ocl
