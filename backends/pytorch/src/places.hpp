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

/// What an expression reads and writes, as dlprim's MultiPointwise has it: x0, x1, ... are `changed`,
/// `inputs`, `singles` and `numbers`; y0, y1, ... `changed` and `outputs`. Tensors are floating.
struct Places {
  using Lists = c10::SmallVector<at::TensorList, 5>;
  Lists changed, inputs, outputs;               ///< at a place all have the same sizes
  c10::SmallVector<at::TensorList, 1> singles;  ///< of one element at each place
  c10::SmallVector<at::Tensor, 4> numbers;      ///< of one element, the same for all places
  c10::SmallVector<at::Scalar, 8> scalars;      ///< the same for all places
  c10::SmallVector<at::Scalar, 0> scalar_list;  ///< if not empty, one scalar more for each place

  /// Of the written lists the first one.
  at::TensorList written() const { return changed.empty() ? outputs[0] : changed[0]; }
};

/// Whether the lists have equal lengths, and at each place floating tensors of one dtype that the device
/// computes with, of equal sizes and strides, without gaps.
bool fit_together(c10::ArrayRef<at::TensorList> lists);

/// The tensors of a list, which have no gaps, as vectors; without the empty ones, which have no memory.
std::vector<dlprim::Tensor> vectors_of(at::TensorList list);

/// Runs the expression at every place, in few launches, in the current stream of the device of what is
/// written. `what` and `variant` tell expressions apart; the text is asked for when a plan is made.
void run_places(const void* what, int64_t variant, const Places& places,
                const std::function<std::string()>& text);

}  // namespace ocl
