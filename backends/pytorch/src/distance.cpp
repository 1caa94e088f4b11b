// Distances between all rows of two tensors, and their gradient: reductions of an expression, without the
// differences in memory.
#include <ATen/ExpandUtils.h>
#include <ATen/Functions.h>
#include <dlprim/pointwise.hpp>

#include "plans.hpp"
#include "structured.hpp"

namespace ocl {

namespace {

/// The norms that have expressions of their own.
enum class Norm : uint8_t { zero, one, two, infinite, other };

Norm norm_of(double p) {
  TORCH_CHECK(p >= 0, "cdist: p is ", p);
  return p == 0          ? Norm::zero
         : p == 1        ? Norm::one
         : p == 2        ? Norm::two
         : std::isinf(p) ? Norm::infinite
                         : Norm::other;
}

dlprim::Reduction distance(Norm norm) {
  switch (norm) {
    case Norm::zero:
      return dlprim::sum_of("x0 != x1");
    case Norm::one:
      return dlprim::sum_of("fabs(x0 - x1)");
    case Norm::two:
      return dlprim::sum_of("(x0 - x1) * (x0 - x1)", "y0 = sqrt(a0)");
    case Norm::infinite:
      return dlprim::max_of("fabs(x0 - x1)");
    case Norm::other:
      return dlprim::sum_of("pow(fabs(x0 - x1), s0)", "y0 = pow(a0, 1 / s0)");
  }
  TORCH_INTERNAL_ASSERT(false);
}

/// Inputs: a row, the other row, the gradient of their distance, the distance.
dlprim::Reduction gradient(Norm norm) {
  switch (norm) {
    case Norm::one:
      return dlprim::sum_of("x2 * sign(x0 - x1)");
    case Norm::two:
      return dlprim::sum_of("(x3 == 0 ? 0 : x2 * (x0 - x1) / x3)");
    case Norm::infinite:
      return dlprim::sum_of("(fabs(x0 - x1) == x3 ? x2 * sign(x0 - x1) : 0)");
    default:
      return dlprim::sum_of("(x0 == x1 ? 0 : x2 * sign(x0 - x1) * pow(fabs(x0 - x1) / x3, s0 - 1))");
  }
}

void run(bool backward, double p, const std::vector<dlprim::Tensor>& inputs, const dlprim::Tensor& y,
         Device& on) {
  const Norm norm = norm_of(p);
  const dlprim::Reduction reduction = backward ? gradient(norm) : distance(norm);
  static const char here = 0;
  Key key = Key::of(reinterpret_cast<intptr_t>(&here), norm, backward, y);
  for (const dlprim::Tensor& x : inputs) key.add(x);
  std::vector<dlprim::Scalar> scalars;
  if (norm == Norm::other) scalars.push_back(p);
  run_plan<dlprim::Reduce>(
      on, key,
      [&] {
        return dlprim::Reduce(on.context, {inputs.begin(), inputs.end()}, {y},
                              static_cast<int>(scalars.size()), reduction);
      },
      [&](const dlprim::Reduce& plan, const dlprim::Stream& stream) {
        plan.run(stream, inputs, {y}, scalars);
      });
}

/// The sizes in front, broadcast, and two more.
std::vector<int64_t> sizes_of(const at::Tensor& x1, const at::Tensor& x2, int64_t rows, int64_t columns) {
  std::vector<int64_t> sizes =
      at::infer_size(x1.sizes().slice(0, x1.dim() - 2), x2.sizes().slice(0, x2.dim() - 2));
  sizes.insert(sizes.end(), {rows, columns});
  return sizes;
}

at::Tensor cdist(const at::Tensor& x1, const at::Tensor& x2, double p, std::optional<int64_t>) {
  TORCH_CHECK(
      x1.dim() >= 2 && x2.dim() >= 2 && x1.size(-1) == x2.size(-1) && x1.scalar_type() == x2.scalar_type(),
      "cdist: rows of sizes ", x1.sizes(), " and ", x2.sizes(), ", dtypes ", x1.scalar_type(), " and ",
      x2.scalar_type(), " do not fit");
  const at::Tensor result = at::empty(sizes_of(x1, x2, x1.size(-2), x2.size(-2)), x1.options());
  if (result.numel() == 0) return result;
  if (x1.size(-1) == 0) return result.zero_();
  run(false, p, {view(x1.unsqueeze(-2)), view(x2.unsqueeze(-3))}, view(result.unsqueeze(-1)), home_of(x1));
  return result;
}

/// With respect to x1.
at::Tensor cdist_backward(const at::Tensor& grad, const at::Tensor& x1, const at::Tensor& x2, double p,
                          const at::Tensor& distances) {
  const at::Tensor result = at::empty(sizes_of(x1, x2, x1.size(-2), x1.size(-1)), x1.options());
  if (result.numel() == 0) return result;
  if (grad.numel() == 0 || p == 0) return result.zero_();
  run(true, p,
      {view(x1.unsqueeze(-2)), view(x2.unsqueeze(-3)), view(grad.unsqueeze(-1)),
       view(distances.unsqueeze(-1))},
      view(result.unsqueeze(-2)), home_of(x1));
  return result;
}

// Of the rows of one tensor, each pair once: the part of the matrix of all pairs above its diagonal.

/// Where it lies in the matrix.
at::Tensor places_of_pairs(int64_t rows, const at::Tensor& like) {
  const at::Tensor pairs = at::triu_indices(rows, rows, 1, like.options().dtype(at::kLong));
  return pairs.select(0, 0).mul(rows).add_(pairs.select(0, 1));
}

at::Tensor pdist(const at::Tensor& x, double p) {
  TORCH_CHECK(x.dim() == 2, "pdist takes a matrix, this tensor has ", x.dim(), " dimensions");
  if (x.size(0) <= 1) return at::empty({0}, x.options());
  return ocl::cdist(x, x, p, std::nullopt).flatten().index_select(0, places_of_pairs(x.size(0), x));
}

at::Tensor pdist_backward(const at::Tensor& grad, const at::Tensor& x, double p,
                          const at::Tensor& distances) {
  const int64_t rows = x.size(0);
  if (rows <= 1) return at::zeros_like(x);
  const at::Tensor places = places_of_pairs(rows, x);
  const auto matrix = [&](const at::Tensor& pairs) {
    const at::Tensor half = at::zeros({rows * rows}, x.options()).index_copy_(0, places, pairs);
    return half.view({rows, rows}).add(half.view({rows, rows}).t());
  };
  return ocl::cdist_backward(matrix(grad), x, x, p, matrix(distances));
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  OCL_FLOATING(_pdist_forward, pdist)
  OCL_FLOATING(_pdist_backward, pdist_backward)
  OCL_FLOATING(_cdist_forward, cdist)
  OCL_FLOATING(_cdist_backward, cdist_backward)
}

}  // namespace

}  // namespace ocl
