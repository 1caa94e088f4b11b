// What norms over lists of tensors have in common: the parts that multi_tensor.cl leaves, and their end in
// gradients.cl.
#pragma once

#include <dlprim/gradients.hpp>

#include "core/defines.hpp"
#include "ops/optim/multi_tensor.hpp"

namespace dlprim::detail {

/// Throws ValidationError for an order, or numbers of tensors and elements, that do not exist.
void require_norm(NormOrder order, int64_t tensors, int64_t elements);
const char* name_of(NormOrder order);
/// Each group's part of a norm of the list `name`.
MultiTensorForm norm_form(const char* name, DType dtype, NormOrder order);
/// Of gradients.cl.
Defines norm_defines(const Context& context, DType real, NormOrder order);
/// Work-items of a group there.
size_t norm_group(const Context& context);
int64_t elements_of(const std::vector<Tensor>& list);

}  // namespace dlprim::detail
