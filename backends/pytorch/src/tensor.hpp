// PyTorch's tensors, and the operands of its iterators, as dlprim's. Nothing here copies or launches.
#pragma once

#include <functional>
#include <initializer_list>
#include <optional>

#include <ATen/TensorIterator.h>
#include <ATen/core/Tensor.h>
#include <dlprim/tensor.hpp>

#include "device.hpp"

namespace ocl {

/// dlprim's dtype for PyTorch's; none for complex, quantised and 8-bit floats and unsigned integers above 8
/// bits.
std::optional<dlprim::DType> dtype_of(c10::ScalarType type) noexcept;
/// The same, throwing with the dtype's name.
dlprim::DType require_dtype(c10::ScalarType type);
/// Whether kernels on the device compute with this dtype: dtype_of knows it, and f64 only where there is
/// double.
bool computes(const Device& device, c10::ScalarType type) noexcept;

Device& home_of(const at::TensorBase& tensor);

/// More dimensions than dlprim's tensors have. The operator runs on the CPU then.
class RankError : public c10::NotImplementedError {
 public:
  using c10::NotImplementedError::NotImplementedError;
};

/// The tensor's elements, with its shape and strides; none of an undefined one. Throws RankError for more
/// than 8 dimensions.
dlprim::Tensor view(const at::TensorBase& tensor);
dlprim::Tensor view(const std::optional<at::Tensor>& tensor);
/// What plans are made of.
std::optional<dlprim::TensorDesc> description(const dlprim::Tensor& tensor);
/// The tensor with a dimension more if it has none.
at::Tensor at_least_1d(const at::Tensor& tensor);
/// The dimension as dlprim counts it, from 0; of a tensor without any, as at_least_1d makes it.
int axis_of(int64_t dim, const at::Tensor& t);
/// What TensorDesc says of it.
inline bool is_aligned(const dlprim::Tensor& t) {
  return t.offset() * static_cast<int64_t>(dlprim::size_of(t.dtype())) % 16 == 0;
}
/// Throws RankError for more dimensions than dlprim's tensors have.
void check_rank(int64_t rank);
/// An iterator over a given output, and inputs that broadcast to it, of any dtypes. It keeps them.
at::TensorIterator iterator_over(const at::TensorBase& output,
                                 std::initializer_list<std::reference_wrapper<const at::Tensor>> inputs = {});
/// PyTorch's sizes. Throws RankError for more than 8.
dlprim::Dims dims_of(c10::IntArrayRef values);

/// The tensor's memory from its first element on, as `count` elements of another dtype.
dlprim::Tensor flat(const at::TensorBase& tensor, dlprim::DType dtype, int64_t count);

/// How an iterator's operand is looked at.
enum class Elements : uint8_t {
  numbers,  ///< in its dtype
  bits      ///< as integers of the same size; 16 bytes as two, along a dimension of their own at the end
};
/// Operand `index` of the iterator, on a device; the iterator's fastest dimension is the last one.
dlprim::Tensor operand(const at::TensorIteratorBase& iter, int index, Elements elements = Elements::numbers);

}  // namespace ocl
