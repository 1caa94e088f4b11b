// Moving data: between host and device, between layouts and between dtypes; filling.
#pragma once

#include <cstdint>
#include <vector>

#include <dlprim/export.hpp>
#include <dlprim/stream.hpp>
#include <dlprim/tensor.hpp>

namespace dlprim {

/// y = x, converting layout and dtype; x broadcasts to y's shape. Floats become integers by truncation,
/// anything becomes bool by != 0. Throws ValidationError.
DLPRIM_API void copy(const Stream& stream, const Tensor& x, const Tensor& y);
/// Every element of y becomes `value`.
DLPRIM_API void fill(const Stream& stream, const Tensor& y, double value);
/// A new row-major tensor with x's elements, of another dtype if asked.
DLPRIM_API Tensor contiguous(const Stream& stream, const Tensor& x);
DLPRIM_API Tensor cast(const Stream& stream, const Tensor& x, DType dtype);

/// Host to device, in row-major order of y's elements. `bytes` must be y.bytes(). The host memory may be
/// reused at once.
DLPRIM_API void write(const Stream& stream, const Tensor& y, const void* host, int64_t bytes);
/// Device to host, in row-major order of x's elements. Blocks until the data has arrived.
DLPRIM_API void read(const Stream& stream, const Tensor& x, void* host, int64_t bytes);

namespace detail {
DLPRIM_API void check_host_type(const Tensor& tensor, DType host, int64_t count);
}

/// The same with the element type and count checked.
template <class T>
void write(const Stream& stream, const Tensor& y, const std::vector<T>& host) {
  detail::check_host_type(y, dtype_for<T>(), static_cast<int64_t>(host.size()));
  write(stream, y, host.data(), y.bytes());
}
template <class T>
std::vector<T> read(const Stream& stream, const Tensor& x) {
  std::vector<T> host(static_cast<size_t>(x.numel()));
  detail::check_host_type(x, dtype_for<T>(), x.numel());
  read(stream, x, host.data(), x.bytes());
  return host;
}

}  // namespace dlprim
