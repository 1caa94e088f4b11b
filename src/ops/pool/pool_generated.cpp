// Pooling's engine `generated`, for one window over all of a plane: a reduction forwards, a broadcast
// backwards.
#include <dlprim/pointwise.hpp>

#include "core/composed.hpp"
#include "ops/pool/pool_impl.hpp"

namespace dlprim::detail {

namespace {

/// x^norm and its root as expressions; s0 is the norm, or for averages what they divide by.
Reduction reduction_of(const PoolProblem& problem) {
  if (problem.mode == PoolMode::max) return max_of("x0");
  if (problem.mode == PoolMode::average) return sum_of("x0", "y0 = a0 / s0");
  if (problem.norm == 1) return sum_of("x0");
  if (problem.norm == 2) return sum_of("x0 * x0", "y0 = sqrt(a0)");
  return sum_of("pow(x0, s0)", "y0 = pow(a0, 1 / s0)");
}

struct GeneratedPool : PoolPlan {
  TensorDesc x, y;
  double scalar = 0;
  std::optional<Reduce> forward;
  std::optional<Pointwise> backward;

  size_t workspace_size() const override { return forward ? forward->workspace_size() : 0; }
  void run(const Stream& stream, const PoolTensors& t, const Tensor& workspace) const override {
    const Tensor from = t.x.as_strided(x.shape, x.strides), to = t.y.as_strided(y.shape, y.strides);
    if (forward)
      forward->run(stream, {from}, {to}, {scalar}, workspace);
    else
      backward->run(stream, {to}, {from}, {scalar});
  }
};

std::string refuse_generated(const Context&, const PoolProblem& p, const EngineOptions&) {
  if (!p.global()) return "for one window over the whole plane";
  if (p.indices) return "reductions give no indices";
  if (p.backward && p.mode != PoolMode::average) return "its backward direction is for averages";
  return {};
}

std::unique_ptr<const PoolPlan> make_generated(const Context& context, const PoolProblem& p,
                                               const EngineOptions& options) {
  auto plan = std::make_unique<GeneratedPool>();
  plan->x = p.x;
  plan->y = p.y;
  plan->scalar = p.mode == PoolMode::lp ? p.norm : static_cast<double>(p.divisor ? p.divisor : p.volume());
  Options rest;
  rest.workspace_limit = options.workspace_limit;
  if (p.backward)
    plan->backward.emplace(context, std::vector<TensorDesc>{p.y}, std::vector<TensorDesc>{p.x}, 1,
                           "y0 = x0 / s0");
  else
    plan->forward.emplace(context, std::vector<TensorDesc>{p.x}, std::vector<TensorDesc>{p.y}, 1,
                          reduction_of(p), rest);
  return plan;
}

}  // namespace

const PoolEngine kPoolGenerated{"generated", refuse_generated, make_generated};

}  // namespace dlprim::detail
