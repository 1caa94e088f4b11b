// Losses computed again in double, for tests and benchmarks.
#pragma once

#include <dlprim/class_loss.hpp>
#include <dlprim/loss.hpp>

#include "cases/nn.hpp"

namespace dlprim::test {

struct LossReference {
  const char* name;
  double x_low, x_high, target_low, target_high;  ///< where the function is defined
  /// Of x, target, the function's weights (1 where there is none) and its parameter.
  double (*f)(double x, double target, double weight, double pos_weight, double parameter);
};
const LossReference& loss_reference(const std::string& name);

/// A loss of classes over x of `shape`, [N, C, ...].
struct ClassLossReference {
  Shape shape;
  std::vector<int64_t> target;  ///< of each row, or
  Values probabilities;         ///< of each element
  Values weight;                ///< of each class; empty: 1
  ClassLossParams params;
  bool from_logits = true;  ///< cross-entropy, else NLL

  /// One for each row, or one.
  Values loss(const Values& x) const;
  /// `dloss` as loss() has them.
  Values gradient(const Values& x, const Values& dloss) const;

 private:
  /// The target's weighted parts as an array like x, and each row's weight.
  void parts(Values& q, Values& row_weight) const;
  double divisor(const Values& row_weight) const;
};

}  // namespace dlprim::test
