// Backward filter in parts: where dw has too few tiles to occupy the device, work-groups share the steps of
// the sum, each writes results of its own into the workspace, and a reduction adds those up, always in the
// same order.
#pragma once

#include <cstdint>
#include <optional>

#include <dlprim/pointwise.hpp>

#include "core/composed.hpp"
#include "ops/conv/conv_problem.hpp"

namespace dlprim::detail {

struct ConvParts {
  int count = 1;
  int steps = 0;  ///< of k in a part; the last may have fewer
};

/// How to share `k` steps, taken `block` at a time. `tiles` work-groups compute a part, of `results` numbers;
/// `room` is how many numbers there are for parts.
ConvParts conv_parts_for(int64_t k, int64_t block, int64_t tiles, const Device& device, int64_t results,
                         int64_t room);

struct ConvPartsForm {
  /// Parts are [K, T, R, S, C/groups] in memory, not row-major.
  bool channels_last = false;
  /// A single part goes to the workspace too: the engine writes no others than such parts.
  bool always = false;
};

/// Parts in the workspace, and their sum. Each part has dw's shape and is of f32, or f64 for f64.
class ConvPartSums {
 public:
  /// A single part may be the result itself, which goes to dw: see the form.
  ConvPartSums(const Context& context, const ConvProblem& problem, int parts, WorkspaceParts& workspace,
               ConvPartsForm form = {});

  /// Where the kernel writes parts: undefined if the result goes to dw.
  Tensor partial(const Tensor& workspace) const;
  /// Where the kernel writes.
  Tensor target(const Tensor& workspace, const Tensor& dw) const {
    return terms_ || sum_ ? partial(workspace) : dw;
  }
  void add_up(const Stream& stream, const Tensor& workspace, const Tensor& dw) const;

 private:
  TensorDesc one_part() const;

  TensorDesc parts_, dw_;
  size_t parts_at_ = 0, scratch_at_ = 0;
  std::optional<Pointwise> terms_;  ///< of a few parts
  std::optional<Reduce> sum_;       ///< of more
};

}  // namespace dlprim::detail
