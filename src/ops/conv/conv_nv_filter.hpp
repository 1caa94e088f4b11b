// Convolution engine `nv_wgmma`, backward filter: see conv_nv_filter.cl.
#pragma once

#include "ops/conv/conv_problem.hpp"

namespace dlprim::detail {

std::string refuse_conv_nv_filter(const Context& context, const ConvProblem& p, const EngineOptions& options);
std::unique_ptr<const ConvImpl> make_conv_nv_filter(const Context& context, const ConvProblem& problem,
                                                    const EngineOptions& options);
/// Bytes of the workspace for what is made of x and dy.
uint64_t conv_nv_filter_pixel_bytes(const ConvProblem& p, const Options& options);
/// What tuning tries: every tile, by as many workers as it is predicted to want, by all units and by half of
/// them.
std::vector<std::string> conv_nv_filter_candidates(const Context& context, const ConvProblem& p,
                                                   const Options& options);

}  // namespace dlprim::detail
