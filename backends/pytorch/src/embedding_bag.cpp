// Bags of embeddings: rows of a table, added up, averaged or their largest numbers for each bag. Made of the
// operators for indices.
#include <ATen/Functions.h>
#include <ATen/NativeFunctions.h>
#include <ATen/TensorOperators.h>

#include "structured.hpp"

namespace ocl {

namespace {

using OptionalTensor = std::optional<at::Tensor>;
using Four = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

enum Mode : int64_t { kSum, kMean, kMax };

at::Tensor column(const at::Tensor& t) {
  return t.unsqueeze(1);
}

/// The output, each index' bag, the bags' sizes, and for maxima whose row each number is of, -1 in an empty
/// bag. Indices that are padding are in no bag.
Four embedding_bag(const at::Tensor& weight, const at::Tensor& indices, const at::Tensor& offsets, bool,
                   int64_t mode, bool, const OptionalTensor& factors, bool include_last_offset,
                   int64_t padding) {
  const bool scaled = factors && factors->defined();
  TORCH_CHECK(weight.dim() == 2 && indices.dim() == 1 && offsets.dim() == 1,
              "embedding_bag: a table of sizes ", weight.sizes(), ", indices of ", indices.sizes(),
              ", offsets of ", offsets.sizes());
  TORCH_CHECK(!scaled || (mode == kSum && factors->sizes() == indices.sizes() &&
                          factors->scalar_type() == weight.scalar_type()),
              "embedding_bag: weights of samples are for sums, one for each index, of the table's dtype");
  const int64_t bags = offsets.size(0) - include_last_offset, n = indices.size(0), width = weight.size(1);
  TORCH_CHECK(bags >= 0, "embedding_bag: no offsets, of which the last is the end");
  const at::TensorOptions numbers = indices.options();
  const at::Tensor sizes = at::zeros({bags}, numbers);
  at::Tensor output = at::zeros({bags, width}, weight.options());
  at::Tensor rows_of_maxima = mode == kMax ? at::full({bags, width}, -1, numbers) : at::empty({0}, numbers);
  if (n == 0 || bags == 0) return {output, at::empty({0}, numbers), sizes, rows_of_maxima};
  const at::Tensor places = at::arange(n, numbers);
  const at::Tensor bag_of =
      at::searchsorted(offsets.narrow(0, 0, bags), places, numbers.dtype() == at::kInt, true).sub_(1);
  const at::Tensor counts = padding >= 0 ? indices.ne(padding) : at::ones({n}, numbers.dtype(at::kBool));
  sizes.index_add_(0, bag_of, counts.to(numbers.dtype().toScalarType()));
  at::Tensor rows = weight.index_select(0, indices);
  if (scaled) rows = rows * column(*factors);
  if (mode != kMax) {
    output.index_add_(0, bag_of, padding >= 0 ? at::where(column(counts), rows, 0) : rows);
    if (mode == kMean) output.div_(column(sizes.clamp_min(1)));
    return {output, bag_of, sizes, rows_of_maxima};
  }
  // The first row of a bag that has its largest number.
  const at::Tensor bags_of_all = column(bag_of).to(at::kLong).expand({n, width});
  const double lowest = -std::numeric_limits<double>::infinity();
  if (padding >= 0) rows = at::where(column(counts), rows, lowest);
  output.scatter_reduce_(0, bags_of_all, rows, "amax", /*include_self=*/false);
  const at::Tensor is_largest = rows.eq(output.index_select(0, bag_of)).logical_and_(column(counts));
  const at::Tensor first = at::full({bags, width}, n, numbers);
  first.scatter_reduce_(0, bags_of_all, at::where(is_largest, column(places), n), "amin");
  const at::Tensor none = column(sizes.eq(0));
  rows_of_maxima = indices.index_select(0, first.clamp_max(n - 1).flatten()).view({bags, width});
  return {output.masked_fill_(none, 0), bag_of, sizes, rows_of_maxima.masked_fill_(none, -1)};
}

at::Tensor dense_backward(const at::Tensor& grad, const at::Tensor& indices, const at::Tensor& bag_of,
                          const at::Tensor& sizes, const at::Tensor& rows_of_maxima, c10::SymInt rows,
                          bool by_frequency, int64_t mode, const OptionalTensor& factors, int64_t padding) {
  if (mode == kMax) {
    const at::Tensor there = rows_of_maxima.ge(0);
    return at::zeros({rows.guard_int(__FILE__, __LINE__), grad.size(1)}, grad.options())
        .scatter_add_(0, rows_of_maxima.clamp_min(0).to(at::kLong), at::where(there, grad, 0));
  }
  at::Tensor each = mode == kMean ? grad / column(sizes.clamp_min(1)) : grad;
  each = indices.numel() ? each.index_select(0, bag_of) : each.narrow(0, 0, 0);
  if (factors && factors->defined()) each = each * column(*factors);
  return at::embedding_dense_backward_symint(each, indices, std::move(rows), padding, by_frequency);
}

at::Tensor factors_backward(const at::Tensor& grad, const at::Tensor& weight, const at::Tensor& indices,
                            const at::Tensor&, const at::Tensor& bag_of, int64_t mode, int64_t padding) {
  TORCH_CHECK(mode == kSum, "embedding_bag: weights of samples are for sums");
  if (indices.numel() == 0) return at::empty({0}, grad.options());
  const at::Tensor products = (grad.index_select(0, bag_of) * weight.index_select(0, indices)).sum(1);
  return padding >= 0 ? at::where(indices.ne(padding), products, 0) : products;
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  OCL_FLOATING(_embedding_bag, embedding_bag)
  OCL_FLOATING(_embedding_bag_forward_only, embedding_bag)
  OCL_NATIVE(_embedding_bag_backward, _embedding_bag_backward_symint)
  OCL_FLOATING(_embedding_bag_dense_backward, dense_backward)
  OCL_FLOATING(_embedding_bag_per_sample_weights_backward, factors_backward)
}

}  // namespace

}  // namespace ocl
