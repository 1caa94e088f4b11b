// Two-dimensional pooling: maximum and average, forward and backward (by gathering: no atomics).
#pragma once

#include <array>

#include <dlprim/export.hpp>
#include <dlprim/plan.hpp>
#include <dlprim/stream.hpp>
#include <dlprim/tensor.hpp>

namespace dlprim {

enum class PoolMode : uint8_t { max, average };

struct PoolParams {
  PoolMode mode = PoolMode::max;
  std::array<int64_t, 2> kernel{2, 2};     ///< along H, W
  std::array<int64_t, 2> stride{2, 2};
  std::array<int64_t, 2> pad_begin{0, 0};  ///< less than the kernel; padding is -infinity for max, 0 for average
  std::array<int64_t, 2> pad_end{0, 0};
  bool ceil_mode = false;                  ///< a last window that starts inside input or left padding counts
  bool count_include_pad = true;           ///< average: divide by the window's size with its padding
};

/// x: [N, C, H, W] gives y: [N, C, P, Q]. Throws ValidationError.
DLPRIM_API Shape pool2d_output_shape(const Shape& x, const PoolParams& params);

/// `indices` (i32, shaped as y): where in its H x W plane each maximum lies, the first of equals; needed by
/// the backward direction of max, undefined otherwise.
DLPRIM_API void pool2d(const Stream& stream, const Tensor& x, const PoolParams& params, const Tensor& y,
                       const Tensor& indices = {});
DLPRIM_API void pool2d_backward(const Stream& stream, const Tensor& dy, const Tensor& indices,
                                const PoolParams& params, const Tensor& dx);

}  // namespace dlprim
