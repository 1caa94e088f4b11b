// What becomes of a loss' terms: checks and texts that all losses share.
#pragma once

#include <dlprim/loss.hpp>

#include "core/check.hpp"

namespace dlprim::detail {

inline const char* name_of(LossReduction reduction) {
  static constexpr const char* kNames[] = {"none", "sum", "mean", "batch_mean"};
  return kNames[static_cast<int>(reduction)];
}

inline void require_loss_reduction(LossReduction reduction, bool batch_mean) {
  require(reduction <= LossReduction::batch_mean, "reduction", "number ", static_cast<int>(reduction),
          " does not exist");
  require(batch_mean || reduction != LossReduction::batch_mean, "reduction", "batch_mean is not for classes");
}

}  // namespace dlprim::detail
