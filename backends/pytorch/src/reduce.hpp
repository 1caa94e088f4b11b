// Reductions that other files need.
#pragma once

#include <ATen/core/Tensor.h>

namespace ocl {

/// result, of one element, becomes the norm of all elements of a tensor without gaps, which is not empty.
void norm_of_all(const at::Tensor& tensor, double order, const at::Tensor& result);

}  // namespace ocl
