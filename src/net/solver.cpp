// Solvers gather the parameters that have gradients into lists for optimizer.hpp.
#include <dlprim/solver.hpp>

#include <cmath>
#include <map>

#include <dlprim/copy.hpp>

#include "core/check.hpp"
#include "net/graph.hpp"

namespace dlprim {

using detail::require;

namespace {

void require_not_negative(const char* argument, double value) {
  require(std::isfinite(value) && value >= 0, argument, value, " must be finite and not negative");
}

void require_share(const char* argument, double value) {
  require(value >= 0 && value < 1, argument, value, " must be in [0, 1)");
}

}  // namespace

Solver::Solver(const Net& net, const OptimizerDesc& desc, const OptimizerStep& numbers)
    : graph_(net.graph_), desc_(desc), numbers_(numbers) {
  require_not_negative("learning_rate", numbers.learning_rate);
  require_not_negative("weight_decay", numbers.weight_decay);
  require_share("momentum", numbers.momentum);
  // The rest is what every step checks: here without a tensor.
  optimize(graph_->stream, desc, numbers,
           {{}, {}, {}, std::vector<std::vector<Tensor>>(Optimizer::states(desc))});
}

Solver::~Solver() = default;

void Solver::set_learning_rate(double rate) {
  require_not_negative("learning_rate", rate);
  numbers_.learning_rate = rate;
}

void Solver::step(const Stream& stream) {
  require(stream.context() == graph_->stream.context(), "stream", "belongs to another context than the net");
  const std::vector<Parameter>& parameters = graph_->parameters;
  std::vector<size_t> due;
  for (size_t i = 0; i < parameters.size(); i++)
    if (parameters[i].trained && parameters[i].gradient.defined()) due.push_back(i);
  require(!due.empty(), "net", "no parameter has a gradient: Pass::backward comes before Solver::step");
  // All memory before the first update: without room for it no parameter has changed.
  states_.resize(parameters.size());
  const auto count = static_cast<size_t>(Optimizer::states(desc_));
  for (size_t i : due)
    while (states_[i].tensors.size() < count) {
      const Tensor zeros(stream, parameters[i].value.shape());
      fill(stream, 0, zeros);
      states_[i].tensors.push_back(zeros);
    }
  // Parameters that had gradients equally often go together; mostly that is all.
  std::map<int64_t, OptimizerTensors> lists;
  for (size_t i : due) {
    OptimizerTensors& list = lists[++states_[i].steps];
    list.w.push_back(parameters[i].value);
    list.dw.push_back(parameters[i].gradient);
    list.states.resize(count);
    for (size_t k = 0; k < count; k++) list.states[k].push_back(states_[i].tensors[k]);
  }
  for (const auto& [steps, list] : lists) {
    numbers_.step = steps;
    optimize(stream, desc_, numbers_, list);
  }
}

namespace {

OptimizerDesc sgd_desc(const SgdOptions& options) {
  require_share("momentum", options.momentum);
  require(!options.nesterov || options.momentum > 0, "nesterov", "needs a momentum above 0");
  OptimizerDesc desc;
  desc.momentum = options.momentum > 0;
  desc.nesterov = options.nesterov;
  return desc;
}

OptimizerStep sgd_numbers(const SgdOptions& options) {
  OptimizerStep numbers;
  numbers.learning_rate = options.learning_rate;
  numbers.momentum = options.momentum;
  numbers.weight_decay = options.weight_decay;
  numbers.dampening = options.dampening;
  return numbers;
}

OptimizerDesc adam_desc(const AdamOptions& options) {
  OptimizerDesc desc;
  desc.method = OptimizerMethod::adam;
  desc.decoupled = options.decoupled;
  desc.amsgrad = options.amsgrad;
  return desc;
}

OptimizerStep adam_numbers(const AdamOptions& options) {
  OptimizerStep numbers;
  numbers.learning_rate = options.learning_rate;
  numbers.beta1 = options.beta1;
  numbers.beta2 = options.beta2;
  numbers.epsilon = options.epsilon;
  numbers.weight_decay = options.weight_decay;
  return numbers;
}

OptimizerDesc rmsprop_desc(const RmsPropOptions& options) {
  OptimizerDesc desc;
  desc.method = OptimizerMethod::rmsprop;
  desc.momentum = options.momentum > 0;
  desc.centered = options.centered;
  return desc;
}

OptimizerStep rmsprop_numbers(const RmsPropOptions& options) {
  OptimizerStep numbers;
  numbers.learning_rate = options.learning_rate;
  numbers.alpha = options.alpha;
  numbers.epsilon = options.epsilon;
  numbers.momentum = options.momentum;
  numbers.weight_decay = options.weight_decay;
  return numbers;
}

OptimizerDesc adagrad_desc() {
  OptimizerDesc desc;
  desc.method = OptimizerMethod::adagrad;
  return desc;
}

OptimizerStep adagrad_numbers(const AdagradOptions& options) {
  OptimizerStep numbers;
  numbers.learning_rate = options.learning_rate;
  numbers.epsilon = options.epsilon;
  numbers.rate_decay = options.rate_decay;
  numbers.weight_decay = options.weight_decay;
  return numbers;
}

}  // namespace

Sgd::Sgd(const Net& net, const SgdOptions& options) : Solver(net, sgd_desc(options), sgd_numbers(options)) {}
Adam::Adam(const Net& net, const AdamOptions& options)
    : Solver(net, adam_desc(options), adam_numbers(options)) {}
RmsProp::RmsProp(const Net& net, const RmsPropOptions& options)
    : Solver(net, rmsprop_desc(options), rmsprop_numbers(options)) {}
Adagrad::Adagrad(const Net& net, const AdagradOptions& options)
    : Solver(net, adagrad_desc(), adagrad_numbers(options)) {}

}  // namespace dlprim
