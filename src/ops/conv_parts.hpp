// Backward filter in parts: where dw has too few tiles to occupy the device, work-groups share the steps of
// the sum, each writes results of its own into the workspace, and a reduction adds those up, always in the
// same order.
#pragma once

#include <cstdint>
#include <optional>

#include <dlprim/pointwise.hpp>

#include "core/composed.hpp"
#include "ops/conv_problem.hpp"

namespace dlprim::detail {

struct ConvParts {
  int count = 1;
  int steps = 0;  ///< of k in a part; the last may have fewer
};

/// How to share `k` steps, taken `block` at a time. `tiles` work-groups compute a part, of `results` numbers;
/// `room` is how many numbers there are for parts.
ConvParts conv_parts_for(int64_t k, int64_t block, int64_t tiles, const Device& device, int64_t results,
                         int64_t room);

/// Parts in the workspace, and their sum. Each part is like dw, without gaps, of f32, or f64 for f64.
class ConvPartSums {
 public:
  /// row_major: [K, C, taps]; a single part goes to dw itself. channels_last: [K, taps, C].
  enum class Order : uint8_t { row_major, channels_last };
  ConvPartSums(const Context& context, const ConvProblem& problem, int parts, Order order,
               WorkspaceParts& workspace);

  /// Where the kernel writes: undefined if that is dw.
  Tensor partial(const Tensor& workspace) const;
  void add_up(const Stream& stream, const Tensor& workspace, const Tensor& dw) const;

 private:
  TensorDesc parts_;
  size_t parts_at_ = 0, scratch_at_ = 0;
  std::optional<Reduce> sum_;
};

}  // namespace dlprim::detail
