// Backward filter of a few images at a time: where what is rearranged of all of x and dy has no room.
#pragma once

#include <memory>
#include <optional>

#include "ops/conv/conv_problem.hpp"

namespace dlprim::detail {

/// The problem of so many images as have room in the workspace; their filters' gradients are added up.
/// Nothing if all have, if not even one has, and in the other directions.
std::optional<ConvProblem> conv_nv_images(const ConvProblem& problem, const Options& options);
std::unique_ptr<const ConvImpl> make_conv_nv_images(const Context& context, const ConvProblem& problem,
                                                    const EngineOptions& options, MakeConv make);

}  // namespace dlprim::detail
