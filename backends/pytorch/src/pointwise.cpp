// Elementwise kernels: an iterator of PyTorch's and an expression become one of dlprim's generated kernels.
// Operands come in their own dtypes and are converted to the common one in the expression; a number on the
// CPU goes along as a scalar. A plan is found by the row, the dtypes and the layout, without making a text.
#include <ATen/native/Activation.h>
#include <ATen/native/BinaryOps.h>
#include <ATen/native/Lerp.h>
#include <ATen/native/Normalization.h>
#include <ATen/native/PointwiseOps.h>
#include <ATen/native/Pow.h>
#include <ATen/native/TensorCompare.h>
#include <ATen/native/UnaryOps.h>

#include "expression.hpp"
#include "special.hpp"

namespace at::native {

namespace {

using ocl::expression;
using ocl::listed;
using ocl::Row;
using ocl::statements;

at::Scalar scalar(const at::Scalar& value) {
  return value;
}
template <class T>
at::Scalar scalar(T value) {
  return at::Scalar(value);
}

/// What a stub calls, whatever its iterator and scalars are.
template <const Row& row, class Iterator, class... Scalars>
void kernel(Iterator& iter, Scalars... scalars) {
  const std::array<at::Scalar, sizeof...(Scalars)> values{scalar(scalars)...};
  ocl::run_pointwise(row, iter, values);
}

#define STUB(stub, row)           \
  constexpr Row stub##_row = row; \
  REGISTER_PRIVATEUSE1_DISPATCH(stub, (&kernel<stub##_row>))
#define STRUCTURED(op, native, stub, row) STUB(stub, row)
#define NATIVE(op, native, stub, row) STUB(stub, row)
#define STRUCTURED_TOO(op, native)
#define NATIVE_TOO(op, native)
#include "pointwise_list.inc"

}  // namespace

}  // namespace at::native
