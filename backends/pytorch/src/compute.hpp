// Expressions of dlprim's generator over tensors as they are: no iterator, no promotion, several outputs.
#pragma once

#include <initializer_list>
#include <vector>

#include <dlprim/pointwise.hpp>

#include "plans.hpp"

namespace ocl {

/// Computes `body` (see dlprim/pointwise.hpp) on the thread's current stream. The body is a literal: its
/// address is what plans are found by.
inline void compute(Device& on, const char* body, const std::vector<dlprim::Tensor>& inputs,
                    const std::vector<dlprim::Tensor>& outputs,
                    const std::vector<dlprim::Scalar>& scalars = {}) {
  Key key = Key::of(reinterpret_cast<intptr_t>(body), inputs.size(), scalars.size());
  for (const dlprim::Tensor& x : inputs) key.add(x);
  for (const dlprim::Tensor& y : outputs) key.add(y);
  run_plan<dlprim::Pointwise>(
      on, key,
      [&] {
        return dlprim::Pointwise(on.context, {inputs.begin(), inputs.end()}, {outputs.begin(), outputs.end()},
                                 static_cast<int>(scalars.size()), body);
      },
      [&](const dlprim::Pointwise& plan, const dlprim::Stream& stream) {
        plan.run(stream, inputs, outputs, scalars);
      });
}

}  // namespace ocl
