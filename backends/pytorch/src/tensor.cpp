// Views: PyTorch's sizes and strides over a storage's block.
#include "tensor.hpp"

#include <ATen/WrapDimUtils.h>

#include "memory.hpp"

namespace ocl {

namespace {

/// An integer of the element's size. 16 bytes are two of them.
dlprim::DType word_of(size_t bytes) {
  switch (bytes) {
    case 1:
      return dlprim::DType::u8;
    case 2:
      return dlprim::DType::i16;
    case 4:
      return dlprim::DType::i32;
    default:
      return dlprim::DType::i64;
  }
}

}  // namespace

dlprim::Dims dims_of(c10::IntArrayRef values) {
  check_rank(static_cast<int64_t>(values.size()));
  dlprim::Dims dims;
  for (const int64_t value : values) dims.push_back(value);
  return dims;
}

std::optional<dlprim::DType> dtype_of(c10::ScalarType type) noexcept {
  switch (type) {
    case at::kFloat:
      return dlprim::DType::f32;
    case at::kHalf:
      return dlprim::DType::f16;
    case at::kBFloat16:
      return dlprim::DType::bf16;
    case at::kDouble:
      return dlprim::DType::f64;
    case at::kChar:
      return dlprim::DType::i8;
    case at::kByte:
      return dlprim::DType::u8;
    case at::kShort:
      return dlprim::DType::i16;
    case at::kInt:
      return dlprim::DType::i32;
    case at::kLong:
      return dlprim::DType::i64;
    case at::kBool:
      return dlprim::DType::boolean;
    default:
      return std::nullopt;
  }
}

dlprim::DType require_dtype(c10::ScalarType type) {
  const std::optional<dlprim::DType> dtype = dtype_of(type);
  TORCH_CHECK_NOT_IMPLEMENTED(dtype, "ocl: no kernels for ", type);
  return *dtype;
}

bool computes(const Device& device, c10::ScalarType type) noexcept {
  return dtype_of(type) && (type != at::kDouble || device.fp64);
}

Device& home_of(const at::TensorBase& tensor) {
  return device(tensor.device().index());
}

dlprim::Tensor view(const at::TensorBase& tensor) {
  if (!tensor.defined()) return {};
  const Place place = place_of(tensor.storage());
  const auto size = static_cast<int64_t>(tensor.itemsize());
  TORCH_CHECK(place.offset % size == 0, "a tensor of ", tensor.scalar_type(), " begins at byte ",
              place.offset);
  return place.block.memory.reinterpret(require_dtype(tensor.scalar_type()))
      .as_strided(dims_of(tensor.sizes()), dims_of(tensor.strides()),
                  tensor.numel() == 0 ? 0 : tensor.storage_offset() + place.offset / size);
}

dlprim::Tensor view(const std::optional<at::Tensor>& tensor) {
  return tensor ? view(*tensor) : dlprim::Tensor();
}

std::optional<dlprim::TensorDesc> description(const dlprim::Tensor& tensor) {
  if (!tensor.defined()) return std::nullopt;
  return tensor;
}

int axis_of(int64_t dim, const at::Tensor& t) {
  return static_cast<int>(at::maybe_wrap_dim(dim, t.dim()));
}

void check_rank(int64_t rank) {
  if (rank > dlprim::kMaxRank)
    throw RankError(
        {__func__, __FILE__, static_cast<uint32_t>(__LINE__)},
        c10::str("ocl: tensors of ", rank, " dimensions that do not fold into 8 have no kernels"));
}

at::TensorIterator iterator_over(const at::TensorBase& output,
                                 std::initializer_list<std::reference_wrapper<const at::Tensor>> inputs) {
  at::TensorIteratorConfig config;
  config.add_owned_output(output).resize_outputs(false).check_all_same_dtype(false);
  for (const at::Tensor& input : inputs) config.add_owned_const_input(input);
  return config.build();
}

at::Tensor at_least_1d(const at::Tensor& tensor) {
  return tensor.dim() ? tensor : tensor.unsqueeze(0);
}

dlprim::Tensor flat(const at::TensorBase& tensor, dlprim::DType dtype, int64_t count) {
  const Place place = place_of(tensor.storage());
  const auto offset =
      count == 0 ? 0 : tensor.storage_offset() * static_cast<int64_t>(tensor.itemsize()) + place.offset;
  return place.block.memory.reinterpret(dtype).as_strided(
      {count}, {1}, offset / static_cast<int64_t>(dlprim::size_of(dtype)));
}

dlprim::Tensor operand(const at::TensorIteratorBase& iter, int index, Elements elements) {
  const at::OperandInfo& op = iter.operand(index);
  const Block& block = place_of(op.tensor_base().storage()).block;
  const size_t bytes = c10::elementSize(op.current_dtype);
  const dlprim::DType dtype = elements == Elements::bits ? word_of(bytes) : require_dtype(op.current_dtype);
  const auto word = static_cast<int64_t>(dlprim::size_of(dtype));
  const bool pairs = elements == Elements::bits && bytes == 16;
  const int rank = iter.ndim();
  check_rank(rank + pairs);
  dlprim::Dims shape, strides;
  for (int i = rank - 1; i >= 0; i--) {
    shape.push_back(iter.shape()[i]);
    strides.push_back(op.stride_bytes[i] / word);
  }
  if (pairs) shape.push_back(2), strides.push_back(1);
  const auto offset = iter.numel() == 0 || op.tensor_base().numel() == 0
                          ? 0
                          : static_cast<int64_t>(reinterpret_cast<uintptr_t>(op.data) - block.address);
  return block.memory.reinterpret(dtype).as_strided(shape, strides, offset / word);
}

}  // namespace ocl
