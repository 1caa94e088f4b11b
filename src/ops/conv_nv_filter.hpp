// Convolution engine `nv_wgmma`, backward filter: see conv_nv_filter.cl.
#pragma once

#include "ops/conv_problem.hpp"

namespace dlprim::detail {

std::string refuse_conv_nv_filter(const Context& context, const ConvProblem& p, const Options& options);
std::unique_ptr<const ConvImpl> make_conv_nv_filter(const Context& context, const ConvProblem& problem,
                                                    const Options& options);

}  // namespace dlprim::detail
