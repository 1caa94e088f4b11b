#include "net/model_state.hpp"

#include <algorithm>

#include <dlprim/copy.hpp>
#include <dlprim/net_model.hpp>
#include <dlprim/rehearsal.hpp>

#include "core/composed.hpp"
#include "core/device_probe.hpp"
#include "core/recorder.hpp"
#include "core/rehearsed.hpp"
#include "core/state.hpp"

namespace dlprim::detail {
namespace {

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

namespace {

bool is_low(DType dtype) {
  return dtype == DType::f16 || dtype == DType::bf16;
}

/// Whether something in the graph is f16 or bf16 whatever it is fed.
bool holds_low(const NetGraph& graph) {
  const auto any = [](const auto& list, const auto& holds) {
    return std::any_of(list.begin(), list.end(), holds);
  };
  return any(graph.values, [](const NetGraph::Value& v) { return v.dtype && is_low(*v.dtype); }) ||
         any(graph.constants, [](const auto& constant) { return is_low(constant.second->dtype); }) ||
         any(graph.nodes, [&](const NetGraph::Node& node) {
           const auto* dtype = attribute<std::string>(node, "dtype");
           return (dtype && (*dtype == "f16" || *dtype == "bf16")) ||
                  any(node.bodies, [](const auto& body) { return holds_low(*body); });
         });
}

}  // namespace

/// What needs no facts of a run is done at once.
ModelState::ModelState(NetGraph given, std::vector<std::string> without, DType precision)
    : without_(std::move(without)), precision_(precision), low_(is_low(precision) || holds_low(given)) {
  require(precision == DType::f32 || precision == DType::f16 || precision == DType::bf16, "precision",
          name_of(precision), " must be f32, f16 or bf16");
  const std::vector<std::string> known = graph_passes();
  for (const std::string& name : without_)
    require(std::find(known.begin(), known.end(), name) != known.end(), "without", "'", name, "' is no pass");
  Rewritten rewritten{std::move(given), {}, {}, DType::f32, nullptr};
  run_passes(rewritten, without_, Passes::without_facts);
  graph = std::move(rewritten.graph);
}

/// The kind of such a run. If values of settings belong to it, `set` becomes the inputs with settings on the
/// host, and constant.
RunKind& ModelState::kind_of(const Stream& stream, RunKinds& kinds, const std::vector<Slot>& given,
                             std::vector<Slot>& set, const Options& options, bool plainly) const {
  RunKind& kind = kinds.at(key_of(stream, given, options));
  if (!kind.has_settings || plainly) return kind;
  PlanKey key("settings");
  key.add(kind.key);
  set = given;
  for (Slot& slot : set)
    if (is_setting(slot)) {
      slot.constant = true;
      key.add(integers_of(to_host(stream, slot)));
    }
  RunKind& own = kinds.at(key.bytes());
  if (!own.of_settings && ++kind.settings > kMostSettings) {  // it is no setting, but ever another number
    kinds.erase(own);
    set.clear();
    kind.has_settings = kind.replayable = false;
    return kind;
  }
  own.of_settings = true;
  return own;
}

/// With what is known of the values of this kind from its first run.
void ModelState::rewrite(const RunScope& scope, RunKinds& kinds, RunKind& kind) {
  const NetGraph& base = base_of(kind);
  Rewritten rewritten{base, kind.facts, known_of(scope.stream, nodes_of(kinds, kind)), precision_,
                      &converted_};
  rewritten.share = [&](NetGraph& made) { kinds.shared.share(made, base); };
  rewritten.channels_last = prefers_channels_last(scope.stream.context().device());
  rewritten.integer_products = prefers_integer_products(scope.stream.context().device());
  for (const auto& [value, constant] : base.constants)
    rewritten.facts[static_cast<size_t>(value)] = ValueFacts{constant->dtype, constant->shape};
  run_passes(rewritten, without_);
  rewritten.graph.check();
  kind.graph = std::make_unique<NetGraph>(std::move(rewritten.graph));
}

RunKinds& ModelState::kinds_in(const Context& context) {
  for (const auto& kinds : contexts_)
    if (kinds->context == context) return *kinds;
  const auto& made = contexts_.emplace_back(std::make_shared<RunKinds>(context));
  made->keep(kept_);
  context.state().pieces.add(made);
  return *made;
}

void ModelState::keep(const Model::Kept& kept) {
  kept_ = kept;
  for (const auto& kinds : contexts_) {
    const std::lock_guard<std::recursive_mutex> lock(kinds->mutex);
    kinds->keep(kept);
  }
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

/// The inputs of a recording: where they are held, or parts of one tensor, which other recordings may share.
std::vector<Slot> ModelState::own_inputs(const RunScope& scope, RunKinds& kinds, RunKind& kind,
                                         const std::vector<Slot>& inputs, bool shared) {
  WorkspaceParts parts;
  std::vector<size_t> places;
  for (const Slot& slot : inputs)
    places.push_back(slot.held ? 0 : parts.add(static_cast<size_t>(slot.tensor.bytes())));
  if (shared && parts.size() > 0) kind.room = kinds.memory.inputs(scope.stream, parts.size());
  std::vector<Slot> own = inputs;
  kind.inputs.clear();
  for (size_t i = 0; i < own.size(); i++) {
    Slot& slot = own[i];
    if (!slot.held) {
      if (kind.room && slot.tensor.numel() != 0)
        slot.tensor = workspace_part(*kind.room, places[i], slot.shape, slot.dtype);
      else
        slot.tensor = Tensor(scope.stream, slot.shape, slot.dtype);
      if (slot.tensor.numel() != 0) copy(scope.stream, inputs[i].tensor, slot.tensor, scope.options);
    }
    kind.inputs.push_back(slot.tensor);
  }
  return own;
}

/// Runs once more, on inputs of the kind's own. False if that cannot be replayed.
bool ModelState::record(const RunScope& scope, RunKinds& kinds, RunKind& kind,
                        const std::vector<Slot>& inputs) {
  // Outputs that are lent stay until the next run of the model, whichever kind it is of.
  const bool shared = !alone_;
  const std::vector<Slot> own = own_inputs(scope, kinds, kind, inputs, shared);
  rewrite(scope, kinds, kind);
  kind.nodes = NodeMemory();
  const RunScope rewritten{scope.stream, scope.options, scope.constants,
                           kind.nodes,   scope.watch,   scope.random};
  const RandomState before = random_;
  try {
    // What is computed or measured once is no part of the recording.
    Prepared found;
    RunScope preparing = rewritten;
    preparing.prepares = &found;
    const bool prepared =
        rehearse(preparing, *kind.graph, own) && !found.reads_back && scope.options.tune == TuneMode::table;
    if (!prepared) run_graph(rewritten, *kind.graph, own);
    kind.recording = Recording::packed(
        scope.stream,
        [&] {
          kind.outputs.clear();
          random_ = before;
          for (Slot& slot : run_graph(rewritten, *kind.graph, own)) {
            const Tensor tensor = to_device(scope.stream, slot);
            kind.outputs.push_back(lends ? handed_on(scope, slot, tensor, kind.outputs) : tensor);
          }
        },
        shared ? &kinds.memory : nullptr);
    kind.recorded_at = before.offset, kind.drawn = random_.offset - before.offset;
  } catch (const ValidationError&) {  // it reads back
    random_ = before;
    kinds.forget(kind);
    kind.has_settings = !kind.of_settings && std::any_of(inputs.begin(), inputs.end(), is_setting);
    kind.replayable = false;
    return false;
  }
  kind.nodes.plans.clear();  // replays need none
  kind.nodes.plan_bytes = 0;
  kinds.nodes = NodeMemory();  // what first runs made: the next is of another graph
  kinds.drop_unheld_constants();
  if (precision_ != DType::f32)
    for (const auto& [constant, low] : converted_) kinds.constants.erase(constant);
  kinds.trim(kind);
  return true;
}

/// A run that is no replay, of a model whose results are its rewritten graph's: that, node by node. False if
/// the kind cannot be replayed. `scope`: of the kind's own graph, whichever that is by then.
bool ModelState::run_rewritten(const std::function<RunScope()>& scope, RunKinds& kinds, RunKind& kind,
                               const std::vector<Slot>& inputs, std::vector<Tensor>& outputs) {
  const Model::Watch nobody;
  const RunScope given = scope();
  const RunScope rewritten{given.stream, given.options, given.constants, kind.nodes, nobody, given.random};
  const RandomState before = random_;
  if (!kind.graph) {
    const RecordingPause once;  // what is found out is no part of another recording
    while (!kind.learned) learn(scope(), kind, inputs, false);
    rewrite(scope(), kinds, kind);
    kind.nodes = NodeMemory();
    Prepared found;
    RunScope preparing = rewritten;
    preparing.prepares = &found;
    kind.recordable = rehearse(preparing, *kind.graph, inputs) && !found.reads_back;
    random_ = before;
  }
  if (!kind.recordable) return false;
  if (given.watch) {  // it is told of the nodes that the model has
    run_nodes(scope(), base_of(kind), inputs);
    random_ = before;
  }
  outputs = run_nodes(rewritten, *kind.graph, inputs);
  return true;
}

std::vector<Tensor> ModelState::run(const Stream& stream, const std::vector<Slot>& given,
                                    const Options& options, const Model::Watch& watch) {
  RunKinds& kinds = kinds_in(stream.context());
  const std::lock_guard<std::recursive_mutex> lock(kinds.mutex);
  // The log tells of operators, and a watch of nodes: a replay has neither. Nor may it be part of another
  // recording.
  const bool plainly = watch || stream.state().logs || Recording::active() || Rehearsal::active();
  // All runs of a model of 16-bit numbers give the same: see docs/nodes.md.
  const bool low =
      low_ || std::any_of(given.begin(), given.end(), [](const Slot& s) { return is_low(s.dtype); });
  std::vector<Slot> set;
  RunKind& kind = kind_of(stream, kinds, given, set, options, plainly && !low);
  const RunningKind running(kind);
  const std::vector<Slot>& inputs = set.empty() ? given : set;
  const auto scope = [&] {
    return RunScope{stream, options, kinds.constants, nodes_of(kinds, kind), watch, random_};
  };
  std::vector<Tensor> results;
  if (plainly && low && kind.replayable && !Rehearsal::active() &&
      run_rewritten(scope, kinds, kind, inputs, results))
    return results;
  while (kind.replayable && !kind.learned) {
    const RandomState before = random_;
    const bool asked = plainly || !(low || rewritten_first);
    std::vector<Tensor> outputs = learn(scope(), kind, inputs, asked);
    if (asked) return outputs;
    random_ = before;  // the run that counts draws the same
  }
  if (!kind.replayable || plainly) return run_nodes(scope(), base_of(kind), inputs);
  if (!kind.recording)
    return record(scope(), kinds, kind, inputs) ? handed_out(stream, options, kind)
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
RunKind& ModelState::settled(const Stream& stream, RunKinds& kinds, std::vector<Slot>& inputs,
                             const Options& options) {
  constexpr int kMostRuns =
      8;  // without and with settings: learned, learned again where branches are, recorded
  const std::vector<Slot> given = inputs;
  const RandomState before = random_;
  std::vector<Slot> set;
  for (int i = 0; i < kMostRuns; i++) {
    run(stream, given, options, {});
    const RunKind& now = kind_of(stream, kinds, given, set, options, false);
    if (now.recording || !now.replayable || stream.state().logs) break;
  }
  random_ = before;
  set.clear();
  RunKind& kind = kind_of(stream, kinds, given, set, options, false);
  if (!set.empty()) inputs = std::move(set);
  for (size_t i = 0; kind.recording && i < inputs.size(); i++) inputs[i].tensor = kind.inputs[i];
  return kind;
}

/// Recordings have the seed that they were made with.
void ModelState::set_random(const RandomState& state) {
  if (state.seed != random_.seed)
    for (const auto& kinds : contexts_) {
      const std::lock_guard<std::recursive_mutex> lock(kinds->mutex);
      kinds->forget_all();
    }
  random_ = {state.seed, state.offset, true};
}

int64_t ModelState::launches() const noexcept {
  const RunKind* const last = contexts_.empty() ? nullptr : contexts_.front()->last();
  return last ? last->recording.launches() : 0;
}

ModelState::Bound ModelState::bind(const Stream& stream, const std::vector<Slot>& given,
                                   const Options& options) {
  RunKinds& kinds = kinds_in(stream.context());
  const std::lock_guard<std::recursive_mutex> lock(kinds.mutex);
  std::vector<Slot> inputs = given, set;
  RunKind& shared = kind_of(stream, kinds, given, set, options, false);
  if (shared.recording) kinds.forget(shared);  // it is made again, in memory of its own
  alone_ = true;
  RunKind* kind = nullptr;
  try {
    kind = &settled(stream, kinds, inputs, options);
  } catch (...) {
    alone_ = false;
    throw;
  }
  alone_ = false;
  if (!kind->recording) return {};
  Bound bound{kind->recording, random_.offset - kind->recorded_at, kind->drawn, kind->inputs, kind->outputs};
  for (size_t i = 0; i < inputs.size() && kind->of_settings; i++)
    if (is_setting(inputs[i])) bound.inputs[i] = Tensor();
  kinds.forget(*kind);
  return bound;
}

/// Records a kind that is recorded once more, and looks at what each node launches.
Model::Plan ModelState::explain(const Stream& stream, const std::vector<Slot>& given,
                                const Options& options) {
  RunKinds& kinds = kinds_in(stream.context());
  const std::lock_guard<std::recursive_mutex> lock(kinds.mutex);
  std::vector<Slot> inputs = given;
  RunKind& kind = settled(stream, kinds, inputs, options);
  const RunningKind running(kind);
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
    run_graph({stream, options, kinds.constants, kinds.nodes, watch, random}, graph, given);
    return plan;
  }
  const Recording recording(stream, [&] {
    run_graph({stream, options, kinds.constants, kind.nodes, watch, random}, *kind.graph, inputs);
  });
  plan.bytes = kind.recording.bytes();
  plan.live = kind.recording.live_bytes();
  return plan;
}

/// Which operators are a node's shows as it runs; what they take, where the kind is recorded, as the
/// recording is replayed: its launches are those of the run, in their order.
Model::Trace ModelState::trace(const Stream& stream, const std::vector<Slot>& given, const Options& options) {
  { const Profile measures(stream); }  // refused before anything runs
  require(driver_limits(stream.context().device()).measures_time, "stream",
          "is on a device that tells no times");
  RunKinds& kinds = kinds_in(stream.context());
  const std::lock_guard<std::recursive_mutex> lock(kinds.mutex);
  std::vector<Slot> inputs = given;
  RunKind& kind = settled(stream, kinds, inputs, options);
  const RunningKind running(kind);
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
      run_graph({stream, options, kinds.constants, kinds.nodes, watch, random}, graph, given);
    });
  } else {
    Recording recording;
    operators = measured([&] {
      recording = Recording(stream, [&] {
        run_graph({stream, options, kinds.constants, kind.nodes, watch, random}, *kind.graph, inputs);
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
