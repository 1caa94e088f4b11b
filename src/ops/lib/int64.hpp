// The numbers of structs that kernels share.
#pragma once

#include <cstdint>

namespace dlprim::detail {

#include "kernels/lib/int64.h"

}  // namespace dlprim::detail
