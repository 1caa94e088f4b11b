// Random numbers by Philox 4x32-10 (Salmon et al., SC 2011). A number depends on the seed, the offset and the
// element's row-major index alone: the same on every device. Uniform and Bernoulli numbers are bit-equal
// everywhere; normal ones may differ by a few units in the last place, as the devices' log, sin and cos do.
//
// Element i takes the 32-bit word w[offset + i] of the stream in which words 4 b .. 4 b + 3 are Philox's
// result for the counter (b mod 2^32, b / 2^32, 0, 0) and the key (seed mod 2^32, seed / 2^32).
#pragma once

#include <cstdint>

#include <dlprim/export.hpp>
#include <dlprim/plan.hpp>
#include <dlprim/stream.hpp>
#include <dlprim/tensor.hpp>

namespace dlprim {

/// A place in the sequence of random numbers. Element i of a call's tensor uses the number at offset + i.
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

enum class Distribution : uint8_t {
  /// In [a, b): a + (b - a) * u with u = floor(w / 2^8) / 2^24; below b also after rounding to f32.
  uniform,
  /// Of mean a and deviation b, by Box and Muller's transform of the stream's words w0 = w[2 k] and
  /// w1 = w[2 k + 1]: a + b * sqrt(-2 log(u)) times cos, then sin, of 2 pi floor(w1 / 2^8) / 2^24, where u is
  /// f32(w0) / 2^32 + 1 / 2^33, rounded to f32 once more.
  normal,
  /// 1 where w < a * 2^32, else 0; b is not used.
  bernoulli
};

struct RandomDesc {
  TensorDesc y;  ///< any dtype, any strides; numbers are made in f32 and converted
  Distribution distribution = Distribution::uniform;
};

/// y = numbers of a distribution.
class DLPRIM_API Random : public Plan {
 public:
  /// Throws ValidationError (strides of y, a distribution that does not exist, f64 on a device without double
  /// arithmetic), BuildError.
  explicit Random(const Context& context, const RandomDesc& desc, const Options& options = {});
  /// Throws ValidationError if a or b is not finite in f32, b < a (uniform), b < 0 (normal), a outside [0, 1]
  /// (Bernoulli).
  void run(const Stream& stream, double a, double b, const RandomState& state, const Tensor& y,
           const Tensor& workspace = {}) const;

  struct Impl;

 private:
  RandomDesc desc_;
  std::shared_ptr<const Impl> impl_;
};

// The same as calls: the plan is found in the context's cache, or made. They throw as the plan does.

/// Uniform in [low, high).
DLPRIM_API void random_uniform(const Stream& stream, const Tensor& y, double low, double high,
                               const RandomState& state);
/// Normal, by the Box-Muller transform.
DLPRIM_API void random_normal(const Stream& stream, const Tensor& y, double mean, double deviation,
                              const RandomState& state);
/// 1 with probability p, else 0.
DLPRIM_API void random_bernoulli(const Stream& stream, const Tensor& y, double p, const RandomState& state);

}  // namespace dlprim
