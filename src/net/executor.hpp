// Running a NetGraph, node by node: each value goes after its last use. Shapes become known on the way, so
// one that depends on a tensor's elements is no special case.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include <dlprim/net_model.hpp>
#include <dlprim/random.hpp>

#include "net/nodes/node.hpp"

namespace dlprim::detail {

/// What a model keeps on the device of one context.
struct ModelMemory {
  std::map<const HostTensor*, Tensor> constants;
  std::map<const NetGraph::Node*, std::vector<Slot>>
      folded;  ///< outputs of nodes whose inputs are all constant
  std::map<std::string, std::shared_ptr<const void>>
      plans;  ///< of nodes with constant operands: NodeStep::kept_plan
};

/// What all graphs of one run share.
struct RunScope {
  const Stream& stream;
  const Options& options;
  ModelMemory& memory;
  const Model::Watch& watch;
  RandomState& random;  ///< of nodes without a seed: goes on from node to node, and from run to run
};

/// Runs `graph` on `inputs` and gives its outputs. Throws ValidationError that names the node.
std::vector<Slot> run_graph(const RunScope& scope, const NetGraph& graph, std::vector<Slot> inputs);

}  // namespace dlprim::detail
