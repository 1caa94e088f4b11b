// Rearranging between channels and space: pixel shuffle and unshuffle (Shi et al., 2016), channel shuffle
// (Zhang et al., 2018). Each is one copy through views; the gradient of each is another of them.
#pragma once

#include <dlprim/export.hpp>
#include <dlprim/stream.hpp>
#include <dlprim/tensor.hpp>

namespace dlprim {

/// y[..., c, h * r + i, w * r + j] = x[..., (c * r + i) * r + j, h, w]: x is [..., C r r, H, W], y [..., C, H
/// r, W r], r the `factor`. Rank 3 to 6, any strides and dtypes, converted as copy() does. y shares no memory
/// with x. The gradient is pixel_unshuffle(dy). Throws ValidationError.
DLPRIM_API void pixel_shuffle(const Stream& stream, const Tensor& x, int64_t factor, const Tensor& y);
/// The inverse: x is [..., C, H r, W r], y [..., C r r, H, W].
DLPRIM_API void pixel_unshuffle(const Stream& stream, const Tensor& x, int64_t factor, const Tensor& y);
/// y[n, c * groups + g, ...] = x[n, g * (C / groups) + c, ...]: x and y are [N, C, ...], rank 3 to 7. The
/// gradient is channel_shuffle(dy) with C / groups groups.
DLPRIM_API void channel_shuffle(const Stream& stream, const Tensor& x, int64_t groups, const Tensor& y);

}  // namespace dlprim
