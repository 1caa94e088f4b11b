// Dropout (Srivastava et al., 2014) whose mask is computed again in the backward direction instead of kept.
#pragma once

#include <dlprim/export.hpp>
#include <dlprim/plan.hpp>
#include <dlprim/random.hpp>
#include <dlprim/stream.hpp>
#include <dlprim/tensor.hpp>

namespace dlprim {

/// Any strides; f32, f16, bf16, f64 in any mix; one shape.
struct DropoutDesc {
  TensorDesc x, y;
};

/// y = x / (1 - p) with probability 1 - p, else 0.
class DLPRIM_API Dropout : public Plan {
 public:
  /// Throws ValidationError (dtypes, shapes that differ), BuildError.
  explicit Dropout(const Context& context, const DropoutDesc& desc, const Options& options = {});
  /// y may be x; otherwise they share no memory. Throws ValidationError unless 0 <= p <= 1.
  void run(const Stream& stream, const Tensor& x, double p, const RandomState& state, const Tensor& y,
           const Tensor& workspace = {}) const;

  struct Impl;

 private:
  DropoutDesc desc_;
  std::shared_ptr<const Impl> impl_;
};

/// y = x / (1 - p) with probability 1 - p, else 0 (whatever x is). The backward direction is the same
/// operation on dy with the same state. y may be x. 0 <= p <= 1. Element i is dropped where the word w[offset
/// + i] of random.hpp's stream is below p * 2^32.
DLPRIM_API void dropout(const Stream& stream, const Tensor& x, double p, const RandomState& state,
                        const Tensor& y, const Options& options = {}, const Tensor& workspace = {});

}  // namespace dlprim
