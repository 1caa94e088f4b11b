// Backward data of a window of one tap with a stride: computed as if without the stride, then spread over dx,
// most of which is 0. For engines that would write those zeros slowly.
#pragma once

#include <memory>
#include <optional>

#include "ops/conv/conv_problem.hpp"

namespace dlprim::detail {

/// The convolution without the stride; nothing if the problem is another one, or dx
/// has its channels side by side, where zeros are written fast.
std::optional<ConvProblem> conv_spread_inner(const ConvProblem& problem, const Options& options);
std::unique_ptr<const ConvImpl> make_conv_spread(const Context& context, const ConvProblem& problem,
                                                 const EngineOptions& options, MakeConv make);

}  // namespace dlprim::detail
