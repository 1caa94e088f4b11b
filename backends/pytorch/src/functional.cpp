// The functional forms of what models call most: see functional.hpp.
#include "functional.hpp"

#include <ATen/NativeFunctions.h>

namespace ocl {

namespace {

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  OCL_FUNCTIONAL_TENSOR(add, at::native::structured_ufunc_add_CPU)
  OCL_FUNCTIONAL_TENSOR(sub, at::native::structured_sub_out)
  OCL_FUNCTIONAL_TENSOR(mul, at::native::structured_mul_out)
  OCL_FUNCTIONAL_TENSOR(div, at::native::structured_div_out)
}

}  // namespace

}  // namespace ocl
