#include "net/executor.hpp"

#include <algorithm>

#include <dlprim/recording.hpp>
#include <dlprim/rehearsal.hpp>

#include "core/memory.hpp"
#include "core/rehearsed.hpp"
#include "net/indices.hpp"
#include "net/nodes/host.hpp"

namespace dlprim::detail {
namespace {

/// The work of one graph.
class Run {
 public:
  Run(const RunScope& scope, const NetGraph& graph)
      : scope_(scope), graph_(graph), slots_(graph.values.size()), uses_(graph.values.size()) {
    for (const NetGraph::Node& node : graph.nodes)
      for (int value : node.inputs)
        if (value != NetGraph::kNone) uses_[index(value)]++;
    for (int value : graph.outputs) uses_[index(value)]++;
    for (const auto& [value, constant] : graph.constants) {
      Slot& slot = slots_[index(value)];
      slot = {constant->dtype, constant->shape, constant, {}, true};
      const auto kept = scope.constants.find(constant);
      if (kept != scope.constants.end()) slot.tensor = kept->second;
    }
  }

  void feed(std::vector<Slot> inputs) {
    require(inputs.size() == graph_.inputs.size(), "inputs", inputs.size(), " values for ",
            graph_.inputs.size(), " inputs of a graph");
    for (size_t i = 0; i < inputs.size(); i++) {
      note(graph_.inputs[i], inputs[i]);
      slots_[index(graph_.inputs[i])] = std::move(inputs[i]);
    }
  }

  void run(const NetGraph::Node& node) {
    std::vector<Slot*> inputs;
    for (int value : node.inputs)
      inputs.push_back(value == NetGraph::kNone ? nullptr : &slots_[index(value)]);
    const bool constant = is_constant(node, inputs);
    if (constant && take_folded(node)) return done_with(node, false);
    std::optional<RehearsalPause> pause;
    if (constant && scope_.prepares) pause.emplace(), forget_rehearsed(inputs);
    NodeStep step(node, scope_, inputs, places_);
    const bool open = compute(step, graph_);
    for (int k = 0; k < step.output_count(); k++) {
      step.out(k).open_shape = open;
      step.out(k).of_shapes = !open && step.out(k).host && follows_from_shapes(node, inputs);
    }
    tell(step);
    note(step);
    // Kinds that say no shapes before they run look at elements.
    const bool read_back =
        !constant &&
        (!find_kind(node.kind)->infer ||
         std::any_of(inputs.begin(), inputs.end(), [](const Slot* slot) { return slot && slot->read_back; }));
    if (read_back && scope_.prepares) scope_.prepares->reads_back = true;
    if (hands_on_indices(step)) step.out(0).feed = step.in(0).feed;
    done_with(node, !constant);
    for (int k = 0; k < step.output_count(); k++) {
      if (!step.wanted(k)) continue;
      step.out(k).constant = constant;
      if (read_back) step.out(k).read_back = true;
      if (uses_[index(node.outputs[index(k)])] != 0) slots_[index(node.outputs[index(k)])] = step.out(k);
    }
    if (constant) keep_folded(step);
  }

  std::vector<Slot> outputs() {
    std::vector<Slot> outputs;
    for (int value : graph_.outputs) outputs.push_back(slots_[index(value)]);
    return outputs;
  }

 private:
  static size_t index(int value) { return static_cast<size_t>(value); }

  /// Whether the outputs' shapes depend on elements.
  static bool compute(NodeStep& step, const NetGraph& graph) {
    const NodeKind& kind = *find_kind(step.node.kind);
    bool open = !kind.infer || !step.node.bodies.empty();
    for (int k = 0; k < step.input_count(); k++) open = open || (step.has(k) && step.in(k).open_shape);
    try {
      if (kind.infer) kind.infer(step);
      open = open || step.looked();
      check_indices(step, graph);
      if (!kind.on_host || !all_on_host(step) || !kind.on_host(step)) kind.run(step);
      for (int k = 0; k < step.output_count(); k++)
        require(!step.wanted(k) || step.out(k).tensor.defined() || step.out(k).host, "outputs", "output ", k,
                " was not computed");
    } catch (const ValidationError& error) {
      const std::string place = cat("node '", step.node.name, "' (", step.node.kind, ")");
      if (error.argument() == "feeds") throw;               // it names the node
      if (error.argument().rfind("node '", 0) == 0) throw;  // a node of a body has said where
      throw ValidationError(place, error.what());
    }
    return open;
  }

