// The check of operators that end in an activation.
#pragma once

#include <dlprim/activation.hpp>

namespace dlprim::detail {

/// Throws ValidationError unless the enumeration has `f`.
void require_activation(const char* argument, Activation f);

}  // namespace dlprim::detail
