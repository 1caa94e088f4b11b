// What happens to a product's sums on their way to memory: tensors beside the product's own.
#pragma once

#include <dlprim/tensor.hpp>

namespace dlprim {

/// result = activation(scale * product + bias + residual). Each tensor is undefined exactly if the operator's
/// description does not have it.
struct EpilogueTensors {
  EpilogueTensors() = default;
  /// Converts: a bias alone is an epilogue too.
  EpilogueTensors(const Tensor& only_bias) : bias(only_bias) {}  // NOLINT(google-explicit-constructor)

  Tensor bias, scale;    ///< contiguous
  Tensor residual;       ///< read; lies in memory as the result does
  Tensor preactivation;  ///< written: what is given to the activation. Lies as the result does.
};

}  // namespace dlprim
