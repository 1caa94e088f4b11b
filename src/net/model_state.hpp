// A model's runs. Of each kind of run (what the inputs look like, options) the first has its programs
// compiled side by side; the second is recorded; the others are replayed. What cannot be recorded, as its
// shapes depend on elements or its numbers are random, runs node by node each time.
#pragma once

#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <dlprim/random.hpp>
#include <dlprim/recording.hpp>

#include "net/executor.hpp"

namespace dlprim::detail {

/// A kind of run, and what is known of it.
struct RunKind {
  std::string key;
  bool replayable = true;
  std::vector<std::optional<ValueFacts>> facts;  ///< of the values of the model's graph
  std::unique_ptr<NetGraph> graph;               ///< rewritten for this kind
  NodeMemory nodes;                              ///< of that graph
  Recording recording;
  std::vector<Tensor> inputs;   ///< where the recording reads
  std::vector<Tensor> outputs;  ///< where it writes
};

class ModelState {
 public:
  ModelState(NetGraph given, std::vector<std::string> without, DType precision);

  NetGraph graph;

  /// Gives row-major outputs in memory of their own.
  std::vector<Tensor> run(const Stream& stream, const std::vector<Slot>& inputs, const Options& options,
                          const Model::Watch& watch);
  Model::Plan explain(const Stream& stream, const std::vector<Slot>& inputs, const Options& options);

 private:
  /// What is kept for one context.
  struct Part {
    Context context;
    DeviceConstants constants;
    NodeMemory nodes;          ///< of the model's graph
    std::list<RunKind> kinds;  ///< the one used last in front
  };
  Part& part_of(const Context& context);
  RunKind& kind_of(Part& part, const std::string& key, bool& is_new) const;
  void forget(Part& part, RunKind& kind) const;
  static void rehearse(const Stream& stream, const Options& options, const NetGraph& of,
                       const std::vector<Slot>& inputs);
  std::vector<Tensor> run_nodes(const RunScope& scope, const std::vector<Slot>& inputs);
  bool record(const RunScope& scope, Part& part, RunKind& kind, const std::vector<Slot>& inputs);
  void rewrite(const Stream& stream, const NodeMemory& nodes, RunKind& kind);

  std::vector<std::string> without_;  ///< passes that are left out
  DType precision_;                   ///< see Model
  /// As in Rewritten.
  std::map<std::shared_ptr<const HostTensor>, std::shared_ptr<const HostTensor>> converted_;
  std::list<Part> parts_;
  RandomState random_;  ///< as in RunScope
};

}  // namespace dlprim::detail
