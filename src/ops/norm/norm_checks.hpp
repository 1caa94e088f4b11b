// What plans of layer and group normalisation check, and how forward ones run.
#pragma once

#include "ops/norm/norm_rows.hpp"

namespace dlprim::detail {

/// x, y, weight, bias and epsilon of the problem; `affine` is the shape of weight and bias.
void check_norm(const NormProblem& problem, const Shape& affine);

struct NormPlan {
  std::shared_ptr<const NormImpl> engine;
  NormProblem problem;
  TensorDesc statistics;  ///< mean, inv_std and variance

  /// Checks the tensors and runs the engine.
  void run(const PlanInfo& info, const Stream& stream, NormTensors t) const;
};

/// What backward descriptions have in common.
struct NormGradients {
  TensorDesc dy, x;
  std::optional<TensorDesc> weight, dx, dweight, dbias;
  bool center = true;          ///< there is a mean
  TensorDesc statistics = {};  ///< inv_std and mean
  DType real() const { return x.dtype == DType::f64 || dy.dtype == DType::f64 ? DType::f64 : DType::f32; }
};

struct NormGradientTensors {
  Tensor dy, x, weight, mean, inv_std, dx, dweight, dbias, workspace;
};

/// All but the statistics; `affine` is the shape of weight, dweight and dbias.
void check_gradients(const NormGradients& g, const Shape& affine);
void require_gradients(const Stream& stream, const NormGradients& g, const NormGradientTensors& t);
/// "weight=1 dx=1 dweight=0 dbias=1", for a plan's text.
std::string optional_text(const NormGradients& g);

}  // namespace dlprim::detail
