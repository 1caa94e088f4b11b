// The graph that a training step runs: the given one in training, with parameters and statistics as inputs,
// and gradients and new statistics as outputs.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <dlprim/net_graph.hpp>
#include <dlprim/net_training.hpp>

namespace dlprim::detail {

struct TrainingGraph {
  struct State {
    std::string name;
    std::shared_ptr<const HostTensor> first;
    int value;  ///< in the given graph
  };
  /// Inputs: those given, the loss's gradient "training.seed", parameters, statistics. Outputs: those given,
  /// gradients, new statistics.
  NetGraph step;
  NetGraph inference;  ///< the given graph, with parameters and statistics as inputs behind its own
  std::vector<State> parameters, statistics;
};

/// Throws ValidationError as Trainer's constructor.
TrainingGraph training_graph(const NetGraph& given, const Trainer::Config& config);

/// BatchNorm takes a residual and an activation behind it.
void join_batch_norms(NetGraph& graph);

/// The graph without these inputs, and without outputs that depend on them.
NetGraph without_inputs(const NetGraph& graph, const std::vector<int>& inputs);

}  // namespace dlprim::detail
