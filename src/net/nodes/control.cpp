// Kinds that run other graphs: branches and loops. The host decides, so it waits for the device where what it
// decides by was computed there. A body's inputs are its own, then the values of the graph around that it
// uses.
#include <algorithm>

#include <dlprim/copy.hpp>
#include <dlprim/movement.hpp>

#include "net/executor.hpp"
#include "net/nodes/families.hpp"

namespace dlprim::detail {
namespace {

bool truth(const Stream& stream, Slot& slot) {
  require(element_count(slot.shape) == 1, "condition", "is ", slot.shape, ", must be one element");
  return numbers_of(to_host(stream, slot))[0] != 0;
}

/// What turns hand on is another value in each, though it may come of constants alone.
std::vector<Slot> changing(std::vector<Slot> values) {
  for (Slot& slot : values) slot.constant = false;
  return values;
}

std::vector<Slot> inputs_from(const NodeStep& step, int first, int count) {
  std::vector<Slot> slots;
  for (int k = first; k < first + count; k++) slots.push_back(step.in(k));
  return slots;
}

const NetGraph& body(const NodeStep& step, size_t k) {
  require(k < step.node.bodies.size(), "bodies", "body ", k, " is missing");
  return *step.node.bodies[k];
}

/// Inputs: condition; what bodies 0 (then) and 1 (else) take, one behind the other.
void run_if(NodeStep& step) {
  const int then_inputs = static_cast<int>(body(step, 0).inputs.size());
  const int else_inputs = static_cast<int>(body(step, 1).inputs.size());
  require(step.input_count() == 1 + then_inputs + else_inputs, "inputs", step.input_count(),
          " inputs, the bodies take ", then_inputs, " and ", else_inputs);
  const bool then = truth(step.stream, step.in(0));
  if (step.scope.branches && !step.in(0).read_back) (*step.scope.branches)[&step.node] = then;
  std::vector<Slot> results =
      run_graph(step.scope, body(step, then ? 0 : 1),
                inputs_from(step, then ? 1 : 1 + then_inputs, then ? then_inputs : else_inputs));
  require(results.size() == static_cast<size_t>(step.output_count()), "bodies", "a body has ", results.size(),
          " outputs, the node ", step.output_count());
  for (int k = 0; k < step.output_count(); k++) step.set(k, std::move(results[static_cast<size_t>(k)]));
}

/// What the turns of a loop leave, one behind the other along a new axis.
class Stack {
 public:
  void add(Slot slot) {
    require(parts_.empty() || (slot.shape == parts_[0].shape && slot.dtype == parts_[0].dtype), "bodies",
            "a turn leaves ", slot.shape, ", an earlier one ", parts_.empty() ? Shape() : parts_[0].shape);
    parts_.push_back(std::move(slot));
  }
  /// `declared`: what is known of a part if there was no turn.
  Tensor joined(NodeStep& step, const NetGraph::Value& declared, int64_t axis, bool reversed) {
    Shape part;
    if (!parts_.empty())
      part = parts_[0].shape;
    else
      for (const Dimension& d : declared.shape.value_or(std::vector<Dimension>()))
        part.push_back(std::max<int64_t>(0, d.size));
    const int at = normal_axis(axis, part.size() + 1);
    Shape shape, one;
    for (int i = 0; i <= part.size(); i++) {
      if (i == at) shape.push_back(static_cast<int64_t>(parts_.size())), one.push_back(1);
      if (i < part.size()) shape.push_back(part[i]), one.push_back(part[i]);
    }
    const Tensor y =
        step.scratch(shape, parts_.empty() ? declared.dtype.value_or(DType::f32) : parts_[0].dtype);
    if (y.numel() == 0) return y;
    std::vector<Tensor> tensors;
    for (Slot& slot : parts_) tensors.push_back(step.dense(to_device(step.stream, slot)).reshape(one));
    if (reversed) std::reverse(tensors.begin(), tensors.end());
    concat(step.stream, tensors, at, y, step.options);
    return y;
  }

