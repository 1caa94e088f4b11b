// Small tables that a kind computes on the host: indices, weights.
#pragma once

#include <vector>

#include <dlprim/copy.hpp>

#include "net/nodes/node.hpp"

namespace dlprim::detail {

/// On the device, of the elements' type.
template <class E>
Tensor table(const NodeStep& step, const Shape& shape, const std::vector<E>& elements) {
  const Tensor tensor = step.scratch(shape, dtype_for<E>());
  if (tensor.numel() != 0) write(step.stream, tensor, elements);
  return tensor;
}

}  // namespace dlprim::detail
