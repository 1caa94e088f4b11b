// Tensors in host memory: made of numbers, read as numbers, brought to a device and back.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <dlprim/export.hpp>
#include <dlprim/safetensors.hpp>
#include <dlprim/stream.hpp>
#include <dlprim/tensor.hpp>

namespace dlprim {

/// As many elements as the shape has, or ValidationError. A number that an integer dtype does not hold
/// becomes its nearest, NaN 0; what is behind the point is dropped.
DLPRIM_API HostTensor host_tensor(DType dtype, const Shape& shape, const std::vector<double>& elements);
/// The same exactly in 64 bits; of narrower integers the low bits stay, and u64 has all of them.
DLPRIM_API HostTensor host_tensor(DType dtype, const Shape& shape, const std::vector<int64_t>& elements);

/// The elements in row-major order, of any dtype; those of u64 from 2^63 on are negative as i64.
DLPRIM_API std::vector<double> numbers_of(const HostTensor& tensor);
DLPRIM_API std::vector<int64_t> integers_of(const HostTensor& tensor);

/// A new tensor on the stream's device.
DLPRIM_API Tensor to_device(const Stream& stream, const HostTensor& tensor);
/// Blocks until the data has arrived. `name` is the result's.
DLPRIM_API HostTensor to_host(const Stream& stream, const Tensor& tensor, const std::string& name = {});

}  // namespace dlprim