 private:
  std::vector<Slot> parts_;
};

const NetGraph::Value& declared_output(const NetGraph& graph, size_t k) {
  return graph.values[static_cast<size_t>(graph.outputs[k])];
}

/// Inputs: most turns (or none: any), condition (or none: true), values that turns hand on, what the body
/// uses. Body: turn, condition, values -> condition, values, parts of stacks. carried: how many values.
void run_loop(NodeStep& step) {
  const NetGraph& graph = body(step, 0);
  const auto carried = static_cast<size_t>(step.integer("carried", 0));
  const size_t stacks = graph.outputs.size() - std::min(graph.outputs.size(), 1 + carried);
  require(graph.outputs.size() == 1 + carried + stacks &&
              step.output_count() == static_cast<int>(carried + stacks),
          "bodies", "the body has ", graph.outputs.size(), " outputs, the node ", step.output_count());
  const int64_t most = step.has(0) ? step.integers(0).at(0) : INT64_MAX;
  Slot condition = step.has(1) ? step.in(1) : Slot();
  bool go_on = !step.has(1) || truth(step.stream, condition);
  std::vector<Slot> values = inputs_from(step, 2, static_cast<int>(carried));
  const std::vector<Slot> used =
      inputs_from(step, 2 + static_cast<int>(carried), step.input_count() - 2 - static_cast<int>(carried));
  std::vector<Stack> stacked(stacks);
  const auto host = [](HostTensor tensor) {
    return Slot{tensor.dtype, tensor.shape, std::make_shared<const HostTensor>(std::move(tensor)), {}};
  };
  for (int64_t turn = 0; turn < most && go_on; turn++) {
    std::vector<Slot> inputs{host(host_tensor(DType::i64, {}, std::vector<int64_t>{turn})),
                             host(host_tensor(DType::boolean, {}, std::vector<int64_t>{1}))};
    const std::vector<Slot> handed_on = changing(values);
    inputs.insert(inputs.end(), handed_on.begin(), handed_on.end());
    inputs.insert(inputs.end(), used.begin(), used.end());
    std::vector<Slot> results = run_graph(step.scope, graph, std::move(inputs));
    go_on = truth(step.stream, results[0]);
    for (size_t i = 0; i < carried; i++) values[i] = std::move(results[1 + i]);
    for (size_t i = 0; i < stacks; i++) stacked[i].add(std::move(results[1 + carried + i]));
  }
  for (size_t i = 0; i < carried; i++) step.set(static_cast<int>(i), std::move(values[i]));
  for (size_t i = 0; i < stacks; i++)
    step.set(static_cast<int>(carried + i),
             stacked[i].joined(step, declared_output(graph, 1 + carried + i), 0, false));
}

/// Numbers for each of `count` things, 0 where the list is left out.
std::vector<int64_t> for_each_of(const NodeStep& step, const char* name, size_t count) {
  std::vector<int64_t> list = step.integers(name);
  if (list.empty()) list.assign(count, 0);
  require(list.size() == count, name, list.size(), " numbers, must be ", count);
  return list;
}

/// Inputs: values that turns hand on, sequences (as many as `sequences` says), what the body uses. Turn t
/// takes place t of each sequence along its axis. axes, directions (1: from the end): of sequences;
/// output_axes, output_directions: of the stacks that turns leave.
void run_scan(NodeStep& step) {
  const NetGraph& graph = body(step, 0);
  const auto sequences = static_cast<size_t>(step.integer("sequences", 1));
  const size_t used_inputs = static_cast<size_t>(step.integer("used", 0));
  const auto count = static_cast<size_t>(step.input_count());
  require(sequences >= 1 && sequences <= count && used_inputs <= count - sequences, "sequences", sequences,
          " and ", used_inputs, " used, of ", count, " inputs");
  const size_t carried = count - sequences - used_inputs;
  require(graph.outputs.size() >= carried && graph.outputs.size() == static_cast<size_t>(step.output_count()),
          "bodies", "the body has ", graph.outputs.size(), " outputs, the node ", step.output_count(),
          " and hands on ", carried);
  const size_t stacks = graph.outputs.size() - carried;
  const std::vector<int64_t> axes = for_each_of(step, "axes", sequences),
                             directions = for_each_of(step, "directions", sequences),
                             output_axes = for_each_of(step, "output_axes", stacks),
                             output_directions = for_each_of(step, "output_directions", stacks);
  std::vector<Slot> values = inputs_from(step, 0, static_cast<int>(carried));
  const std::vector<Slot> used =
      inputs_from(step, static_cast<int>(carried + sequences), static_cast<int>(used_inputs));
  std::vector<Stack> stacked(stacks);
  const auto place = [&](size_t i) { return static_cast<int>(carried + i); };
  const auto length = [&](size_t i) {
    return step.shape(place(i))[normal_axis(axes[i], step.rank(place(i)))];
  };
  for (size_t i = 1; i < sequences; i++)
    require(length(i) == length(0), "inputs", "sequence ", i, " has ", length(i), " places, sequence 0 ",
            length(0));
  for (int64_t turn = 0; turn < length(0); turn++) {
    std::vector<Slot> inputs = changing(values);
    for (size_t i = 0; i < sequences; i++) {
      const int axis = normal_axis(axes[i], step.rank(place(i)));
      const int64_t at = directions[i] ? length(i) - 1 - turn : turn;
      Shape one;
      for (int k = 0; k < step.rank(place(i)); k++)
        if (k != axis) one.push_back(step.shape(place(i))[k]);
      const Tensor part = step.dense(step.x(place(i)).slice(axis, at, at + 1)).reshape(one);
      inputs.push_back({part.dtype(), one, nullptr, part});
    }
    inputs.insert(inputs.end(), used.begin(), used.end());
    std::vector<Slot> results = run_graph(step.scope, graph, std::move(inputs));
    for (size_t i = 0; i < carried; i++) values[i] = std::move(results[i]);
    for (size_t i = 0; i < stacks; i++) stacked[i].add(std::move(results[carried + i]));
  }
  for (size_t i = 0; i < carried; i++) step.set(static_cast<int>(i), std::move(values[i]));
  for (size_t i = 0; i < stacks; i++)
    step.set(static_cast<int>(carried + i), stacked[i].joined(step, declared_output(graph, carried + i),
                                                              output_axes[i], output_directions[i] != 0));
}

constexpr NodeKind kKinds[] = {
    {"if", 1, 1 << 16, nullptr, run_if},
    {"loop", 0, 1 << 16, nullptr, run_loop},
    {"scan", 1, 1 << 16, nullptr, run_scan},
};

}  // namespace

KindList control_kinds() {
  return list_of(kKinds);
}

}  // namespace dlprim::detail
