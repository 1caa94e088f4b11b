// A model's runs. Of each kind of run (what the inputs look like, options) the first has its programs
// compiled side by side, and is rehearsed alone if nobody asks for its results; the second is recorded; the
// others are replayed. Where branches are known the second runs the graph without the others, and the third
// is recorded. Where the host decides by a setting, an input of one whole number, each of its values makes a
// kind. What cannot be recorded, as its shapes depend on elements, runs node by node each time.
#pragma once

#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <dlprim/random.hpp>
#include <dlprim/recording.hpp>

#include "net/indices.hpp"
#include "net/run_kinds.hpp"

namespace dlprim::detail {

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
  void keep(const Model::Kept& kept);

 private:
  RunKinds& kinds_in(const Context& context);
  RunKind& kind_of(const Stream& stream, RunKinds& kinds, const std::vector<Slot>& given,
                   std::vector<Slot>& set, const Options& options, bool plainly) const;
  static bool rehearse(const RunScope& scope, const NetGraph& of, const std::vector<Slot>& inputs);
  const NetGraph& base_of(const RunKind& kind) const { return kind.base ? *kind.base : graph; }
  static NodeMemory& nodes_of(RunKinds& kinds, RunKind& kind) {
    return kind.of_settings || kind.base ? kind.nodes : kinds.nodes;
  }
  std::vector<Tensor> run_nodes(const RunScope& scope, const NetGraph& of, const std::vector<Slot>& inputs);
  std::vector<Tensor> learn(const RunScope& scope, RunKind& kind, const std::vector<Slot>& inputs,
                            bool asked);
  RunKind& settled(const Stream& stream, RunKinds& kinds, std::vector<Slot>& inputs, const Options& options);
  bool record(const RunScope& scope, RunKinds& kinds, RunKind& kind, const std::vector<Slot>& inputs);
  static std::vector<Slot> own_inputs(const RunScope& scope, RunKinds& kinds, RunKind& kind,
                                      const std::vector<Slot>& inputs, bool shared);
  void rewrite(const RunScope& scope, RunKinds& kinds, RunKind& kind);
  bool run_rewritten(const std::function<RunScope()>& scope, RunKinds& kinds, RunKind& kind,
                     const std::vector<Slot>& inputs, std::vector<Tensor>& outputs);
  std::vector<Tensor> handed_out(const Stream& stream, const Options& options, const RunKind& kind) const;

  std::vector<std::string> without_;  ///< passes that are left out
  DType precision_;                   ///< see Model
  bool low_;                          ///< something is f16 or bf16: all results are the rewritten graph's
  /// As in Rewritten.
  std::map<std::shared_ptr<const HostTensor>, std::shared_ptr<const HostTensor>> converted_;
  Model::Kept kept_;
  std::list<std::shared_ptr<RunKinds>> contexts_;  ///< contexts' lists of keepers have them, too
  RandomState random_{0, 0, true};                 ///< as in RunScope
  bool alone_ = false;  ///< recordings have memory of their own: they will be given away
};

/// What a graph's inputs are fed, in their order. Throws ValidationError as Model::run.
std::vector<Slot> feed_slots(const NetGraph& graph, const Model::Tensors& feeds, const Context& context);

}  // namespace dlprim::detail
