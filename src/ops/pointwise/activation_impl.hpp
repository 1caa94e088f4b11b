// What operators need that end in an activation.
#pragma once

#include <dlprim/activation.hpp>

namespace dlprim::detail {

/// Throws ValidationError unless the enumeration has `f`.
void require_activation(const char* argument, Activation f);
/// Throws ValidationError unless it has `f`, and activation_gradient() has its gradient.
void require_told_from_result(const char* argument, Activation f);
/// The gradient of what `f` is applied to, an expression of x0, the gradient of its result, and x1, the
/// result.
const char* activation_gradient(Activation f);

}  // namespace dlprim::detail
