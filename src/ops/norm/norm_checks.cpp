// Checks of layer and group normalisation, both directions.
#include "ops/norm/norm_checks.hpp"

namespace dlprim::detail {

void check_norm(const NormProblem& p, const Shape& affine) {
  require_floating("x", p.x, true);
  require_floating("y", p.y, true);
  require_shape("y", p.y, p.x.shape);
  require_writable("y", p.y);
  require_epsilon(p.epsilon);
  require_affine("weight", p.weight, affine);
  require_affine("bias", p.bias, affine);
}

void NormPlan::run(const PlanInfo& info, const Stream& stream, NormTensors t) const {
  require_stream(info, stream);
  const Context& context = stream.context();
  require_tensor("x", t.x, context, problem.x);
  require_tensor("y", t.y, context, problem.y);
  require_optional("weight", t.weight, context, problem.weight);
  require_optional("bias", t.bias, context, problem.bias);
  const auto wanted = [&](bool yes) { return yes ? std::make_optional(statistics) : std::nullopt; };
  require_optional("mean", t.mean, context, wanted(problem.statistics && problem.center));
  require_optional("inv_std", t.inv_std, context, wanted(problem.statistics));
  require_optional("variance", t.variance, context, wanted(problem.variance));
  const Named mean{"mean", t.mean}, inv_std{"inv_std", t.inv_std}, variance{"variance", t.variance},
      workspace{"workspace", t.workspace};
  require_same_or_apart({"y", t.y}, {"x", t.x});
  require_apart({{"y", t.y}, mean, inv_std, variance, workspace}, {{"weight", t.weight}, {"bias", t.bias}});
  require_apart({mean, inv_std, variance, workspace}, {{"x", t.x}});
  t.workspace = workspace_for(info, stream, t.workspace);
  const OperatorScope scope(stream, info);
  engine->run(stream, t);
}

void check_gradients(const NormGradients& g, const Shape& affine) {
  require_floating("dy", g.dy, true);
  require_floating("x", g.x, true);
  require_shape("dy", g.dy, g.x.shape);
  require_affine("weight", g.weight, affine);
  require_affine("dx", g.dx, g.x.shape);
  require_affine("dweight", g.dweight, affine);
  require_affine("dbias", g.dbias, affine);
  require(g.dx || g.dweight || g.dbias, "dx", "no gradient is wanted");
  if (g.dx) require_writable("dx", *g.dx);
  if (g.dweight) require_writable("dweight", *g.dweight);
  if (g.dbias) require_writable("dbias", *g.dbias);
}

void require_gradients(const Stream& stream, const NormGradients& g, const NormGradientTensors& t) {
  const Context& context = stream.context();
  require_tensor("dy", t.dy, context, g.dy);
  require_tensor("x", t.x, context, g.x);
  require_optional("weight", t.weight, context, g.weight);
  require_optional("mean", t.mean, context, g.center ? std::make_optional(g.statistics) : std::nullopt);
  require_tensor("inv_std", t.inv_std, context, g.statistics);
  require_optional("dx", t.dx, context, g.dx);
  require_optional("dweight", t.dweight, context, g.dweight);
  require_optional("dbias", t.dbias, context, g.dbias);
  const Named dweight{"dweight", t.dweight}, dbias{"dbias", t.dbias}, workspace{"workspace", t.workspace};
  require_same_or_apart({"dx", t.dx}, {"dy", t.dy});
  require_apart({{"dx", t.dx}, dweight, dbias, workspace},
                {{"x", t.x}, {"weight", t.weight}, {"mean", t.mean}, {"inv_std", t.inv_std}});
  require_apart({dweight, dbias, workspace}, {{"dy", t.dy}});
}

std::string optional_text(const NormGradients& g) {
  return cat("weight=", g.weight.has_value(), " dx=", g.dx.has_value(), " dweight=", g.dweight.has_value(),
             " dbias=", g.dbias.has_value());
}

}  // namespace dlprim::detail
