// Two-dimensional pooling: maximum and average, forward and backward (by gathering: no atomics).
#pragma once

#include <array>

#include <dlprim/export.hpp>
#include <dlprim/plan.hpp>
#include <dlprim/stream.hpp>
#include <dlprim/tensor.hpp>

namespace dlprim {

namespace detail {
struct PoolImpl;
}

enum class PoolMode : uint8_t { max, average };

struct PoolParams {
  PoolMode mode = PoolMode::max;
  std::array<int64_t, 2> kernel{2, 2};  ///< along H, W
  std::array<int64_t, 2> stride{2, 2};
  /// Less than the kernel; padding is -infinity for max, 0 for average.
  std::array<int64_t, 2> pad_begin{0, 0};
  std::array<int64_t, 2> pad_end{0, 0};
  bool ceil_mode = false;         ///< a last window that starts inside input or left padding counts
  bool count_include_pad = true;  ///< average: divide by the window's size with its padding
};

/// x: [N, C, H, W] gives y: [N, C, P, Q]. Throws ValidationError.
DLPRIM_API Shape pool2d_output_shape(const Shape& x, const PoolParams& params);

/// Any strides. x and y are of one dtype: f32, f16 or bf16 (averages are taken in f32).
struct PoolDesc {
  TensorDesc x, y;          ///< backward: of dx and dy
  bool indices = false;     ///< max: whether the indices are wanted; the backward direction needs them
  TensorDesc indices_desc;  ///< of the indices, if there are any
  PoolParams params;
};

/// y[n,c,p,q] = maximum or average of x over the window whose first element is at p * stride - pad_begin.
class DLPRIM_API Pool2D : public Plan {
 public:
  /// Throws ValidationError (shapes that do not fit, dtypes, parameters), BuildError.
  explicit Pool2D(const Context& context, const PoolDesc& desc, const Options& options = {});
  /// `indices` is defined exactly if the description says so. Outputs share no memory with x.
  void run(const Stream& stream, const Tensor& x, const Tensor& y, const Tensor& indices = {}) const;

 private:
  PoolDesc desc_;
  std::shared_ptr<const detail::PoolImpl> impl_;
};

/// dx from dy: a maximum's gradient goes to where it was, an average's in equal shares to its window.
class DLPRIM_API Pool2DBackward : public Plan {
 public:
  /// `desc.x` is of dx, `desc.y` of dy; max needs indices.
  explicit Pool2DBackward(const Context& context, const PoolDesc& desc, const Options& options = {});
  /// `indices` as the forward direction wrote them; undefined for averages. dx is written whole and shares no
  /// memory with the others.
  void run(const Stream& stream, const Tensor& dy, const Tensor& indices, const Tensor& dx) const;

 private:
  PoolDesc desc_;
  std::shared_ptr<const detail::PoolImpl> impl_;
};

/// `indices` (i32, shaped as y): where in its H x W plane each maximum lies, the first of equals, the last
/// NaN if there is one; needed by the backward direction of max, undefined otherwise.
DLPRIM_API void pool2d(const Stream& stream, const Tensor& x, const PoolParams& params, const Tensor& y,
                       const Tensor& indices = {}, const Options& options = {});
/// dx: [N, C, H, W] from dy: [N, C, P, Q].
DLPRIM_API void pool2d_backward(const Stream& stream, const Tensor& dy, const Tensor& indices,
                                const PoolParams& params, const Tensor& dx, const Options& options = {});

}  // namespace dlprim
