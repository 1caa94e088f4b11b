// What operators need that end in an activation.
#pragma once

#include <string>

#include <dlprim/activation.hpp>

namespace dlprim::detail {

/// Throws ValidationError unless the enumeration has `f`.
void require_activation(const char* argument, Activation f);
/// Throws ValidationError unless it has `f`, and activation_gradient() has its gradient.
void require_told_from_result(const char* argument, Activation f);
/// The gradient of what `f` is applied to, an expression of `dy`, the gradient of its result, and `y`, the
/// result.
std::string activation_gradient(Activation f, const std::string& dy, const std::string& y);

}  // namespace dlprim::detail
