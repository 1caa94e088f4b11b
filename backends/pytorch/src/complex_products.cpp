// Operators over several complex numbers: products of matrices as four real ones, concatenation, choices,
// norms, products of elements.
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/native/Resize.h>

#include "complex.hpp"
#include "device.hpp"

namespace ocl {

namespace {

at::Tensor resolved(const at::Tensor& t) {
  return t.resolve_conj().resolve_neg();
}
at::Tensor pairs(const at::Tensor& t) {
  return at::view_as_real(t.resolve_conj());
}

void check_dtypes(const at::Tensor& a, const at::Tensor& b) {
  TORCH_CHECK(a.scalar_type() == b.scalar_type(),
              "expected m1 and m2 to have the same dtype, but got: ", a.scalar_type(),
              " != ", b.scalar_type());
}

/// a b, of matrices or batches of them.
at::Tensor product(const at::Tensor& a, const at::Tensor& b) {
  check_dtypes(a, b);
  const at::Tensor x = resolved(a), y = resolved(b);
  const at::Tensor xr = at::real(x).contiguous(), xi = at::imag(x).contiguous(),
                   yr = at::real(y).contiguous(), yi = at::imag(y).contiguous();
  return at::complex(at::matmul(xr, yr).sub_(at::matmul(xi, yi)),
                     at::matmul(xr, yi).add_(at::matmul(xi, yr)));
}

at::Tensor& put(const at::Tensor& value, at::Tensor& out) {
  at::native::resize_output(out, value.sizes());
  return out.copy_(value);
}

at::Tensor& mm_out(const at::Tensor& a, const at::Tensor& b, at::Tensor& out) {
  return put(product(a, b), out);
}

/// beta self + alpha (a b); beta 0 leaves self unread.
at::Tensor& add_product(const at::Tensor& self, const at::Tensor& a, const at::Tensor& b,
                        const at::Scalar& beta, const at::Scalar& alpha, at::Tensor& out) {
  const auto is = [](const at::Scalar& s, double number) {
    return s.toComplexDouble() == c10::complex<double>(number);
  };
  at::Tensor result = product(a, b);
  if (!is(alpha, 1)) result.mul_(alpha);
  if (!is(beta, 0)) result.add_(self, beta);
  return put(result, out);
}

at::Tensor& addmv_out(const at::Tensor& self, const at::Tensor& a, const at::Tensor& v,
                      const at::Scalar& beta, const at::Scalar& alpha, at::Tensor& out) {
  at::Tensor result = at::empty({a.size(0), 1}, out.options());
  add_product(self.dim() ? self.unsqueeze(-1) : self, a, v.unsqueeze(-1), beta, alpha, result);
  return put(result.squeeze(-1), out);
}

void check_vectors(const at::Tensor& a, const at::Tensor& b) {
  TORCH_CHECK(a.dim() == 1 && b.dim() == 1 && a.numel() == b.numel(),
              "dot takes two vectors of one length, these are ", a.sizes(), " and ", b.sizes());
  check_dtypes(a, b);
}
at::Tensor dot(const at::Tensor& a, const at::Tensor& b) {
  check_vectors(a, b);
  return at::mul(resolved(a), resolved(b)).sum();
}
at::Tensor vdot(const at::Tensor& a, const at::Tensor& b) {
  check_vectors(a, b);
  return at::mul(resolved(a.conj()), resolved(b)).sum();
}

at::Tensor& cat_out(const at::ITensorListRef& tensors, int64_t dim, at::Tensor& out) {
  std::vector<at::Tensor> list;
  for (const at::Tensor& t : tensors)
    if (t.dim() == out.dim() || t.numel() != 0) list.push_back(pairs(t.to(out.scalar_type())));
  if (list.empty()) return out;
  const at::Tensor result = at::cat(list, at::maybe_wrap_dim(dim, list[0].dim() - 1));
  return put(at::view_as_complex(result), out);
}

at::Tensor chosen_by(const at::Tensor& condition, const at::Tensor& a, const at::Tensor& b) {
  const at::ScalarType type = at::result_type(a, b);
  const c10::Device on = condition.device().type() == kOcl ? condition.device()
                         : a.dim()                         ? a.device()
                                                           : b.device();
  const at::Tensor chosen =
      at::where(condition.to(on).unsqueeze(-1), pairs(a.to(on, type)), pairs(b.to(on, type)));
  return at::view_as_complex(chosen.contiguous());
}
at::Tensor& where_out(const at::Tensor& condition, const at::Tensor& a, const at::Tensor& b,
                      at::Tensor& out) {
  return put(chosen_by(condition, a, b), out);
}

/// Norms are of the absolute values.
at::Tensor& norm_out(const at::Tensor& self, const at::Scalar& order, at::OptionalIntArrayRef dim,
                     bool keepdim, std::optional<at::ScalarType> dtype, at::Tensor& out) {
  if (dtype) dtype = c10::toRealValueType(*dtype);
  return at::linalg_vector_norm_out(out, self.abs(), order, dim, keepdim, dtype);
}

/// Products of elements along a dimension, of halves with each other.
at::Tensor& prod_out(const at::Tensor& self, int64_t dim, bool keepdim, std::optional<at::ScalarType> dtype,
                     at::Tensor& out) {
  const int64_t axis = at::maybe_wrap_dim(dim, self.dim());
  at::Tensor left = self.to(dtype.value_or(self.scalar_type()));
  if (left.dim() == 0) return put(left, out);
  if (left.size(axis) == 0) {
    std::vector<int64_t> sizes = left.sizes().vec();
    sizes[static_cast<size_t>(axis)] = 1;
    left = at::ones(sizes, left.options());
  }
  while (left.size(axis) > 1) {
    const int64_t n = left.size(axis), half = n / 2;
    at::Tensor next = left.narrow(axis, 0, half) * left.narrow(axis, half, half);
    left = n % 2 ? at::cat({next, left.narrow(axis, n - 1, 1)}, axis) : next;
  }
  return put(keepdim ? left : left.squeeze(axis), out);
}
at::Tensor prod(const at::Tensor& self, std::optional<at::ScalarType> dtype) {
  at::Tensor out = at::empty({}, self.options().dtype(dtype.value_or(self.scalar_type())));
  return prod_out(self.reshape({-1}), 0, false, dtype, out);
}

}  // namespace

void add_complex_products(ComplexKernels& to) {
  OCL_COMPLEX(mm_out, mm_out)
  OCL_COMPLEX(bmm_out, mm_out)
  OCL_COMPLEX(addmm_out, add_product)
  OCL_COMPLEX(baddbmm_out, add_product)
  OCL_COMPLEX(addmv_out, addmv_out)
  OCL_COMPLEX(dot, dot)
  OCL_COMPLEX(vdot, vdot)
  OCL_COMPLEX(cat_out, cat_out)
  OCL_COMPLEX(where_self, chosen_by)
  OCL_COMPLEX(where_self_out, where_out)
  OCL_COMPLEX(linalg_vector_norm_out, norm_out)
  OCL_COMPLEX(prod_int_out, prod_out)
  OCL_COMPLEX(prod, prod)
}

}  // namespace ocl
