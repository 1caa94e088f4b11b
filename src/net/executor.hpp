// Running a NetGraph, node by node: each value goes after its last use. Shapes become known on the way, so
// one that depends on a tensor's elements is no special case.
#pragma once

#include <map>
#include <vector>

#include <dlprim/net_model.hpp>
#include <dlprim/random.hpp>

#include "net/nodes/node.hpp"

namespace dlprim::detail {

/// A model's constants on the device of one context.
using DeviceConstants = std::map<const HostTensor*, Tensor>;

/// What all graphs of one run share.
struct RunScope {
  const Stream& stream;
  const Options& options;
  DeviceConstants& constants;
  const Model::Watch& watch;
  RandomState& random;  ///< of nodes without a seed: goes on from node to node, and from run to run
};

/// Runs `graph` on `inputs` and gives its outputs. Throws ValidationError that names the node.
std::vector<Slot> run_graph(const RunScope& scope, const NetGraph& graph, std::vector<Slot> inputs);

}  // namespace dlprim::detail
