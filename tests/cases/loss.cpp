#include "cases/loss.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace dlprim::test {
namespace {

size_t at(int64_t i) {
  return static_cast<size_t>(i);
}
double log_sigmoid(double x) {
  return x < 0 ? x - std::log1p(std::exp(x)) : -std::log1p(std::exp(-x));
}

}  // namespace

const LossReference& loss_reference(const std::string& name) {
  static const std::vector<LossReference> list = {
      {"mse", -2, 2, -2, 2, [](double x, double t, double, double, double) { return std::pow(x - t, 2); }},
      {"l1", -2, 2, -2, 2, [](double x, double t, double, double, double) { return std::abs(x - t); }},
      {"smooth_l1", -2, 2, -2, 2,
       [](double x, double t, double, double, double beta) {
         const double z = std::abs(x - t);
         return z < beta ? 0.5 * z * z / beta : z - 0.5 * beta;
       }},
      {"huber", -2, 2, -2, 2,
       [](double x, double t, double, double, double delta) {
         const double z = std::abs(x - t);
         return z <= delta ? 0.5 * z * z : delta * (z - 0.5 * delta);
       }},
      {"bce", 0.05, 0.95, 0, 1,
       [](double x, double t, double w, double, double) {
         return -w * (t * std::max(std::log(x), -100.0) + (1 - t) * std::max(std::log(1 - x), -100.0));
       }},
      {"bce_with_logits", -5, 5, 0, 1,
       [](double x, double t, double w, double p, double) {
         return -w * (p * t * log_sigmoid(x) + (1 - t) * log_sigmoid(-x));
       }},
      {"kl_div", -4, 0, 0.05, 1,
       [](double x, double t, double, double, double) { return t * (std::log(t) - x); }},
      {"kl_div_log", -4, 0, -4, 0,
       [](double x, double t, double, double, double) { return std::exp(t) * (t - x); }},
      {"poisson_nll", -2, 2, 0, 5,
       [](double x, double t, double, double, double) { return std::exp(x) - t * x; }},
      {"soft_margin", -3, 3, -1, 1,
       [](double x, double t, double, double, double) { return std::log1p(std::exp(-t * x)); }},
  };
  for (const LossReference& f : list)
    if (f.name == name) return f;
  throw std::runtime_error("no reference of " + name);
}

void ClassLossReference::parts(Values& q, Values& row_weight) const {
  const AxisView v(shape, 1);
  const double shared = params.label_smoothing / static_cast<double>(std::max<int64_t>(v.size, 1));
  q.assign(at(element_count(shape)), 0);
  row_weight.assign(at(v.outer * v.inner), 0);
  for (int64_t row = 0; row < v.outer * v.inner; row++) {
    const int64_t t = target.empty() ? 0 : target[at(row)];
    if (!target.empty() && (t < 0 || t >= v.size || t == params.ignore_index)) continue;
    row_weight[at(row)] = target.empty() ? 1 : weight.empty() ? 1 : weight[at(t)];
    for (int64_t c = 0; c < v.size; c++) {
      const size_t i = at((row / v.inner * v.size + c) * v.inner + row % v.inner);
      const double p = target.empty() ? probabilities[i] : c == t ? 1 : 0;
      q[i] = (weight.empty() ? 1 : weight[at(c)]) * (p * (1 - params.label_smoothing) + shared);
    }
  }
}

double ClassLossReference::divisor(const Values& row_weight) const {
  double sum = 0;
  for (double w : row_weight) sum += w;
  return params.reduction == LossReduction::mean ? sum : 1;
}

Values ClassLossReference::loss(const Values& x) const {
  const AxisView v(shape, 1);
  Values q, row_weight, terms(at(v.outer * v.inner), 0.0);
  parts(q, row_weight);
  const Values log_p = from_logits ? softmax_reference(x, shape, 1, true) : x;
  for (size_t i = 0; i < q.size(); i++) {
    const int64_t n = static_cast<int64_t>(i) / v.inner / v.size;
    if (q[i] != 0) terms[at(n * v.inner + static_cast<int64_t>(i) % v.inner)] -= q[i] * log_p[i];
  }
  if (params.reduction == LossReduction::none) return terms;
  double sum = 0;
  for (double term : terms) sum += term;
  return {sum / divisor(row_weight)};
}

Values ClassLossReference::gradient(const Values& x, const Values& dloss) const {
  const AxisView v(shape, 1);
  Values q, row_weight;
  parts(q, row_weight);
  for (size_t i = 0; i < q.size(); i++) {
    const int64_t n = static_cast<int64_t>(i) / v.inner / v.size;
    const size_t row = at(n * v.inner + static_cast<int64_t>(i) % v.inner);
    if (q[i] != 0) q[i] *= -dloss[dloss.size() == 1 ? 0 : row] / divisor(row_weight);
  }
  return from_logits ? softmax_backward_reference(q, softmax_reference(x, shape, 1, true), shape, 1, true)
                     : q;
}

}  // namespace dlprim::test
