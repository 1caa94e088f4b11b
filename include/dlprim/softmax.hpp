// Softmax, log-softmax and the negative log-likelihood loss.
#pragma once

#include <dlprim/export.hpp>
#include <dlprim/plan.hpp>
#include <dlprim/stream.hpp>
#include <dlprim/tensor.hpp>

namespace dlprim {

/// Along `axis`; the maximum is subtracted first, so large inputs do not overflow.
DLPRIM_API void softmax(const Stream& stream, const Tensor& x, int axis, const Tensor& y);
DLPRIM_API void log_softmax(const Stream& stream, const Tensor& x, int axis, const Tensor& y);
/// From the output y: dx = y * (dy - sum(dy * y)), and dx = dy - exp(y) * sum(dy).
DLPRIM_API void softmax_backward(const Stream& stream, const Tensor& dy, const Tensor& y, int axis, const Tensor& dx);
DLPRIM_API void log_softmax_backward(const Stream& stream, const Tensor& dy, const Tensor& y, int axis,
                                     const Tensor& dx);

/// loss: [1] = -mean over b of log_p[b, target[b]]. log_p: [B, C] floating; target: [B], i32, i64 or u8. A target
/// outside [0, C) contributes nothing to the sum and the count; with none left the loss is NaN.
DLPRIM_API void nll_loss(const Stream& stream, const Tensor& log_p, const Tensor& target, const Tensor& loss);
/// d_log_p from dloss: [1].
DLPRIM_API void nll_loss_backward(const Stream& stream, const Tensor& dloss, const Tensor& target,
                                  const Tensor& d_log_p);

}  // namespace dlprim
