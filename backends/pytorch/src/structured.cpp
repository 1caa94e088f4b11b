// Registers the operators of the lists.
#include "structured.hpp"

#include <ATen/NativeFunctions.h>

namespace ocl {

void resize_output(const at::Tensor& out, at::IntArrayRef sizes, at::IntArrayRef strides,
                   const at::TensorOptions& options) {
  TORCH_CHECK(options.dtype() == out.dtype(), "the output should be of dtype ", options.dtype(),
              ", but is of ", out.dtype());
  TORCH_CHECK(options.device() == out.device(), "the output should be on ", options.device(), ", but is on ",
              out.device());
  if (!at::native::resize_output(out, sizes)) return;
  if (!strides.empty())
    out.as_strided_(sizes, strides);
  else if (options.memory_format_opt())
    out.unsafeGetTensorImpl()->empty_tensor_restride(*options.memory_format_opt());
}

namespace {

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
#define STRUCTURED_TOO(op, type) OCL_CLASS(op, at::native::type)
#define STRUCTURED(op, type, stub, row) STRUCTURED_TOO(op, type)
#define NATIVE_TOO(op, function) OCL_NATIVE(op, function)
#define NATIVE(op, function, stub, row) NATIVE_TOO(op, function)
#define STUB(stub, row)
#include "pointwise_list.inc"
}

}  // namespace

}  // namespace ocl
