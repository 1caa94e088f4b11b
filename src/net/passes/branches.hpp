// A graph with the branches taken that are known: what an "if" gives is computed by the nodes of one of its
// bodies then, where passes see them. Unlike the other passes this one makes the graph that a kind of run is
// learned of.
#pragma once

#include <map>
#include <optional>

#include <dlprim/net_graph.hpp>

namespace dlprim::detail {

/// Which body nodes of kind "if" run, true for the first: of those where shapes, constants or settings say
/// it.
using Branches = std::map<const NetGraph::Node*, bool>;

/// `graph` without the nodes in `known`, also those in bodies that are taken; none if there is no such node.
std::optional<NetGraph> with_branches_taken(const NetGraph& graph, const Branches& known);

}  // namespace dlprim::detail
