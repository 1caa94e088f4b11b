// Less memory for more time: what lies between a few values of the forward direction is computed again when
// gradients need it.
#pragma once

#include <dlprim/net_graph.hpp>

namespace dlprim::detail {

/// Splits the nodes in front of the first one that depends on `seed` into about as many segments as each has
/// nodes. What a segment hands to another stays; the rest, if nodes of gradients read it, is computed once
/// more in front of the first of them (Chen et al., 2016). Random numbers, statistics, and what largest or
/// smallest elements are looked for in stay.
void recompute_segments(NetGraph& graph, int seed);

}  // namespace dlprim::detail
