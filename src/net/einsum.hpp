// The text of an Einsum equation, for its node and for its gradient.
#pragma once

#include <string>
#include <vector>

namespace dlprim::detail {

/// The inputs' terms without spaces, and the output's term last: written, or without "->" the ellipsis and
/// the letters that stand once, in the alphabet's order.
std::vector<std::string> einsum_terms(std::string equation);

}  // namespace dlprim::detail
