// Parameters of windows as lists, as convolution and pooling take them: a number for each spatial axis, or
// one for all of them, or none.
#pragma once

#include <dlprim/dims.hpp>

namespace dlprim::detail {

/// The list's number for axis i.
inline int64_t number_along(const Dims& list, int i, int64_t otherwise) {
  return list.empty() ? otherwise : list[list.size() == 1 ? 0 : i];
}

}  // namespace dlprim::detail
