// Counting elements: by their value, or by the part of a range in which they lie. The same input gives the
// same bits, weighted too. Engines, of which each runs on every device: parts, bins for each work-group;
// atomics, without weights; exact and sorted, for weights.
#pragma once

#include <cstdint>

#include <dlprim/export.hpp>
#include <dlprim/plan.hpp>
#include <dlprim/stream.hpp>
#include <dlprim/tensor.hpp>

namespace dlprim {

/// x: integers or bool, any shape and strides, fewer than 2^31 elements. y: [bins], any dtype but bool. y[b]:
/// how many elements are b; those outside of [0, bins) are not counted. Tensors share no memory. Throws
/// ValidationError.
DLPRIM_API void bincount(const Stream& stream, const Tensor& x, const Tensor& y, const Options& options = {});
/// y[b]: the sum of the weights of elements that are b. weights: of x's shape; weights and y are floating, in
/// any mix. Sums are made in f64 where one of the two is f64 and, if the device has it, by engine `parts`,
/// which CPUs take; else in f32. On GPUs sums in f32 are exact and rounded once, with up to 2^20 bins. Those
/// are also engine `exact`'s limits.
DLPRIM_API void bincount(const Stream& stream, const Tensor& x, const Tensor& weights, const Tensor& y,
                         const Options& options = {});
/// As torch.bincount: a new i64 tensor with a bin for each number up to the largest, and not fewer than
/// `minlength`; of weights, which may be undefined, one of f64 if they are that, else of f32. Waits for the
/// device. Throws ValidationError for negative elements too.
DLPRIM_API Tensor bincount(const Stream& stream, const Tensor& x, const Tensor& weights, int64_t minlength);

/// From low to high, both included; where they are equal, from the least to the largest element, and one
/// farther at both ends if these are equal too.
struct HistogramRange {
  double low = 0, high = 0;
};
/// As torch.histc. x: floating, else as bincount's. y: [bins], any dtype but bool: the range is cut into as
/// many equal parts. NaNs and what lies outside are not counted. A range from data that holds NaNs or
/// infinities leaves nothing to count, where PyTorch throws. Throws ValidationError (low above high, NaN).
DLPRIM_API void histc(const Stream& stream, const Tensor& x, const Tensor& y,
                      const HistogramRange& range = {}, const Options& options = {});

}  // namespace dlprim