  static bool follows_from_shapes(const NetGraph::Node& node, const std::vector<Slot*>& inputs) {
    return node.kind == "shape" || node.kind == "size" ||
           std::all_of(inputs.begin(), inputs.end(),
                       [](const Slot* slot) { return !slot || slot->constant || slot->of_shapes; });
  }

  static bool all_on_host(const NodeStep& step) {
    for (int k = 0; k < step.input_count(); k++)
      if (step.has(k) && (!step.in(k).host || element_count(step.in(k).shape) > kMostOnHost)) return false;
    return true;
  }

  void tell(NodeStep& step) const {
    if (!scope_.watch) return;
    Model::Tensors outputs;
    for (int k = 0; k < step.output_count(); k++)
      if (step.wanted(k) && step.out(k).tensor.defined())
        outputs[graph_.values[index(step.node.outputs[index(k)])].name] = step.out(k).tensor;
    scope_.watch(step.node, outputs);
  }

  void note(int value, const Slot& slot) const {
    if (scope_.facts && scope_.facts_of == &graph_ && value != NetGraph::kNone)
      (*scope_.facts)[index(value)] =
          ValueFacts{slot.dtype, slot.shape, slot.of_shapes ? slot.host : nullptr};
  }
  void note(NodeStep& step) const {
    for (int k = 0; k < step.output_count(); k++) note(step.node.outputs[index(k)], step.out(k));
  }

  /// What the node gives is the same in each run: computed once. Graphs in it may do anything.
  static bool is_constant(const NetGraph::Node& node, const std::vector<Slot*>& inputs) {
    if (inputs.empty() || differs_each_time(node)) return false;
    return std::all_of(inputs.begin(), inputs.end(),
                       [](const Slot* slot) { return !slot || slot->constant; });
  }

  /// What a rehearsed node was given of a value on the host is on the device no more.
  static void forget_rehearsed(const std::vector<Slot*>& inputs) {
    for (Slot* slot : inputs)
      if (slot && slot->host && slot->tensor.defined() && !slot->tensor.storage()->buffer())
        slot->tensor = Tensor();
  }

  bool take_folded(const NetGraph::Node& node) {
    const auto kept = scope_.nodes.folded.find(&node);
    if (kept == scope_.nodes.folded.end()) return false;
    for (size_t k = 0; k < node.outputs.size(); k++)
      if (node.outputs[k] != NetGraph::kNone) slots_[index(node.outputs[k])] = kept->second[k];
    return true;
  }

  /// Not in a rehearsal, which computes nothing, nor in a recording, whose memory is its own.
  void keep_folded(NodeStep& step) const {
    if (Rehearsal::active() || Recording::active()) return;
    std::vector<Slot> outputs;
    for (int k = 0; k < step.output_count(); k++) outputs.push_back(step.out(k));
    scope_.nodes.folded[&step.node] = std::move(outputs);
  }

  /// One use less of each input. `keep`: constants that went to the device stay there.
  void done_with(const NetGraph::Node& node, bool keep) {
    for (int value : node.inputs)
      if (value != NetGraph::kNone) release(value, keep);
  }

  void keep_on_device(Slot& slot, const std::shared_ptr<const HostTensor>& constant) const {
    if (scope_.constants.count(constant)) return;
    if (Rehearsal::active()) {
      if (!scope_.prepares) return;
      const RehearsalPause pause;
      slot.tensor = dlprim::to_device(scope_.stream, *constant);
    }
    scope_.constants.emplace(constant, slot.tensor);
  }

  void release(int value, bool keep) {
    Slot& slot = slots_[index(value)];
    const auto constant = graph_.constants.find(value);
    if (constant != graph_.constants.end()) {
      if (keep && slot.tensor.defined() && !Recording::active()) keep_on_device(slot, constant->second);
      return;
    }
    if (--uses_[index(value)] == 0) slot = Slot();
  }

  const RunScope& scope_;
  const NetGraph& graph_;
  std::vector<Slot> slots_;
  std::vector<int> uses_;
  NodeStep::Places places_;
};

}  // namespace

std::vector<Slot> run_graph(const RunScope& scope, const NetGraph& graph, std::vector<Slot> inputs) {
  const FedIndices::Graph feeds_of_graph;
  Run run(scope, graph);
  run.feed(std::move(inputs));
  for (const NetGraph::Node& node : graph.nodes) run.run(node);
  return run.outputs();
}

}  // namespace dlprim::detail
