// Samples of distributions whose parameters are tensors: gamma and Poisson. As random.hpp's numbers they
// depend on the seed, the offset and the element's row-major index alone. Candidates are drawn and rejected,
// each from a stream of words of its own; logarithms and the like are random.hpp's, so that samples have the
// same bits on every device.
#pragma once

#include <cstdint>
#include <memory>

#include <dlprim/export.hpp>
#include <dlprim/plan.hpp>
#include <dlprim/random.hpp>
#include <dlprim/stream.hpp>
#include <dlprim/tensor.hpp>

namespace dlprim {

enum class SampleKind : uint8_t {
  /// Of shape x and scale 1 (Marsaglia and Tsang, 2000), and not less than the smallest normal f32. Shapes
  /// that
  /// are not above 0 give NaN.
  gamma,
  /// Of mean x, up to 2^30: whole numbers, by counting exponential numbers below 10, else by transformed
  /// rejection (Hoermann, 1993). Means that are not 0 or above give NaN, in whole dtypes 0.
  poisson
};

/// x: floating. y: x's shape, any dtype but bool; both of any strides. Computed in f32.
struct RandomSampleDesc {
  TensorDesc x, y;
  SampleKind kind = SampleKind::gamma;
};

/// y = a sample for each parameter.
class DLPRIM_API RandomSample : public Plan {
 public:
  /// Throws ValidationError (shapes, dtypes, strides of y), BuildError.
  explicit RandomSample(const Context& context, const RandomSampleDesc& desc, const Options& options = {});
  /// Uses as many words of `state` as y has elements.
  void run(const Stream& stream, const Tensor& x, const RandomState& state, const Tensor& y,
           const Tensor& workspace = {}) const;

  struct Impl;

 private:
  RandomSampleDesc desc_;
  std::shared_ptr<const Impl> impl_;
};

/// The same; the plan is found in the context's cache, or made.
DLPRIM_API void random_sample(const Stream& stream, SampleKind kind, const Tensor& x,
                              const RandomState& state, const Tensor& y, const Options& options = {},
                              const Tensor& workspace = {});

}  // namespace dlprim
