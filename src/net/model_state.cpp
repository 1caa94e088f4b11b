#include "net/model_state.hpp"

#include <algorithm>

#include <dlprim/copy.hpp>
#include <dlprim/net_model.hpp>
#include <dlprim/rehearsal.hpp>

#include "core/recorder.hpp"
#include "core/rehearsed.hpp"
#include "core/state.hpp"

namespace dlprim::detail {
namespace {

constexpr size_t kMostKinds = 16;  // of one context; a model that is fed ever new sizes forgets the oldest
constexpr size_t kMostRecordings = 4;    // each holds the memory of a run
constexpr int kMostSettings = 8;         // values of settings that have kinds of their own
constexpr int64_t kMostKnown = 1 << 16;  // elements that are read back for the passes

std::string key_of(const Stream& stream, const std::vector<Slot>& inputs, const Options& options) {
  PlanKey key("run");
  add_options(key.add(reinterpret_cast<uintptr_t>(&stream.state())), options);
  for (const Slot& slot : inputs)
    key.add(TensorDesc(slot.tensor))
        .add(reinterpret_cast<uintptr_t>(slot.held ? slot.tensor.storage().get() : nullptr));
  return key.bytes();
}

/// Outputs are row-major, and no memory that is somebody's already.
std::vector<Tensor> given_away(const Stream& stream, const Options& options,
                               const std::vector<Tensor>& tensors) {
  std::vector<Tensor> copies;
  for (const Tensor& tensor : tensors) {
    const Tensor& y = copies.emplace_back(stream, tensor.shape(), tensor.dtype());
    if (y.numel() != 0) copy(stream, tensor, y, options);
  }
  return copies;
}

/// A sampling rate, a mode: what a model may branch on.
bool is_setting(const Slot& slot) {
  return !is_floating(slot.dtype) && element_count(slot.shape) == 1;
}

bool uses_same_memory(const Tensor& tensor, const std::vector<Slot>& inputs) {
  return std::any_of(inputs.begin(), inputs.end(),
                     [&](const Slot& slot) { return slot.tensor.storage() == tensor.storage(); });
}

/// Whether networks are faster with channels last: measured on such devices, and of others not known.
bool prefers_channels_last(const Device& device) {
  return device.kind() == DeviceKind::cpu || device.probes().matrix == MatrixEngine::nv_wgmma;
}

/// Whether i8 is multiplied faster than f32. On CPUs it takes 1.3 to 1.8 times as long (PoCL, AVX-512;
/// docs/nodes.md). Of GPUs with matrix engines for it this is not measured yet.
bool prefers_integer_products(const Device& device) {
  const MatrixEngine engine = device.probes().matrix;
  return engine != MatrixEngine::none && engine != MatrixEngine::arm;
}

/// What the first run computed of constants alone, where that was on the host or is small.
std::map<int, std::shared_ptr<const HostTensor>> known_of(const Stream& stream, const NodeMemory& nodes) {
  std::map<int, std::shared_ptr<const HostTensor>> known;
  for (const auto& [node, slots] : nodes.folded)
    for (size_t k = 0; k < slots.size(); k++) {
      if (node->outputs[k] == NetGraph::kNone) continue;
      Slot slot = slots[k];
      if (!slot.host && (!slot.tensor.defined() || slot.tensor.numel() > kMostKnown)) continue;
      to_host(stream, slot);
      known[node->outputs[k]] = slot.host;
    }
  return known;
}

}  // namespace

/// What needs no facts of a run is done at once.
ModelState::ModelState(NetGraph given, std::vector<std::string> without, DType precision)
    : without_(std::move(without)), precision_(precision) {
  require(precision == DType::f32 || precision == DType::f16 || precision == DType::bf16, "precision",
          name_of(precision), " must be f32, f16 or bf16");
  const std::vector<std::string> known = graph_passes();
  for (const std::string& name : without_)
    require(std::find(known.begin(), known.end(), name) != known.end(), "without", "'", name, "' is no pass");
  Rewritten rewritten{std::move(given), {}, {}, DType::f32, nullptr};
  run_passes(rewritten, without_, Passes::without_facts);
  graph = std::move(rewritten.graph);
}

/// The kind of that key, made if there is none; in front of the list.
RunKind& ModelState::kind_at(Part& part, const std::string& key) const {
  std::list<RunKind>& kinds = part.kinds;
  const auto found = std::find_if(kinds.begin(), kinds.end(), [&](const RunKind& k) { return k.key == key; });
  if (found != kinds.end()) {
    kinds.splice(kinds.begin(), kinds, found);
  } else {
    kinds.emplace_front().key = key;
    if (kinds.size() > kMostKinds) {
      forget(part, kinds.back());
      kinds.pop_back();
    }
  }
  size_t recordings = 0;
  for (RunKind& kind : kinds)
    if (kind.recording && ++recordings > kMostRecordings) forget(part, kind);
  return kinds.front();
}

/// The kind of such a run. If values of settings belong to it, `set` becomes the inputs with settings on the
/// host, and constant.
RunKind& ModelState::kind_of(const Stream& stream, Part& part, const std::vector<Slot>& given,
                             std::vector<Slot>& set, const Options& options, bool plainly) const {
  RunKind& kind = kind_at(part, key_of(stream, given, options));
  if (!kind.has_settings || plainly) return kind;
  PlanKey key("settings");
  key.add(kind.key);
  set = given;
  for (Slot& slot : set)
    if (is_setting(slot)) {
      slot.constant = true;
      key.add(integers_of(to_host(stream, slot)));
    }
  RunKind& own = kind_at(part, key.bytes());
  if (!own.of_settings && ++kind.settings > kMostSettings) {  // it is no setting, but ever another number
    part.kinds.pop_front();
    set.clear();
    kind.has_settings = kind.replayable = false;
    return kind;
  }
  own.of_settings = true;
  return own;
}

/// Of a kind that was not used lately: it will be learned again. Constants that its passes made go.
void ModelState::forget(Part& part, RunKind& kind) const {
  if (kind.graph)
    for (const auto& [value, constant] : kind.graph->constants) {
      const auto own = graph.constants.find(value);
      if (own == graph.constants.end() || own->second != constant) part.constants.erase(constant);
    }
  kind.recording = Recording();
  kind.inputs.clear();
  kind.outputs.clear();
  kind.nodes = NodeMemory();
  kind.graph.reset();
  kind.base.reset();
  kind.learned = false;
}

/// With what is known of the values of this kind. `nodes`: of its first run.
void ModelState::rewrite(const RunScope& scope, const NodeMemory& nodes, RunKind& kind) {
  const NetGraph& base = base_of(kind);
  Rewritten rewritten{base, kind.facts, known_of(scope.stream, nodes), precision_, &converted_};
  rewritten.channels_last = prefers_channels_last(scope.stream.context().device());
  rewritten.integer_products = prefers_integer_products(scope.stream.context().device());
  for (const auto& [value, constant] : base.constants)
    rewritten.facts[static_cast<size_t>(value)] = ValueFacts{constant->dtype, constant->shape};
  run_passes(rewritten, without_);
  rewritten.graph.check();
  kind.graph = std::make_unique<NetGraph>(std::move(rewritten.graph));
}

ModelState::Part& ModelState::part_of(const Context& context) {
  for (Part& part : parts_)
    if (part.context == context) return part;
  return parts_.emplace_back(Part{context, {}, {}, {}});
}

/// Tells nobody, and takes no random numbers. False if it ended in an error, which the run itself will say.
bool ModelState::rehearse(const RunScope& scope, const NetGraph& of, const std::vector<Slot>& inputs) {
  const Rehearsal rehearsal;
  const Model::Watch nobody;
  RandomState random = scope.random;
  try {
    run_graph({scope.stream, scope.options, scope.constants, scope.nodes, nobody, random, scope.facts,
               scope.facts_of, scope.branches, scope.prepares},
              of, inputs);
  } catch (const Error&) {
    return false;
  }
  return true;
}

std::vector<Tensor> ModelState::run_nodes(const RunScope& scope, const NetGraph& of,
                                          const std::vector<Slot>& inputs) {
  std::vector<Tensor> outputs;
  for (Slot& slot : run_graph(scope, of, inputs)) {
    const Tensor tensor = to_device(scope.stream, slot);
    const bool own = !slot.constant && tensor.is_contiguous() && !uses_same_memory(tensor, inputs);
    outputs.push_back(own ? tensor : given_away(scope.stream, scope.options, {tensor})[0]);
  }
  return outputs;
}

/// Runs node by node, if its outputs are `asked` for or must be known, and puts down what is known of this
/// kind. Where branches are, the graph without the others is learned next.
std::vector<Tensor> ModelState::learn(const RunScope& scope, RunKind& kind, const std::vector<Slot>& inputs,
                                      bool asked) {
  const NetGraph& of = base_of(kind);
  Branches branches;
  const auto noting = [&] {  // from nothing
    branches.clear();
    kind.facts.assign(of.values.size(), std::nullopt);
    RunScope noted = scope;
    noted.facts = &kind.facts, noted.facts_of = &of, noted.branches = &branches;
    return noted;
  };
  const auto learns_by_rehearsal = [&] {
    const NoPrograms none;  // the rewritten graph has others
    Prepared found;
    RunScope preparing = noting();
    preparing.prepares = &found;
    return rehearse(preparing, of, inputs) && !found.reads_back;
  };
  std::vector<Tensor> outputs;
  if (asked || !learns_by_rehearsal()) {
    rehearse(scope, of, inputs);
    outputs = run_nodes(noting(), of, inputs);
  }
  if (Rehearsal::active()) return outputs;  // the caller's, in which nothing was computed
  kind.learned = true;
  if (std::count(without_.begin(), without_.end(), "branches")) return outputs;
  if (std::optional<NetGraph> taken = with_branches_taken(of, branches)) {
    kind.nodes = NodeMemory();  // of the graph that goes
    kind.base = std::make_unique<NetGraph>(std::move(*taken));
    kind.learned = false;
  }
  return outputs;
}

namespace {

/// An output that is lent: row-major, and nobody else's memory.
Tensor handed_on(const RunScope& scope, const Slot& slot, const Tensor& tensor,
                 const std::vector<Tensor>& before) {
  const bool again = std::any_of(before.begin(), before.end(),
                                 [&](const Tensor& other) { return other.storage() == tensor.storage(); });
  return tensor.is_contiguous() && !slot.constant && !slot.held && !again
             ? tensor
             : given_away(scope.stream, scope.options, {tensor})[0];
}

}  // namespace

/// Runs once more, on inputs of the kind's own. False if that cannot be replayed.
bool ModelState::record(const RunScope& scope, Part& part, RunKind& kind, const std::vector<Slot>& inputs) {
  std::vector<Slot> own = inputs;
  kind.inputs.clear();
  for (Slot& slot : own) {
    if (!slot.held) slot.tensor = Tensor(scope.stream, slot.shape, slot.dtype);
    kind.inputs.push_back(slot.tensor);
  }
  for (size_t i = 0; i < own.size(); i++)
    if (!own[i].held && own[i].tensor.numel() != 0)
      copy(scope.stream, inputs[i].tensor, own[i].tensor, scope.options);
  rewrite(scope, nodes_of(part, kind), kind);
  kind.nodes = NodeMemory();
  const RunScope rewritten{scope.stream, scope.options, scope.constants,
                           kind.nodes,   scope.watch,   scope.random};
  const RandomState before = random_;
  try {
    // What is computed or measured once is no part of the recording.
    Prepared found;
    RunScope preparing = rewritten;
    preparing.prepares = &found;
    const bool prepared = rehearse(preparing, *kind.graph, own) && !found.reads_back &&
                          !found.keeps_constants && scope.options.tune == TuneMode::table;
    if (!prepared) run_graph(rewritten, *kind.graph, own);
    kind.recording = Recording::packed(scope.stream, [&] {
      kind.outputs.clear();
      random_ = before;
      for (Slot& slot : run_graph(rewritten, *kind.graph, own)) {
        const Tensor tensor = to_device(scope.stream, slot);
        kind.outputs.push_back(lends ? handed_on(scope, slot, tensor, kind.outputs) : tensor);
      }
    });
    kind.recorded_at = before.offset, kind.drawn = random_.offset - before.offset;
  } catch (const ValidationError&) {  // it reads back
    random_ = before;
    forget(part, kind);
    kind.has_settings = !kind.of_settings && std::any_of(inputs.begin(), inputs.end(), is_setting);
    kind.replayable = false;
    return false;
  }
  part.nodes = NodeMemory();  // what first runs prepared: the next is of another graph
  if (precision_ != DType::f32)
    for (const auto& [constant, low] : converted_) part.constants.erase(constant);
  return true;
}

std::vector<Tensor> ModelState::run(const Stream& stream, const std::vector<Slot>& given,
                                    const Options& options, const Model::Watch& watch) {
  Part& part = part_of(stream.context());
  // The log tells of operators, and a watch of nodes: a replay has neither. Nor may it be part of another
  // recording.
  const bool plainly = watch || stream.state().logs || Recording::active() || Rehearsal::active();
  std::vector<Slot> set;
  RunKind& kind = kind_of(stream, part, given, set, options, plainly);
  const std::vector<Slot>& inputs = set.empty() ? given : set;
  const auto scope = [&] {
    return RunScope{stream, options, part.constants, nodes_of(part, kind), watch, random_};
  };
  while (kind.replayable && !kind.learned) {
    const RandomState before = random_;
    // In another precision all results are the rewritten graph's.
    const bool asked = plainly || (precision_ == DType::f32 && !rewritten_first);
    std::vector<Tensor> outputs = learn(scope(), kind, inputs, asked);
    if (asked) return outputs;
    random_ = before;  // the run that counts draws the same
  }
  if (!kind.replayable || plainly) return run_nodes(scope(), base_of(kind), inputs);
  if (!kind.recording)
    return record(scope(), part, kind, inputs) ? handed_out(stream, options, kind)
                                               : run_nodes(scope(), graph, given);
  for (size_t i = 0; i < inputs.size(); i++)
    if (!inputs[i].held && inputs[i].tensor.numel() != 0)
      copy(stream, inputs[i].tensor, kind.inputs[i], options);
  kind.recording.replay(random_.offset - kind.recorded_at);
  random_.offset += kind.drawn;
  return handed_out(stream, options, kind);
}

std::vector<Tensor> ModelState::handed_out(const Stream& stream, const Options& options,
                                           const RunKind& kind) const {
  return lends ? kind.outputs : given_away(stream, options, kind.outputs);
}

/// Runs until the kind is recorded, if it can be; `inputs` become what its graph takes. Random numbers are
/// not taken.
RunKind& ModelState::settled(const Stream& stream, Part& part, std::vector<Slot>& inputs,
                             const Options& options) {
  constexpr int kMostRuns =
      8;  // without and with settings: learned, learned again where branches are, recorded
  const std::vector<Slot> given = inputs;
  const RandomState before = random_;
  std::vector<Slot> set;
  for (int i = 0; i < kMostRuns; i++) {
    run(stream, given, options, {});
    const RunKind& now = kind_of(stream, part, given, set, options, false);
    if (now.recording || !now.replayable || stream.state().logs) break;
  }
  random_ = before;
  set.clear();
  RunKind& kind = kind_of(stream, part, given, set, options, false);
  if (!set.empty()) inputs = std::move(set);
  for (size_t i = 0; kind.recording && i < inputs.size(); i++) inputs[i].tensor = kind.inputs[i];
  return kind;
}

/// Recordings have the seed that they were made with.
void ModelState::set_random(const RandomState& state) {
  if (state.seed != random_.seed)
    for (Part& part : parts_)
      for (RunKind& kind : part.kinds) forget(part, kind);
  random_ = {state.seed, state.offset, true};
}

int64_t ModelState::launches() const noexcept {
  return parts_.empty() || parts_.front().kinds.empty() ? 0
                                                        : parts_.front().kinds.front().recording.launches();
}

ModelState::Bound ModelState::bind(const Stream& stream, const std::vector<Slot>& given,
                                   const Options& options) {
  Part& part = part_of(stream.context());
  std::vector<Slot> inputs = given;
  RunKind& kind = settled(stream, part, inputs, options);
  if (!kind.recording) return {};
  Bound bound{kind.recording, random_.offset - kind.recorded_at, kind.drawn, kind.inputs, kind.outputs};
  for (size_t i = 0; i < inputs.size() && kind.of_settings; i++)
    if (is_setting(inputs[i])) bound.inputs[i] = Tensor();
  forget(part, kind);
  return bound;
}

/// Records a kind that is recorded once more, and looks at what each node launches.
Model::Plan ModelState::explain(const Stream& stream, const std::vector<Slot>& given,
                                const Options& options) {
  Part& part = part_of(stream.context());
  std::vector<Slot> inputs = given;
  RunKind& kind = settled(stream, part, inputs, options);
  RandomState random = random_;  // whose numbers are not taken
  Model::Plan plan;
  plan.replayed = bool(kind.recording);
  size_t seen = 0;
  const Model::Watch watch = [&](const NetGraph::Node& node, const Model::Tensors& outputs) {
    Model::Plan::Step& step = plan.steps.emplace_back();
    step.node = node;
    for (const auto& [name, tensor] : outputs) step.outputs.emplace_back(name, tensor);
    const RecordingState* const recording = RecordingState::active(stream.state());
    for (; recording && seen < recording->launches.size(); seen++)
      step.kernels.push_back(recording->launches[seen].shared->name);
  };
  if (!plan.replayed) {
    run_graph({stream, options, part.constants, part.nodes, watch, random}, graph, given);
    return plan;
  }
  const Recording recording(stream, [&] {
    run_graph({stream, options, part.constants, kind.nodes, watch, random}, *kind.graph, inputs);
  });
  plan.bytes = kind.recording.bytes();
  plan.live = kind.recording.live_bytes();
  return plan;
}

/// Which operators are a node's shows as it runs; what they take, where the kind is recorded, as the
/// recording is replayed: its launches are those of the run, in their order.
Model::Trace ModelState::trace(const Stream& stream, const std::vector<Slot>& given, const Options& options) {
  { const Profile measures(stream); }  // refused before anything runs
  Part& part = part_of(stream.context());
  std::vector<Slot> inputs = given;
  RunKind& kind = settled(stream, part, inputs, options);
  RandomState random = random_;  // whose numbers are not taken
  Model::Trace trace;
  trace.replayed = bool(kind.recording);
  std::vector<size_t> ends;  // of each step's operators
  const Model::Watch watch = [&](const NetGraph::Node& node, const Model::Tensors& outputs) {
    Model::Trace::Step& step = trace.steps.emplace_back();
    step.node = node;
    for (const auto& [name, tensor] : outputs) step.outputs.emplace_back(name, tensor);
    ends.push_back(stream.state().records.size());
  };
  std::vector<OperatorTime> operators;
  const auto measured = [&](const std::function<void()>& work) {
    Profile profile(stream);
    work();
    return profile.take();
  };
  if (!trace.replayed) {
    operators = measured([&] {
      run_graph({stream, options, part.constants, part.nodes, watch, random}, graph, given);
    });
  } else {
    Recording recording;
    operators = measured([&] {
      recording = Recording(stream, [&] {
        run_graph({stream, options, part.constants, kind.nodes, watch, random}, *kind.graph, inputs);
      });
    });
    recording.replay();  // clocks, caches
    const std::vector<OperatorTime> replay = measured([&] { recording.replay(); });
    size_t next = 0;
    for (OperatorTime& op : operators)
      for (KernelTime& kernel : op.kernels) kernel = replay.at(0).kernels.at(next++);
  }
  size_t begin = 0;
  for (size_t i = 0; i < ends.size(); begin = ends[i++])
    trace.steps[i].operators.assign(operators.begin() + static_cast<std::ptrdiff_t>(begin),
                                    operators.begin() + static_cast<std::ptrdiff_t>(ends[i]));
  return trace;
}

}  // namespace dlprim::detail
