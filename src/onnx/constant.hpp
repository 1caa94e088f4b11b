// The numbers of a file's tensors in host memory, as dlprim's dtypes. What is not a tensor of numbers is
// refused here, whatever the operator that would take it.
#pragma once

#include <optional>

#include <dlprim/dtype.hpp>
#include <dlprim/safetensors.hpp>

#include "onnx/external.hpp"
#include "onnx/proto.hpp"

namespace dlprim::onnx {

/// dlprim's dtype of the same numbers; none if it has none (narrow.hpp has some of these).
std::optional<DType> dtype_of(ElementType type) noexcept;

/// Its numbers, those of narrow types one a byte, from raw_data, from the list of its type, or from a file
/// beside the model. The memory taken is that of the data that is there. Throws ValidationError of "tensor"
/// that names it and its type: a type dlprim does not have, more than 8 dimensions, a negative size, too many
/// or too few numbers, several kinds of data, a number that its type does not have.
HostTensor constant_of(const TensorMessage& tensor, ExternalFiles& files);

/// The bytes that a sparse tensor may take as a dense one; its size says nothing of the file's.
inline constexpr int64_t kMostDenseBytes = int64_t{1} << 30;
/// The dense tensor, zero where no index is, by the name of the values. Indices are a list of positions in
/// row-major order, [count], or of coordinates, [count, rank]; in any order, but none twice. Throws
/// ValidationError as above.
HostTensor constant_of(const SparseTensorMessage& sparse, ExternalFiles& files);

}  // namespace dlprim::onnx
