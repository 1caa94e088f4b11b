// SGD and Adam. The numbers that change from step to step are kernel arguments, so nothing is compiled again.
#include <dlprim/solver.hpp>

#include <cmath>

#include <dlprim/copy.hpp>
#include <dlprim/pointwise.hpp>

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

Solver::Solver(const Net& net, double learning_rate, int state_tensors)
    : graph_(net.graph_), state_tensors_(state_tensors) {
  set_learning_rate(learning_rate);
}

Solver::~Solver() = default;

void Solver::set_learning_rate(double rate) {
  require_not_negative("learning_rate", rate);
  learning_rate_ = rate;
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
  for (size_t i : due)
    while (static_cast<int>(states_[i].tensors.size()) < state_tensors_) {
      const Tensor zeros(stream, parameters[i].value.shape());
      fill(stream, zeros, 0);
      states_[i].tensors.push_back(zeros);
    }
  for (size_t i : due) {
    states_[i].steps++;
    update(stream, parameters[i].value, parameters[i].gradient, states_[i]);
  }
}

Sgd::Sgd(const Net& net, const SgdOptions& options)
    : Solver(net, options.learning_rate, options.momentum > 0 ? 1 : 0), options_(options) {
  require_share("momentum", options.momentum);
  require_not_negative("weight_decay", options.weight_decay);
  require(!options.nesterov || options.momentum > 0, "nesterov", "needs a momentum above 0");
}

void Sgd::update(const Stream& stream, const Tensor& w, const Tensor& dw, const State& state) {
  const double rate = learning_rate(), momentum = options_.momentum, decay = options_.weight_decay;
  if (momentum == 0) {
    pointwise(stream, {w, dw}, {w}, {rate, decay}, "y0 = x0 - s0 * (x1 + s1 * x0)");
    return;
  }
  const Tensor& v = state.tensors[0];
  const char* body = options_.nesterov
                         ? "real g = x1 + s2 * x0; real v = s1 * x2 + g; y0 = x0 - s0 * (g + s1 * v); y1 = v"
                         : "real v = s1 * x2 + (x1 + s2 * x0); y0 = x0 - s0 * v; y1 = v";
  pointwise(stream, {w, dw, v}, {w, v}, {rate, momentum, decay}, body);
}

Adam::Adam(const Net& net, const AdamOptions& options)
    : Solver(net, options.learning_rate, 2), options_(options) {
  require_share("beta1", options.beta1);
  require_share("beta2", options.beta2);
  require_not_negative("epsilon", options.epsilon);
  require_not_negative("weight_decay", options.weight_decay);
}

void Adam::update(const Stream& stream, const Tensor& w, const Tensor& dw, const State& state) {
  const auto t = static_cast<double>(state.steps);
  const double rate = learning_rate() / (1 - std::pow(options_.beta1, t));
  const double root = 1 / std::sqrt(1 - std::pow(options_.beta2, t));
  const Tensor &m = state.tensors[0], &v = state.tensors[1];
  // s4 and s5 are 1 - beta: taken in double, since 1 - 0.999f has only four good digits.
  pointwise(stream, {w, dw, m, v}, {w, m, v},
            {rate, root, options_.beta1, options_.beta2, 1 - options_.beta1, 1 - options_.beta2,
             options_.epsilon, options_.weight_decay},
            "real g = x1 + s7 * x0; real m = s2 * x2 + s4 * g; real v = s3 * x3 + s5 * g * g; "
            "y0 = x0 - s0 * m / (s1 * sqrt(v) + s6); y1 = m; y2 = v");
}

}  // namespace dlprim
