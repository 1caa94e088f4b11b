// Running a NetGraph, node by node: each value goes after its last use. Shapes become known on the way, so
// one that depends on a tensor's elements is no special case.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <dlprim/net_model.hpp>
#include <dlprim/random.hpp>

#include "core/plan_cache.hpp"
#include "net/nodes/node.hpp"
#include "net/passes/branches.hpp"
#include "net/passes/pass.hpp"

namespace dlprim::detail {

/// A model's constants on the device of one context.
using DeviceConstants = std::map<std::shared_ptr<const HostTensor>, Tensor>;

/// What is kept of the nodes of one graph, on the device of one context.
struct NodeMemory {
  std::map<const NetGraph::Node*, std::vector<Slot>>
      folded;  ///< outputs of nodes whose inputs are all constant
  std::map<std::string, std::shared_ptr<const void>> plans;  ///< NodeStep::kept_plan
  size_t plan_bytes = 0;                                     ///< what they take of the host's memory, about
};

/// What a rehearsal finds out for the recording that may follow.
struct Prepared {
  bool reads_back = false;  ///< something depends on elements that were read
};

/// What all graphs of one run share.
struct RunScope {
  const Stream& stream;
  const Options& options;
  DeviceConstants& constants;
  NodeMemory& nodes;
  const Model::Watch& watch;
  RandomState& random;  ///< of nodes without a seed: goes on from node to node, and from run to run
  /// Where what the run finds of the values of `facts_of` is put down; null: nowhere.
  std::vector<std::optional<ValueFacts>>* facts = nullptr;
  const NetGraph* facts_of = nullptr;
  Branches* branches = nullptr;  ///< where it puts down those that runs of this kind always take
  /// Of a rehearsal: what follows from constants alone is computed all the same, and constants that other
  /// nodes read go to the device. Null: of any other run.
  Prepared* prepares = nullptr;
};

/// All that a plan depends on beside its tensors.
inline PlanKey& add_options(PlanKey& key, const Options& o) {
  return key.add(o.engine).add(o.workspace_limit).add(o.math).add(o.tune).add(o.plan);
}

/// Runs `graph` on `inputs` and gives its outputs. Throws ValidationError that names the node.
std::vector<Slot> run_graph(const RunScope& scope, const NetGraph& graph, std::vector<Slot> inputs);

}  // namespace dlprim::detail
