// Kinds on the host: what computes sizes and axes out of shapes, a few elements each. They follow the
// library's operators in all that whole numbers can show.
#pragma once

#include "net/nodes/node.hpp"

namespace dlprim::detail {

/// Tensors of more elements go faster through the device.
inline constexpr int64_t kMostOnHost = 4096;

/// The output has the first input's elements in their order.
bool copy_on_host(NodeStep& step);
bool cast_on_host(NodeStep& step);
bool expand_on_host(NodeStep& step);
bool concat_on_host(NodeStep& step);
bool elementwise_on_host(NodeStep& step);
/// The name of the function that a node of that kind is. Its attributes: function, a name of
/// docs/elementwise.md; whole, another for inputs that are all integers; parameters, all that the function
/// has, or none.
std::string elementwise_function_of(const NodeStep& step);
/// x taken along an axis at the indices of input 1.
bool gather_on_host(NodeStep& step);
/// A view of x: element 0, and steps along the output's axes, in elements.
void view_on_host(NodeStep& step, int64_t offset, const std::vector<int64_t>& strides);

}  // namespace dlprim::detail
