// Random numbers, out of the library's generator (dlprim/random.hpp). A node with a seed gives the same
// numbers in each run. Nodes without one share a stream of seed 0, which goes on from node to node, and from
// run to run of a Model: a Model made anew begins again.
#include <cstring>

#include <dlprim/pointwise.hpp>
#include <dlprim/random.hpp>
#include <dlprim/sampling.hpp>
#include <dlprim/softmax.hpp>

#include "net/executor.hpp"
#include "net/nodes/families.hpp"

namespace dlprim::detail {
namespace {

/// Where the node's numbers come from, of which it uses `count`.
RandomState random_state(const NodeStep& step, int64_t count) {
  if (!step.has("seed")) return step.random(count);
  const double seed = step.number("seed", 0);
  RandomState state;
  std::memcpy(&state.seed, &seed, sizeof(seed));
  return state;
}

/// Input: none, with the attribute "shape"; or one of y's shape. distribution: uniform (low, high) or normal
/// (mean, deviation). dtype: the input's otherwise. seed: a number, see above.
void infer_random(NodeStep& step) {
  const std::string name = step.text("distribution");
  require(name == "uniform" || name == "normal", "distribution", "is '", name,
          "', must be uniform or normal");
  const DType dtype = step.has("dtype") ? parse_dtype(step.text("dtype")) : step.dtype(0);
  require(is_floating(dtype), "dtype", "is ", name_of(dtype), ", must be floating");
  step.output(0, dtype, step.has(0) ? step.shape(0) : Shape(step.integers("shape")));
}
void run_random(NodeStep& step) {
  const Tensor& y = step.y();
  if (y.numel() == 0) return;
  const RandomState state = random_state(step, y.numel());
  if (step.text("distribution") == "uniform")
    random_uniform(step.stream, step.number("low", 0), step.number("high", 1), state, y, step.options);
  else
    random_normal(step.stream, step.number("mean", 0), step.number("deviation", 1), state, y, step.options);
}

/// Input: p. 1 with the probability that p's element is, else 0. dtype: p's otherwise.
void infer_bernoulli(NodeStep& step) {
  step.output(0, step.has("dtype") ? parse_dtype(step.text("dtype")) : step.dtype(0), step.shape(0));
}
void run_bernoulli(NodeStep& step) {
  const Tensor& y = step.y();
  if (y.numel() == 0) return;
  const Tensor u = step.scratch(y.shape(), DType::f32);
  random_uniform(step.stream, 0, 1, random_state(step, y.numel()), u, step.options);
  dlprim::pointwise(step.stream, {u, step.x(0)}, {y}, {}, "y0 = x0 < x1 ? 1 : 0", step.options);
}

/// Input: [N, C], logarithms of weights, which need not add up to anything. y: [N, count], indices drawn by
/// these weights, each by itself. dtype: i32 or i64.
void infer_multinomial(NodeStep& step) {
  require(step.rank(0) == 2, "x", "is ", step.shape(0), ", must be a matrix");
  step.output(0, parse_dtype(step.text("dtype", "i32")), {step.shape(0)[0], step.integer("count", 1)});
}
void run_multinomial(NodeStep& step) {
  const Tensor& y = step.y();
  if (y.numel() == 0) return;
  const Tensor w = step.scratch(step.shape(0), DType::f32);
  softmax(step.stream, step.x(0), {}, 1, w, step.options);
  multinomial(step.stream, w, true, random_state(step, y.numel()), y, step.options);
}

constexpr NodeKind kKinds[] = {
    {"random", 0, 1, infer_random, run_random},
    {"bernoulli", 1, 1, infer_bernoulli, run_bernoulli},
    {"multinomial", 1, 1, infer_multinomial, run_multinomial},
};

}  // namespace

KindList random_kinds() {
  return list_of(kKinds);
}

}  // namespace dlprim::detail
