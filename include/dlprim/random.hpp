// Random numbers by Philox 4x32-10 (Salmon et al., SC 2011). A number depends on the seed, the offset and the
// element's row-major index alone: the same on every device.
#pragma once

#include <cstdint>

#include <dlprim/export.hpp>
#include <dlprim/plan.hpp>
#include <dlprim/stream.hpp>
#include <dlprim/tensor.hpp>

namespace dlprim {

/// A place in the sequence of random numbers. Each call of an operator uses element i's number at `offset` + i.
struct RandomState {
  uint64_t seed = 0;
  uint64_t offset = 0;
  /// The state for this call; later calls get numbers behind it.
  RandomState take(int64_t elements) {
    const RandomState now = *this;
    offset += static_cast<uint64_t>(elements);
    return now;
  }
};

/// Uniform in [low, high).
DLPRIM_API void random_uniform(const Stream& stream, const Tensor& y, double low, double high,
                               const RandomState& state);
/// Normal, by the Box-Muller transform.
DLPRIM_API void random_normal(const Stream& stream, const Tensor& y, double mean, double deviation,
                              const RandomState& state);
/// 1 with probability p, else 0.
DLPRIM_API void random_bernoulli(const Stream& stream, const Tensor& y, double p, const RandomState& state);

}  // namespace dlprim
