// Operators that are neither structured nor a line of a list: small functions over the parts of this folder.
#include <ATen/Dispatch.h>
#include <ATen/ExpandUtils.h>
#include <ATen/MemoryOverlap.h>

#include "expression.hpp"
#include "structured.hpp"

namespace ocl {

namespace {

/// self where the mask is 0, the value elsewhere.
at::Tensor& masked_fill_(at::Tensor& self, const at::Tensor& mask, const at::Scalar& value) {
  static constexpr Row row = expression("b != 0 ? p : a").in_output_dtype();
  TORCH_CHECK(mask.scalar_type() == at::kBool, "masked_fill_: the mask is of dtype ", mask.scalar_type(),
              ", not bool");
  const c10::MaybeOwned<at::Tensor> expanded = at::expand_inplace(self, mask, "masked_fill_");
  at::TensorIterator iter = iterator_over(self, {self, *expanded});
  const std::array<at::Scalar, 1> scalars{value};
  run_pointwise(row, iter, scalars);
  return self;
}

at::Tensor& masked_fill_tensor_(at::Tensor& self, const at::Tensor& mask, const at::Tensor& value) {
  TORCH_CHECK(value.dim() == 0, "masked_fill_ takes a value of no dimensions, this one has ", value.dim());
  if (value.device().is_cpu()) return masked_fill_(self, mask, value.item());
  self.copy_(at::where(mask, value.to(self.scalar_type()), self));
  return self;
}

double largest_of(at::ScalarType type) {
  double largest = 0;
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, type, "largest_of", [&] {
    largest = static_cast<double>(std::numeric_limits<scalar_t>::max());
  });
  return largest;
}

/// Numbers in place of NaN and the infinities; by default 0 and the dtype's extremes.
at::Tensor& nan_to_num_out(const at::Tensor& self, std::optional<double> nan, std::optional<double> above,
                           std::optional<double> below, at::Tensor& out) {
  static constexpr Row row =
      expression("x != x ? p : x == INFINITY ? q : x == -INFINITY ? r : x").in_output_dtype();
  TORCH_CHECK(self.scalar_type() == out.scalar_type(), "nan_to_num: the output is of dtype ",
              out.scalar_type(), ", not ", self.scalar_type());
  at::native::resize_output(out, self.sizes());
  if (!self.is_floating_point()) return out.copy_(self);
  at::TensorIterator iter = iterator_over(out, {self});
  const double largest = largest_of(self.scalar_type());
  const std::array<at::Scalar, 3> scalars{nan.value_or(0), above.value_or(largest), below.value_or(-largest)};
  run_pointwise(row, iter, scalars);
  return out;
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  OCL_FUNCTION(masked_fill__Scalar, masked_fill_)
  OCL_FUNCTION(masked_fill__Tensor, masked_fill_tensor_)
  OCL_FUNCTION(nan_to_num_out, nan_to_num_out)
}

}  // namespace

}  // namespace ocl
