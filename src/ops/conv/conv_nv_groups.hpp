// Groups of few channels for an engine that multiplies whole blocks of channels: several groups become one,
// whose w has theirs on its diagonal and zeros beside them.
#pragma once

#include <memory>
#include <optional>

#include "ops/conv/conv_problem.hpp"

namespace dlprim::detail {

/// With as few groups together as fill a block of channels. Nothing if a group fills one, if it has one
/// channel or filter, or if they are so few that too much would be multiplied by zeros.
std::optional<ConvProblem> conv_nv_groups(const ConvProblem& problem, const Options& options);
std::unique_ptr<const ConvImpl> make_conv_nv_groups(const Context& context, const ConvProblem& problem,
                                                    const EngineOptions& options, MakeConv make);

}  // namespace dlprim::detail
