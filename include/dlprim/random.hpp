// Random numbers by Philox 4x32-10 (Salmon et al., SC 2011). A number depends on the seed, the offset and the
// element's row-major index alone, and has the same bits on every device: logarithms, sines and the like are
// the library's own, made of operations that are exact everywhere. (Where a number is too small for a normal
// f32, devices that have no smaller ones give 0.)
//
// Element i takes the 32-bit word w[offset + i] of the stream in which words 4 b .. 4 b + 3 are Philox's
// result for the counter (b mod 2^32, b / 2^32, 0, 0) and the key (seed mod 2^32, seed / 2^32). Below, u is
// (w + 1/2) / 2^32, in (0, 1). v[offset + i] is the word of a second stream, whose counters are (..., 1, 0).
#pragma once

#include <cstdint>

#include <dlprim/export.hpp>
#include <dlprim/plan.hpp>
#include <dlprim/random_state.hpp>
#include <dlprim/stream.hpp>
#include <dlprim/tensor.hpp>

namespace dlprim {

namespace detail {
struct Draw;
}

enum class Distribution : uint8_t {
  /// In [a, b): a + (b - a) * floor(w / 2^8) / 2^24; below b also after rounding to f32.
  uniform,
  /// Of mean a and deviation b, by Box and Muller's transform of w0 = w[2 k] and w1 = w[2 k + 1]: a + b *
  /// sqrt(-2 log(u0)) times cos, then sin, of 2 pi floor(w1 / 2^8) / 2^24.
  normal,
  /// 1 where w < a * 2^32, else 0; b is not used.
  bernoulli,
  /// exp of a normal number of mean a and deviation b.
  log_normal,
  /// Of rate a, -log(u) / a: never 0. b is not used.
  exponential,
  /// Of median a and half width at half maximum b: a + b tan(pi (u - 1/2)).
  cauchy,
  /// How many trials of probability a it takes to succeed, 1 or more: ceil(log(u) / log(1 - a)). At most what
  /// an integer dtype of y holds. b is not used.
  geometric,
  /// In [low, high), see run_integers().
  integers
};

struct RandomDesc {
  TensorDesc y;  ///< any dtype, any strides; numbers are made in f32, integers in i64, and converted
  Distribution distribution = Distribution::uniform;
};

/// y = numbers of a distribution.
class DLPRIM_API Random : public Plan {
 public:
  /// Throws ValidationError (strides of y, a distribution that does not exist, f64 on a device without double
  /// arithmetic), BuildError.
  explicit Random(const Context& context, const RandomDesc& desc, const Options& options = {});
  /// Throws ValidationError if a or b is not finite in f32, b < a (uniform), b < 0 (normal, log-normal,
  /// Cauchy), a outside [0, 1] (Bernoulli), [2^-90, 1] (geometric) or [2^-90, 2^90] (exponential), or if the
  /// distribution is `integers`.
  void run(const Stream& stream, double a, double b, const RandomState& state, const Tensor& y,
           const Tensor& workspace = {}) const;
  /// For the distribution `integers`: low + floor(x (high - low) / 2^64), where x is w 2^32 if there are at
  /// most 2^20 numbers, else w 2^32 + v: probabilities are equal but for one part in 2^12, or in 2^64 / (high
  /// - low). Throws ValidationError unless low < high and y's dtype holds all of them exactly.
  void run_integers(const Stream& stream, int64_t low, int64_t high, const RandomState& state,
                    const Tensor& y, const Tensor& workspace = {}) const;

  struct Impl;

 private:
  void draw(const Stream& stream, const detail::Draw& draw, const RandomState& state, const Tensor& y,
            const Tensor& workspace) const;
  RandomDesc desc_;
  std::shared_ptr<const Impl> impl_;
};

// The same as calls: the plan is found in the context's cache, or made. They throw as the plan does.

/// Uniform in [low, high).
DLPRIM_API void random_uniform(const Stream& stream, double low, double high, const RandomState& state,
                               const Tensor& y, const Options& options = {}, const Tensor& workspace = {});
/// Normal, by the Box-Muller transform.
DLPRIM_API void random_normal(const Stream& stream, double mean, double deviation, const RandomState& state,
                              const Tensor& y, const Options& options = {}, const Tensor& workspace = {});
/// exp of a normal number of this mean and deviation.
DLPRIM_API void random_log_normal(const Stream& stream, double mean, double deviation,
                                  const RandomState& state, const Tensor& y, const Options& options = {},
                                  const Tensor& workspace = {});
DLPRIM_API void random_exponential(const Stream& stream, double rate, const RandomState& state,
                                   const Tensor& y, const Options& options = {},
                                   const Tensor& workspace = {});
DLPRIM_API void random_cauchy(const Stream& stream, double median, double scale, const RandomState& state,
                              const Tensor& y, const Options& options = {}, const Tensor& workspace = {});
/// How many trials of probability p it takes to succeed.
DLPRIM_API void random_geometric(const Stream& stream, double p, const RandomState& state, const Tensor& y,
                                 const Options& options = {}, const Tensor& workspace = {});
/// Whole numbers in [low, high).
DLPRIM_API void random_integers(const Stream& stream, int64_t low, int64_t high, const RandomState& state,
                                const Tensor& y, const Options& options = {}, const Tensor& workspace = {});
/// 1 with probability p, else 0.
DLPRIM_API void random_bernoulli(const Stream& stream, double p, const RandomState& state, const Tensor& y,
                                 const Options& options = {}, const Tensor& workspace = {});

}  // namespace dlprim
