// Operators that are neither structured nor a line of a list: small functions over the parts of this folder.
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

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  OCL_FUNCTION(masked_fill__Scalar, masked_fill_)
  OCL_FUNCTION(masked_fill__Tensor, masked_fill_tensor_)
}

}  // namespace

}  // namespace ocl
