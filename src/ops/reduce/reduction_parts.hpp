// What both directions of reductions by name share: the functions' scalars and results.
#pragma once

#include <string>
#include <vector>

#include <dlprim/reduction.hpp>

#include "core/composed.hpp"
#include "ops/lib/expression_names.hpp"

namespace dlprim::detail {

/// What refusals call the results; no function has more.
inline constexpr const char* kReductionResults[] = {"results[0]", "results[1]"};

/// The list's parameters and n are the kernel's scalars: their names, how many there are, and their values.
ExpressionNames reduction_names(const ReductionFunction& f);
int scalar_count(const ReductionFunction& f);
std::vector<Scalar> reduction_scalars(const ReductionFunction& f, const std::vector<Scalar>& given,
                                      int64_t n);
/// The reduction in the kernel's words.
Reduction reduction_in_kernel(const Reduction& r, const ExpressionNames& names);

/// The dtype of result `i` of x. Throws ValidationError.
void require_result(const ReductionFunction& f, size_t i, const TensorDesc& x, const TensorDesc& y);
/// How many elements are reduced to one. `y` is the shape of `name`, to which x is reduced.
int64_t reduced_count(const char* name, const Shape& y, const Shape& x);
PlanInfo reduction_info(const std::string& function, const TensorDesc& x, const TensorDesc& y,
                        const std::vector<TensorDesc>& tensors, size_t workspace);

}  // namespace dlprim::detail
