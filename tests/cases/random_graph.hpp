// Networks made at random: of what passes look for, and of what stands in their way.
#pragma once

#include <cstdint>
#include <vector>

#include <dlprim/net_graph.hpp>

namespace dlprim::test {

struct RandomGraph {
  NetGraph graph;             ///< all its values are f32; what nobody reads, and a few more, are outputs
  std::vector<Shape> inputs;  ///< in the order of the graph's
};

/// The same seed, the same graph. `trained`: each node has a gradient, and constants that are learned have a
/// name.
RandomGraph random_graph(uint64_t seed, bool trained);

}  // namespace dlprim::test
