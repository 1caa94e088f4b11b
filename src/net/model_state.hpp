// A model's runs. Of each kind of run (what the inputs look like, options) the first has its programs
// compiled side by side, and is rehearsed alone if nobody asks for its results; the second is recorded; the
// others are replayed. Where branches are known the second runs the graph without the others, and the third
// is recorded. Where the host decides by a setting, an input of one whole number, each of its values makes a
// kind. What cannot be recorded, as its shapes depend on elements, runs node by node each time.
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
#include "net/indices.hpp"

namespace dlprim::detail {

/// A kind of run, and what is known of it.
struct RunKind {
  std::string key;
  bool replayable = true;
  bool learned = false;            ///< facts and base are those of its runs
  bool has_settings = false;       ///< the host decides by settings: their values have kinds of their own
  bool of_settings = false;        ///< it is such a kind: in its runs settings are constant
  int settings = 0;                ///< how many such kinds there were
  std::unique_ptr<NetGraph> base;  ///< the model's graph with its branches taken, if there are some
  std::vector<std::optional<ValueFacts>> facts;  ///< of the values of that, or of the model's graph
  std::unique_ptr<NetGraph> graph;               ///< that rewritten for this kind
  NodeMemory nodes;                              ///< of that graph; before, of what is the kind's alone
  Recording recording;
  uint64_t recorded_at = 0, drawn = 0;  ///< where its random numbers began, and how many there were
  std::vector<Tensor> inputs;           ///< where the recording reads
  std::vector<Tensor> outputs;          ///< where it writes
};

class ModelState {
 public:
  ModelState(NetGraph given, std::vector<std::string> without, DType precision);

  NetGraph graph;
  KnownIndices indices;  ///< those among its feeds
  /// Runs after the first of their kind give outputs in the recording's memory: the next run overwrites them.
  bool lends = false;
  /// The first run of a kind gives the rewritten graph's bits, too.
  bool rewritten_first = false;

  /// Gives row-major outputs in memory of their own, if it does not lend them.
  std::vector<Tensor> run(const Stream& stream, const std::vector<Slot>& inputs, const Options& options,
                          const Model::Watch& watch);
  /// A kind's recording and its tensors. They are the kind's no more, which is learned anew.
  struct Bound {
    Recording recording;
    uint64_t next = 0, drawn = 0;  ///< where the next run's random numbers begin, and how many each has
    std::vector<Tensor> inputs;    ///< undefined: a setting
    std::vector<Tensor> outputs;
  };
  /// Of nothing where the kind cannot be replayed.
  Bound bind(const Stream& stream, const std::vector<Slot>& inputs, const Options& options);
  Model::Plan explain(const Stream& stream, const std::vector<Slot>& inputs, const Options& options);
  Model::Trace trace(const Stream& stream, const std::vector<Slot>& inputs, const Options& options);

  /// Of the recording of the last run; 0 if there is none. Of models that run on one context.
  int64_t launches() const noexcept;

  /// Where the numbers of nodes without a seed go on.
  RandomState random() const noexcept { return random_; }
  void set_random(const RandomState& state);

 private:
  /// What is kept for one context.
  struct Part {
    Context context;
    DeviceConstants constants;
    NodeMemory nodes;          ///< of the model's graph
    std::list<RunKind> kinds;  ///< the one used last in front
  };
  Part& part_of(const Context& context);
  RunKind& kind_at(Part& part, const std::string& key) const;
  RunKind& kind_of(const Stream& stream, Part& part, const std::vector<Slot>& given, std::vector<Slot>& set,
                   const Options& options, bool plainly) const;
  void forget(Part& part, RunKind& kind) const;
  static bool rehearse(const RunScope& scope, const NetGraph& of, const std::vector<Slot>& inputs);
  const NetGraph& base_of(const RunKind& kind) const { return kind.base ? *kind.base : graph; }
  static NodeMemory& nodes_of(Part& part, RunKind& kind) {
    return kind.of_settings || kind.base ? kind.nodes : part.nodes;
  }
  std::vector<Tensor> run_nodes(const RunScope& scope, const NetGraph& of, const std::vector<Slot>& inputs);
  std::vector<Tensor> learn(const RunScope& scope, RunKind& kind, const std::vector<Slot>& inputs,
                            bool asked);
  RunKind& settled(const Stream& stream, Part& part, std::vector<Slot>& inputs, const Options& options);
  bool record(const RunScope& scope, Part& part, RunKind& kind, const std::vector<Slot>& inputs);
  void rewrite(const RunScope& scope, const NodeMemory& nodes, RunKind& kind);
  std::vector<Tensor> handed_out(const Stream& stream, const Options& options, const RunKind& kind) const;

  std::vector<std::string> without_;  ///< passes that are left out
  DType precision_;                   ///< see Model
  /// As in Rewritten.
  std::map<std::shared_ptr<const HostTensor>, std::shared_ptr<const HostTensor>> converted_;
  std::list<Part> parts_;
  RandomState random_{0, 0, true};  ///< as in RunScope
};

/// What a graph's inputs are fed, in their order. Throws ValidationError as Model::run.
std::vector<Slot> feed_slots(const NetGraph& graph, const Model::Tensors& feeds, const Context& context);

}  // namespace dlprim::detail
