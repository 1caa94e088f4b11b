// Dropout (Srivastava et al., 2014) whose mask is computed again in the backward direction instead of kept.
#pragma once

#include <dlprim/export.hpp>
#include <dlprim/plan.hpp>
#include <dlprim/random.hpp>
#include <dlprim/stream.hpp>
#include <dlprim/tensor.hpp>

namespace dlprim {

/// y = x / (1 - p) with probability 1 - p, else 0. The backward direction is the same operation on dy with
/// the same state. y may be x. 0 <= p <= 1.
DLPRIM_API void dropout(const Stream& stream, const Tensor& x, double p, const RandomState& state, const Tensor& y);

}  // namespace dlprim
