// What commands print of a model's nodes.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <dlprim/net_graph.hpp>
#include <dlprim/tensor.hpp>

namespace dlprim::cli {

/// "a, b"
std::string joined(const std::vector<std::string>& list, const char* between);
/// "conv", "elementwise relu": with the function where there is one.
std::string kind_of(const NetGraph::Node& node);
/// "groups=1 stride=1,1"
std::string attributes_of(const NetGraph::Node& node);
/// "f32[1, 64], i64[1]"
std::string outputs_of(const std::vector<std::pair<std::string, TensorDesc>>& outputs);

}  // namespace dlprim::cli
