// Operators with both of their forms as data, for what holds for every plan and call: how they take options
// and a workspace.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <dlprim/copy.hpp>
#include <dlprim/plan.hpp>

#include "cases/operators.hpp"

namespace dlprim::test {

struct PlannedOperator {
  /// A plan for the tensors, and what runs it on them with a workspace.
  struct Made {
    std::shared_ptr<const Plan> plan;
    std::function<void(const Stream&, const Tensor& workspace)> run;
  };
  std::string name;
  std::string engine;  ///< one that takes a workspace, where there is any
  Operands operands;   ///< those called "unused" or "old..." are no tensors of the operator
  std::function<Made(const Tensors&, const Options&)> make;
  std::function<void(const Stream&, const Tensors&, const Options&, const Tensor& workspace)> call;
};

/// Of plan class P: `describe(tensors)` is its description, `run(plan, stream, tensors, workspace)` runs it.
template <class P, class Describe, class Run, class Call>
PlannedOperator planned(const char* name, const char* engine, const Operands& operands, Describe describe,
                        Run run, Call call) {
  const auto make = [=](const Tensors& tensors, const Options& options) {
    const auto plan = std::make_shared<const P>(tensors.front().context(), describe(tensors), options);
    return PlannedOperator::Made{
        plan, [=](const Stream& stream, const Tensor& workspace) { run(*plan, stream, tensors, workspace); }};
  };
  return {name, engine, operands, make, call};
}

/// What the lists are written with.
namespace planning {

using St = const Stream&;
using Ts = const Tensors&;
using Op = const Options&;
using Ws = const Tensor&;
inline constexpr DType u8 = DType::u8, i32 = DType::i32, i64 = DType::i64;

/// What is changed in place begins as `old`.
inline const Tensor& renewed(St st, const Tensor& old, const Tensor& x) {
  copy(st, old, x);
  return x;
}

}  // namespace planning

std::vector<PlannedOperator> planned_operators();

// Its parts.
std::vector<PlannedOperator> planned_products();
std::vector<PlannedOperator> planned_norms();
std::vector<PlannedOperator> planned_losses();
std::vector<PlannedOperator> planned_elements();
std::vector<PlannedOperator> planned_training();
std::vector<PlannedOperator> planned_windows();
std::vector<PlannedOperator> planned_movement();
std::vector<PlannedOperator> planned_choices();
std::vector<PlannedOperator> planned_order();

}  // namespace dlprim::test
