// What the subjects of tuning share: operands of small integers, results, and the options of a measurement.
#pragma once

#include <dlprim/stream.hpp>
#include <dlprim/tensor.hpp>
#include <dlprim/tune.hpp>

namespace dlprim::detail {

/// A tensor as described. `whole` is the memory from its first to its last element.
Tensor tune_memory(const Stream& stream, const TensorDesc& desc, Tensor* whole = nullptr);
/// The same, filled with whole numbers from -2 to 2. Products of up to 4 M of them are summed without
/// rounding, and they are exact in every dtype and in every part of a split one.
Tensor tune_integers(const Stream& stream, const TensorDesc& desc, uint64_t seed);
/// Overwrites a result with what no engine gives.
void tune_poison(const Stream& stream, const Tensor& result);
/// How many elements of x are not as in `right` by `expression`, of x0 and x1. Waits for the device.
int64_t tune_count(const Stream& stream, const Tensor& x, const Tensor& right, const char* expression);
/// A workspace of at least so many bytes: the given one if it is large enough.
Tensor tune_workspace(const Stream& stream, const Tensor& given, size_t bytes);

/// Those that a measurement keeps: what engines may do, not which of them.
Options tune_options(const Options& options);

/// Whether a measurement of so many operations and bytes takes seconds, not minutes, and a small part of
/// memory.
bool tune_fits(const Device& device, double flops, double bytes);

}  // namespace dlprim::detail
