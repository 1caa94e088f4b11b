// Dense tensors put together in one launch, on a GPU: a form of concat(), not an operator.
#pragma once

#include <vector>

#include <dlprim/stream.hpp>
#include <dlprim/tensor.hpp>

namespace dlprim::detail {

/// y = the inputs along `axis`, whose shapes fit. False, and nothing is done, unless all are of one dtype and
/// dense in one order of dimensions.
bool concat_words(const Stream& stream, const std::vector<Tensor>& inputs, int axis, const Tensor& y);

}  // namespace dlprim::detail
