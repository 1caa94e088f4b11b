// Pass: its outputs, and the backward direction over its graph, from the output asked for to the parameters.
// Where a value was used more than once, its gradients are added in the order of the uses, last one first.
// What was there before stays until all is done.
#include <dlprim/copy.hpp>
#include <dlprim/pointwise.hpp>

#include "core/check.hpp"
#include "net/graph.hpp"

namespace dlprim {
namespace {

using detail::BackwardStep;
using detail::Gradients;
using detail::Node;
using detail::PassState;
using detail::require;

/// For every node: does a parameter that is trained, or a kept value, lie at or before it?
std::vector<bool> leads_somewhere(const PassState& pass, const std::vector<bool>& kept) {
  std::vector<bool> leads = kept;
  for (size_t id = 0; id < leads.size(); id++) {
    const Node& node = *pass.graph->nodes[id];
    for (int p : node.parameters())
      leads[id] = leads[id] || pass.graph->parameters[static_cast<size_t>(p)].trained;
    for (int input : node.inputs) leads[id] = leads[id] || leads[static_cast<size_t>(input)];
  }
  return leads;
}

/// Refuses operators without a gradient on the ways from `top` to what `leads` marks.
void check_gradients(const PassState& pass, size_t top, const std::vector<bool>& leads) {
  std::vector<bool> reached(leads.size(), false);
  reached[top] = true;
  for (size_t id = top + 1; id-- > 0;) {
    const Node& node = *pass.graph->nodes[id];
    if (!reached[id] || !leads[id]) continue;
    require(node.has_gradient(), node.name.c_str(), node.kind(), " has no gradient");
    for (int input : node.inputs) reached[static_cast<size_t>(input)] = true;
  }
}

/// sum = sum + dx, where `sum` may be undefined yet, or share its memory with other gradients.
void accumulate(const Stream& stream, Tensor& sum, Tensor dx) {
  if (!sum.defined()) {
    sum = std::move(dx);
    return;
  }
  const Tensor result = detail::is_sole_owner(sum) ? sum : Tensor(stream, sum.shape());
  pointwise(stream, {sum, dx}, {result}, {}, "y0 = x0 + x1");
  sum = result;
}

Tensor first_gradient(const PassState& pass, size_t id, const Tensor& dy) {
  const Shape& shape = pass.shapes[id];
  if (!dy.defined()) {
    require(element_count(shape) == 1, "output", "'", pass.graph->nodes[id]->name, "' has shape ",
            to_string(shape), ": only one number can be differentiated without a dy");
    Tensor one(pass.stream, shape);
    fill(pass.stream, 1, one);
    return one;
  }
  require(dy.context() == pass.stream.context(), "dy", "lives in another context");
  require(dy.dtype() == DType::f32 && dy.shape() == shape, "dy", "is ", dy.describe(), ", must be f32",
          to_string(shape));
  return dy.is_contiguous() ? dy : contiguous(pass.stream, dy);
}

/// Runs one node's backward direction and hands its dx on to the inputs.
void step_back(PassState& pass, size_t id, const std::vector<bool>& leads, Gradients& gradients) {
  const Node& node = *pass.graph->nodes[id];
  const auto count = node.inputs.size();
  BackwardStep step{
      pass.stream, *pass.graph, std::vector<Tensor>(count), std::vector<Shape>(count),  {},
      {},          {},          std::vector<bool>(count),   std::vector<Tensor>(count), gradients.parameters};
  step.dy = std::move(gradients.values[id]);
  gradients.values[id] = Tensor();
  step.saved = std::move(pass.saved[id]);
  pass.saved[id] = {};
  if (node.needs_output()) step.y = pass.values[id];
  for (size_t k = 0; k < count; k++) {
    const auto input = static_cast<size_t>(node.inputs[k]);
    if (node.needs_input(static_cast<int>(k))) step.x[k] = pass.values[input];
    step.x_shapes[k] = pass.shapes[input];
    step.wanted[k] = leads[input];
  }
  node.backward(step);
  step.dy = Tensor();  // so that a dx written over it, or passed on, has no second owner
  for (size_t k = 0; k < count; k++)
    if (step.wanted[k] && step.dx[k].defined())
      accumulate(pass.stream, gradients.values[static_cast<size_t>(node.inputs[k])], std::move(step.dx[k]));
}

/// Runs backward all nodes that a gradient reaches; gives the gradients of the values kept.
std::vector<Tensor> run_backward(PassState& pass, const std::vector<bool>& leads,
                                 const std::vector<bool>& is_kept, Gradients& gradients) {
  const size_t count = pass.values.size();
  std::vector<Tensor> answers(count);
  for (size_t id = count; id-- > 0;) {
    if (is_kept[id]) answers[id] = gradients.values[id];
    if (gradients.values[id].defined() && leads[id] && !pass.graph->nodes[id]->inputs.empty())
      step_back(pass, id, leads, gradients);
    // Every node behind this one is done: nobody reads its value or what it saved any more.
    if (!pass.is_output[id]) pass.values[id] = Tensor();
    gradients.values[id] = Tensor();
    pass.saved[id] = {};
  }
  return answers;
}

}  // namespace

const Tensor& Pass::operator[](Value output) const {
  const auto id = static_cast<size_t>(state_->graph->id_of("output", output));
  require(id < state_->is_output.size() && state_->is_output[id], "output", "'",
          state_->graph->nodes[id]->name, "' was not asked for in forward()");
  return state_->values[id];
}

void detail::rehearse_backward(PassState& pass, size_t top) {
  const std::vector<bool> kept(pass.values.size(), false), leads = leads_somewhere(pass, kept);
  check_gradients(pass, top, leads);
  Gradients gradients{std::vector<Tensor>(kept.size()), std::vector<Tensor>(pass.graph->parameters.size())};
  gradients.values[top] = first_gradient(pass, top, {});
  run_backward(pass, leads, kept, gradients);
}

void Pass::backward(Value output, const std::vector<Value>& kept, const Tensor& dy) {
  PassState& pass = *state_;
  detail::Graph& graph = *pass.graph;
  require(pass.mode == Mode::training, "pass",
          "ran in evaluation mode: there is nothing to differentiate by");
  require(!pass.spent, "pass", "backward() has run already");
  (*this)[output];  // throws if it was not asked for
  const auto top = static_cast<size_t>(graph.id_of("output", output));
  const size_t count = pass.values.size();
  std::vector<bool> is_kept(count, false);
  for (Value value : kept) {
    const auto id = static_cast<size_t>(graph.id_of("kept", value));
    require(id < count && pass.ran[id] && graph.nodes[id]->dtype == DType::f32, "kept", "'",
            graph.nodes[id]->name, "' has no gradient in this pass");
    is_kept[id] = true;
  }
  const std::vector<bool> leads = leads_somewhere(pass, is_kept);
  check_gradients(pass, top, leads);
  Gradients gradients{std::vector<Tensor>(count), std::vector<Tensor>(graph.parameters.size())};
  gradients.values[top] = first_gradient(pass, top, dy);
  pass.spent = true;
  std::vector<Tensor> answers = run_backward(pass, leads, is_kept, gradients);
  for (size_t p = 0; p < graph.parameters.size(); p++)
    graph.parameters[p].gradient = std::move(gradients.parameters[p]);
  pass.gradients = std::move(answers);
}

const Tensor& Pass::gradient(Value kept) const {
  const auto id = static_cast<size_t>(state_->graph->id_of("kept", kept));
  const bool known = id < state_->gradients.size() && state_->gradients[id].defined();
  require(known, "kept", "'", state_->graph->nodes[id]->name,
          "' has no gradient: backward() was not told to keep it, or nothing flows back to it");
  return state_->gradients[id];
}

}  // namespace dlprim
