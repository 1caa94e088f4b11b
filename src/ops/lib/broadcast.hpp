// The check of a tensor that broadcasts to another's shape.
#pragma once

#include "core/check.hpp"

namespace dlprim::detail {

/// The shape of `desc`, aligned at the right, has size 1 or that of `shape`, the shape of `of`, everywhere.
inline void require_broadcast(const ArgName& argument, const TensorDesc& desc, const char* of,
                              const Shape& shape) {
  const int behind = shape.size() - desc.shape.size();
  bool fits = behind >= 0;
  for (int i = 0; fits && i < desc.shape.size(); i++)
    fits = desc.shape[i] == 1 || desc.shape[i] == shape[behind + i];
  require(fits, argument, "shape ", to_string(desc.shape), " does not broadcast to ", of, "'s ",
          to_string(shape));
}

}  // namespace dlprim::detail
