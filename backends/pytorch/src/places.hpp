// One expression over lists of tensors. A place is an index into the lists: what stands there in all of them
// belongs together, as a weight, its gradient and the optimizer's states do.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/core/Scalar.h>
#include <c10/util/SmallVector.h>
#include <dlprim/tensor.hpp>

namespace ocl {

/// What an expression reads and writes. Inputs are x0, x1, ... of the generated text: first the lists, then
/// `singles`, then `numbers`. Scalars are s0, s1, ...
struct Places {
  c10::SmallVector<at::TensorList, 5> outputs, inputs;  ///< at a place all have the same sizes
  c10::SmallVector<at::TensorList, 1> singles;          ///< of one element at each place
  c10::SmallVector<at::Tensor, 4> numbers;              ///< of one element, the same for all places
  c10::SmallVector<at::Scalar, 8> scalars;              ///< the same for all places
  c10::SmallVector<at::Scalar, 0> scalar_list;          ///< if not empty, one scalar more for each place
};

/// Whether the lists have equal lengths, and at each place floating tensors of one dtype that the device
/// computes with, of equal sizes and strides, without gaps.
bool fit_together(c10::ArrayRef<at::TensorList> lists);

/// The tensors of a list, which have no gaps, as vectors; without the empty ones, which have no memory.
std::vector<dlprim::Tensor> vectors_of(at::TensorList list);

/// Runs the expression at every place, in the current stream of the device of the first output. `what` and
/// `variant` tell expressions apart; the text is asked for when a plan is made.
void run_places(const void* what, int64_t variant, const Places& places,
                const std::function<std::string()>& text);

}  // namespace ocl
