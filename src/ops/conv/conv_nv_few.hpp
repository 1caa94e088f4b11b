// Convolutions of few channels, as first layers have them, as others that fill the matrix units: the same
// numbers, looked at in another way.
#pragma once

#include <memory>
#include <optional>

#include "ops/conv/conv_problem.hpp"

namespace dlprim::detail {

/// Forward and backward filter of few channels: with an image's pixels side by side, channels padded to 8 or
/// 16 bytes, what the taps of a row see is one run of memory: their channels together become the channels of
/// one tap. Pixels of the new x overlap. Nothing if the channels are many, or lie so that this does not help.
std::optional<ConvProblem> conv_nv_rows(const ConvProblem& problem, const Options& options);
std::unique_ptr<const ConvImpl> make_conv_nv_rows(const Context& context, const ConvProblem& problem,
                                                  const EngineOptions& options, MakeConv make);

/// Backward data to few channels with a stride: pixels of dx in blocks of the stride's size see one window of
/// dy; together their channels become the channels of a forward convolution of dy without a stride.
std::optional<ConvProblem> conv_nv_blocks(const ConvProblem& problem, const Options& options);
std::unique_ptr<const ConvImpl> make_conv_nv_blocks(const Context& context, const ConvProblem& problem,
                                                    const EngineOptions& options, MakeConv make);

}  // namespace dlprim::detail
