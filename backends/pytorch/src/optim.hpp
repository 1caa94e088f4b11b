// What operators over lists have of dlprim's optimizers.
#pragma once

#include <ATen/core/Tensor.h>

namespace ocl {

/// Adds the number to tensors of one f32 each, in few launches: PyTorch counts a step for each weight. False
/// if the tensors are others; then nothing was done.
bool count_steps(at::TensorList steps, double number);

}  // namespace ocl
