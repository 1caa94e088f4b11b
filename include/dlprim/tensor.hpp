// Tensor: a typed, strided window on device memory. Copies and views share the memory; the last one gives it
// back to the context's pool. A tensor is a handle: operators write into `const Tensor&` outputs.
// Operators on tensors live in their own headers (copy.hpp, pointwise.hpp, gemm.hpp, ...).
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <dlprim/context.hpp>
#include <dlprim/dims.hpp>
#include <dlprim/dtype.hpp>
#include <dlprim/export.hpp>

namespace dlprim {

namespace detail {
struct Storage;
}

class Stream;
class Tensor;

/// Operators take tensors of fewer elements. No device has as many bytes: only expanded tensors (strides of
/// 0) are larger, and a kernel would go through their elements for hours.
inline constexpr int64_t kElementLimit = int64_t{1} << 40;

/// What a plan needs to know of a tensor before there is one.
struct TensorDesc {
  Shape shape;
  Strides strides;
  DType dtype = DType::f32;
  bool aligned = true;  ///< element 0 lies on a 16-byte boundary, as in every tensor that is not a view

  TensorDesc() = default;
  /// Row-major.
  TensorDesc(const Shape& shape_, DType dtype_ = DType::f32)
      : shape(shape_), strides(contiguous_strides(shape_)), dtype(dtype_) {}
  TensorDesc(const Shape& shape_, const Strides& strides_, DType dtype_, bool aligned_)
      : shape(shape_), strides(strides_), dtype(dtype_), aligned(aligned_) {}
  /// Of an existing tensor.
  TensorDesc(const Tensor& tensor);  // NOLINT: a tensor is welcome wherever its description is

  friend bool operator==(const TensorDesc& a, const TensorDesc& b) noexcept {
    return a.dtype == b.dtype && a.aligned == b.aligned && a.shape == b.shape && a.strides == b.strides;
  }
};

class DLPRIM_API Tensor {
 public:
  /// No tensor: where an argument is optional, it stands for "none".
  Tensor() = default;
  /// New memory, row-major, not initialised. Throws OutOfMemory, ValidationError (negative or huge sizes).
  Tensor(const Context& context, const Shape& shape, DType dtype = DType::f32);
  /// The same, preferring memory that `stream` can use without waiting for another stream.
  Tensor(const Stream& stream, const Shape& shape, DType dtype = DType::f32);
  /// Around a buffer that the user owns; it is retained. `offset` and `strides` are in elements.
  /// Throws ValidationError if the window does not lie inside the buffer.
  static Tensor wrap(const Context& context, const cl::Buffer& buffer, int64_t offset, const Shape& shape,
                     const Strides& strides, DType dtype);
  /// The same, row-major from the buffer's start.
  static Tensor wrap(const Context& context, const cl::Buffer& buffer, const Shape& shape,
                     DType dtype = DType::f32);

  bool defined() const noexcept { return storage_ != nullptr; }
  explicit operator bool() const noexcept { return defined(); }

  DType dtype() const noexcept { return dtype_; }
  const Shape& shape() const noexcept { return shape_; }
  const Strides& strides() const noexcept { return strides_; }
  int rank() const noexcept { return shape_.size(); }
  /// The size of dimension `axis`; a negative one counts from the end. Throws ValidationError.
  int64_t size(int axis) const;
  int64_t numel() const noexcept { return numel_; }
  int64_t bytes() const noexcept { return numel_ * static_cast<int64_t>(size_of(dtype_)); }
  bool is_contiguous() const noexcept;
  /// "f32[64, 3, 28, 28]"
  std::string describe() const;

  /// The OpenCL buffer that holds the tensor, and where in it element 0 lies, in elements.
  const cl::Buffer& buffer() const;
  int64_t offset() const noexcept { return offset_; }

  /// The context the memory belongs to. Throws ValidationError on an undefined tensor.
  const Context& context() const;

  // Views. None copies; all throw ValidationError when the view does not exist.

  /// Another shape over the same elements of a contiguous tensor. One size may be -1.
  Tensor reshape(const Shape& shape) const;
  /// Axes reordered: result dimension i is this dimension axes[i].
  Tensor permute(const Dims& axes) const;
  /// Two axes exchanged.
  Tensor transpose(int axis0, int axis1) const;
  /// Elements start, start+step, ... below `end` of one axis.
  Tensor slice(int axis, int64_t start, int64_t end, int64_t step = 1) const;
  /// Size-1 dimensions stretched to `shape` with stride 0; new leading dimensions too.
  Tensor expand(const Shape& shape) const;
  /// The same bits as another dtype: of the same size, or else the bytes of a contiguous tensor as one
  /// dimension.
  Tensor reinterpret(DType dtype) const;
  /// Any window: `offset` in elements from this tensor's element 0. Strides are not negative.
  Tensor as_strided(const Shape& shape, const Strides& strides, int64_t offset = 0) const;

  /// The library's own part; not for users.
  const std::shared_ptr<detail::Storage>& storage() const noexcept { return storage_; }

 private:
  Tensor(std::shared_ptr<detail::Storage> storage, int64_t offset, const Shape& shape, const Strides& strides,
         DType dtype);

  std::shared_ptr<detail::Storage> storage_;
  int64_t offset_ = 0;
  int64_t numel_ = 0;
  Shape shape_;
  Strides strides_;
  DType dtype_ = DType::f32;
};

inline TensorDesc::TensorDesc(const Tensor& t)
    : TensorDesc(t.shape(), t.strides(), t.dtype(),
                 t.offset() * static_cast<int64_t>(size_of(t.dtype())) % 16 == 0) {}

}  // namespace dlprim
