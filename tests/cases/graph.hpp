// Pieces of NetGraphs for tests that link the net.
#pragma once

#include <string>
#include <vector>

#include <dlprim/net_graph.hpp>
#include <dlprim/net_host.hpp>

#include "support.hpp"

namespace dlprim::test {

inline HostTensor whole(const Shape& shape, const std::vector<int64_t>& elements) {
  return host_tensor(DType::i64, shape, elements);
}

/// f32, without axes.
inline HostTensor number(double value) {
  return host_tensor(DType::f32, {}, std::vector<double>{value});
}

/// A constant with a name, f32, of random numbers from `low` to `high`.
inline int add_parameter(NetGraph& graph, Rng& rng, const std::string& name, const Shape& shape, double low,
                         double high) {
  std::vector<double> numbers;
  for (int64_t i = 0; i < element_count(shape); i++) numbers.push_back(rng.real(low, high));
  HostTensor tensor = host_tensor(DType::f32, shape, numbers);
  tensor.name = name;
  return graph.add_constant(std::move(tensor));
}

/// A line for each input and node.
std::string text_of(const NetGraph& graph);

}  // namespace dlprim::test
