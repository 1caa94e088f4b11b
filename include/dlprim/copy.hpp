// Moving data: between host and device, between layouts and between dtypes; filling.
#pragma once

#include <cstdint>
#include <type_traits>
#include <vector>

#include <dlprim/export.hpp>
#include <dlprim/plan.hpp>
#include <dlprim/scalar.hpp>
#include <dlprim/stream.hpp>
#include <dlprim/tensor.hpp>

namespace dlprim {

/// x broadcasts to y's shape. Any dtypes, any strides.
struct CopyDesc {
  TensorDesc x, y;
};

/// y = x, converting layout and dtype. Floats become integers by truncation, anything becomes bool by != 0.
class DLPRIM_API Copy : public Plan {
 public:
  /// Engines: interleave, for a few planes that become neighbours, or come from such; tiles, for transposed
  /// tensors; generated, for everything. Throws ValidationError (shapes, engine), BuildError.
  explicit Copy(const Context& context, const CopyDesc& desc, const Options& options = {});
  /// y shares no memory with x, or is the same elements.
  void run(const Stream& stream, const Tensor& x, const Tensor& y, const Tensor& workspace = {}) const;

  struct Impl;

 private:
  std::shared_ptr<const Impl> impl_;
};

/// Any dtype, any strides.
struct FillDesc {
  TensorDesc y;
};

/// Every element of y becomes a number, converted as Copy does.
class DLPRIM_API Fill : public Plan {
 public:
  /// Its engine is `generated`. Throws ValidationError, BuildError.
  explicit Fill(const Context& context, const FillDesc& desc, const Options& options = {});
  /// Throws ValidationError for a number that is no 64-bit integer if y holds integers.
  void run(const Stream& stream, Scalar value, const Tensor& y, const Tensor& workspace = {}) const;

  struct Impl;

 private:
  std::shared_ptr<const Impl> impl_;
};

/// Finds the plan in the context's cache, or makes it, and runs it.
DLPRIM_API void copy(const Stream& stream, const Tensor& x, const Tensor& y, const Options& options = {},
                     const Tensor& workspace = {});
DLPRIM_API void fill(const Stream& stream, Scalar value, const Tensor& y, const Options& options = {},
                     const Tensor& workspace = {});
/// A new row-major tensor with x's elements, of another dtype if asked. Its plan: Copy.
DLPRIM_API Tensor contiguous(const Stream& stream, const Tensor& x, const Options& options = {},
                             const Tensor& workspace = {});
DLPRIM_API Tensor cast(const Stream& stream, const Tensor& x, DType dtype, const Options& options = {},
                       const Tensor& workspace = {});

// Transfers are no operators: they take no options and no workspace.

/// Host to device, in row-major order of y's elements. `bytes` must be y.bytes(). The host memory may be
/// reused at once.
DLPRIM_API void write(const Stream& stream, const Tensor& y, const void* host, int64_t bytes);
/// The same without a copy of the host memory, which must stay as it is until the event is done. Pinned
/// memory is read at full speed.
DLPRIM_API Event write_async(const Stream& stream, const Tensor& y, const void* host, int64_t bytes);
/// Device to host, in row-major order of x's elements. Blocks until the data has arrived.
DLPRIM_API void read(const Stream& stream, const Tensor& x, void* host, int64_t bytes);
/// The same without waiting: the data has arrived when the event is done. Until then `host` must stay, and x
/// may be let go.
DLPRIM_API Event read_async(const Stream& stream, const Tensor& x, void* host, int64_t bytes);

namespace detail {
DLPRIM_API void check_host_type(const char* argument, const Tensor& tensor, DType host, int64_t count);
/// std::vector<bool> is no array: its elements go by way of bytes.
template <class T>
using HostElement = std::conditional_t<std::is_same_v<T, bool>, unsigned char, T>;
}  // namespace detail

/// The same with the element type and count checked.
template <class T>
void write(const Stream& stream, const Tensor& y, const std::vector<T>& host) {
  detail::check_host_type("y", y, dtype_for<T>(), static_cast<int64_t>(host.size()));
  if constexpr (std::is_same_v<T, bool>) {
    const std::vector<detail::HostElement<T>> bytes(host.begin(), host.end());
    write(stream, y, bytes.data(), y.bytes());
  } else {
    write(stream, y, host.data(), y.bytes());
  }
}
template <class T>
std::vector<T> read(const Stream& stream, const Tensor& x) {
  detail::check_host_type("x", x, dtype_for<T>(), x.numel());
  std::vector<detail::HostElement<T>> host(static_cast<size_t>(x.numel()));
  read(stream, x, host.data(), x.bytes());
  if constexpr (std::is_same_v<T, bool>)
    return {host.begin(), host.end()};
  else
    return host;
}

}  // namespace dlprim
