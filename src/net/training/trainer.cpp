#include "net/training/trainer.hpp"

#include <algorithm>
#include <cmath>

#include <dlprim/copy.hpp>
#include <dlprim/multi_pointwise.hpp>
#include <dlprim/net_host.hpp>
#include <dlprim/pointwise.hpp>

#include "core/check.hpp"

namespace dlprim {

using detail::cat;
using detail::require;

namespace {

const Trainer::Config& checked(const Trainer::Config& config) {
  require(config.accumulate >= 1, "accumulate", config.accumulate, " must be 1 or more");
  require(std::isfinite(config.clip_norm) && config.clip_norm >= 0, "clip_norm", config.clip_norm,
          " must be finite and not negative");
  require(std::isfinite(config.first_scale) && config.first_scale > 0, "first_scale", config.first_scale,
          " must be finite and positive");
  config.rate.at(0);
  return config;
}

/// Of a step. Recomputation is computing twice on purpose.
std::vector<std::string> passes_left_out(const Trainer::Config& config) {
  std::vector<std::string> without = config.without;
  if (config.recompute) without.emplace_back("repeats");
  return without;
}

std::vector<Trainer::Parameter> on_device(const Stream& stream,
                                          const std::vector<detail::TrainingGraph::State>& states) {
  std::vector<Trainer::Parameter> tensors;
  for (const auto& state : states) tensors.push_back({state.name, to_device(stream, *state.first)});
  return tensors;
}

Tensor number(const Stream& stream, const Shape& shape, double value, DType dtype = DType::f32) {
  Tensor tensor(stream, shape, dtype);
  fill(stream, value, tensor);
  return tensor;
}

OptimizerDesc desc_of(OptimizerDesc desc, const std::vector<Trainer::Parameter>& parameters) {
  desc.w = desc.dw = parameters.front().value.dtype();
  desc.master = false;
  return desc;
}

std::vector<Tensor> values_of(const std::vector<Trainer::Parameter>& list) {
  std::vector<Tensor> values;
  for (const Trainer::Parameter& p : list) values.push_back(p.value);
  return values;
}

void append_held(std::vector<Slot>& slots, const Tensor& tensor) {
  Slot slot{tensor.dtype(), tensor.shape(), nullptr, tensor};
  slot.held = true;
  slots.push_back(std::move(slot));
}

Model::Tensors named(const NetGraph& graph, const std::vector<Tensor>& tensors, size_t count) {
  Model::Tensors outputs;
  for (size_t i = 0; i < count; i++)
    outputs[graph.values[static_cast<size_t>(graph.outputs[i])].name] = tensors[i];
  return outputs;
}

}  // namespace

Trainer::State::State(const Stream& stream_, const NetGraph& given_, Config config_)
    : stream(stream_),
      config(checked(config_)),
      graphs(detail::training_graph(given_, config)),
      given(given_),
      parameters(on_device(stream, graphs.parameters)),
      statistics(on_device(stream, graphs.statistics)),
      seed(number(stream, {}, 1.0 / static_cast<double>(config.accumulate))),
      step_model(std::move(graphs.step), passes_left_out(config), config.precision) {
  config.optimizer = desc_of(config.optimizer, parameters);
  step_model.lends = step_model.rewritten_first = true;
  states.resize(static_cast<size_t>(Optimizer::states(config.optimizer)));
  // Numbers are checked here, without a tensor.
  OptimizerStep numbers = config.numbers;
  numbers.learning_rate = config.rate.at(0);
  optimize(stream, config.optimizer, numbers, {{}, {}, {}, std::vector<std::vector<Tensor>>(states.size())});
  for (std::vector<Tensor>& list : states)
    for (const Parameter& p : parameters) list.push_back(number(stream, p.value.shape(), 0, p.value.dtype()));
  if (config.accumulate > 1)
    for (const Parameter& p : parameters) sums.push_back(number(stream, p.value.shape(), 0, p.value.dtype()));
  if (config.clip_norm > 0) norm = number(stream, {1}, 0), factor = number(stream, {1}, 1);
  if (config.scaling) {
    scale = number(stream, {1}, config.first_scale);
    good_steps = number(stream, {1}, 0, DType::i32);
    found_inf = number(stream, {1}, 0);
  }
}

const std::vector<Slot>& Trainer::State::inputs_of(const Model::Tensors& feeds) {
  std::vector<Slot> fed = detail::feed_slots(given, feeds, stream.context());
  if (inputs.empty()) {
    inputs = fed;
    append_held(inputs, seed);
    for (const auto* list : {&parameters, &statistics})
      for (const Parameter& p : *list) append_held(inputs, p.value);
  } else {
    std::move(fed.begin(), fed.end(), inputs.begin());
  }
  return inputs;
}

Model::Plan Trainer::State::explain(const Model::Tensors& feeds) {
  return step_model.explain(stream, inputs_of(feeds), config.options);
}

Model::Trace Trainer::State::trace(const Model::Tensors& feeds) {
  return step_model.trace(stream, inputs_of(feeds), config.options);
}

Model::Tensors Trainer::State::step(const Model::Tensors& feeds) {
  const NetGraph& graph = step_model.graph;
  if (config.scaling)
    pointwise(stream, {scale}, {seed.reshape({1})}, {1.0 / static_cast<double>(config.accumulate)},
              "y0 = x0 * s0", config.options);
  const std::vector<Tensor> outputs = step_model.run(stream, inputs_of(feeds), config.options, {});

  const size_t own = given.outputs.size(), count = parameters.size();
  std::vector<Tensor> gradients(outputs.begin() + static_cast<std::ptrdiff_t>(own),
                                outputs.begin() + static_cast<std::ptrdiff_t>(own + count));
  if (!statistics.empty()) {
    MultiPointwiseTensors tensors;
    tensors.outputs = {values_of(statistics)};
    tensors.inputs = {{outputs.begin() + static_cast<std::ptrdiff_t>(own + count), outputs.end()}};
    multi_pointwise(stream, tensors, {}, {}, "y0 = x0", config.options);
  }
  if (config.accumulate > 1) {
    MultiPointwiseTensors tensors;
    if (summed == 0)
      tensors.outputs = {sums}, tensors.inputs = {gradients};
    else
      tensors.changed = {sums}, tensors.inputs = {gradients};
    multi_pointwise(stream, tensors, {}, {}, summed == 0 ? "y0 = x0" : "y0 = x0 + x1", config.options);
    gradients = sums;
  }
  if (++summed == config.accumulate) update(gradients);
  return named(graph, outputs, own);
}

void Trainer::State::update(const std::vector<Tensor>& gradients) {
  OptimizerStep numbers = config.numbers;
  numbers.learning_rate = config.rate.at(updates);
  numbers.step = updates + 1;
  numbers.factor = numbers.scale = numbers.found_inf = Tensor();
  if (config.scaling) {
    unscale_gradients(stream, scale, gradients, found_inf, config.options);
    numbers.found_inf = found_inf;
  }
  if (config.clip_norm > 0) {
    gradient_norm(stream, gradients, {NormOrder::two, config.clip_norm}, norm, factor, config.options);
    numbers.factor = factor;
  }
  optimize(stream, config.optimizer, numbers, {values_of(parameters), gradients, {}, states}, config.options);
  if (config.scaling)
    update_loss_scale(stream, found_inf, *config.scaling, scale, good_steps, config.options);
  updates++;
  summed = 0;
}

Trainer::State::Prediction& Trainer::State::prediction_of(const Model::Tensors& feeds) {
  std::vector<int> missing;
  for (int value : given.inputs)
    if (feeds.count(given.values[static_cast<size_t>(value)].name) == 0) missing.push_back(value);
  const auto found = predictions.find(missing);
  if (found != predictions.end()) return found->second;
  NetGraph graph = detail::without_inputs(graphs.inference, missing);
  if (graph.outputs.empty()) missing.clear(), graph = graphs.inference;  // feeds will be refused
  Prediction made{detail::without_inputs(given, missing), {graph, config.without, config.precision}};
  return predictions.emplace(missing, std::move(made)).first->second;
}

Model::Tensors Trainer::State::predict(const Model::Tensors& feeds) {
  Prediction& prediction = prediction_of(feeds);
  std::vector<Slot> inputs = detail::feed_slots(prediction.fed, feeds, stream.context());
  for (const auto* list : {&parameters, &statistics})
    for (const Parameter& p : *list) append_held(inputs, p.value);
  const std::vector<Tensor> outputs = prediction.model.run(stream, inputs, config.options, {});
  return named(prediction.model.graph, outputs, outputs.size());
}

Trainer::Trainer(const Stream& stream, const NetGraph& graph, Config config)
    : state_(std::make_unique<State>(stream, graph, std::move(config))) {}
Trainer::~Trainer() = default;
Trainer::Trainer(Trainer&&) noexcept = default;
Trainer& Trainer::operator=(Trainer&&) noexcept = default;

Model::Tensors Trainer::step(const Model::Tensors& feeds) {
  return state_->step(feeds);
}
Model::Tensors Trainer::predict(const Model::Tensors& feeds) const {
  return state_->predict(feeds);
}
Model::Plan Trainer::explain(const Model::Tensors& feeds) {
  return state_->explain(feeds);
}
Model::Trace Trainer::trace(const Model::Tensors& feeds) {
  return state_->trace(feeds);
}
int64_t Trainer::launches() const noexcept {
  return state_->step_model.launches();
}
int64_t Trainer::updates() const noexcept {
  return state_->updates;
}
const std::vector<Trainer::Parameter>& Trainer::parameters() const noexcept {
  return state_->parameters;
}
const std::vector<Trainer::Parameter>& Trainer::statistics() const noexcept {
  return state_->statistics;
}

NetGraph Trainer::graph() const {
  NetGraph graph = state_->given;
  const auto put = [&](const std::vector<detail::TrainingGraph::State>& places,
                       const std::vector<Parameter>& tensors) {
    for (size_t i = 0; i < places.size(); i++)
      graph.constants[places[i].value] = std::make_shared<const HostTensor>(
          to_host(state_->stream, tensors[i].value, places[i].first->name));
  };
  put(state_->graphs.parameters, state_->parameters);
  put(state_->graphs.statistics, state_->statistics);
  return graph;
}

}  // namespace dlprim
