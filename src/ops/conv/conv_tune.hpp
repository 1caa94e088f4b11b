// Convolution as tuning sees it.
#pragma once

#include "ops/conv/conv_problem.hpp"

namespace dlprim::detail {

/// As tables know it: a transposed convolution is one in the other direction. Epilogue, prologue, statistics
/// and constant weights do not count.
TuneProblem conv_tune_problem(const ConvProblem& problem, const Options& options);
/// TuneMode::measure and exhaustive: of a description with prologue and statistics taken away.
void measure_conv_on_first_use(const Context& context, ConvDirection direction, const ConvDesc& desc,
                               const Options& options);

/// What tuning tries; with the engines, in conv_runner.cpp.
TuneCandidates conv_candidates(const Context& context, const ConvProblem& problem, const Options& options);

/// "nchw", "nhwc", or of each tensor "x.w.y", where one that is neither is "other". How a constant w lies
/// counts only in the latter.
std::string conv_layout(const ConvProblem& problem);

}  // namespace dlprim::detail
