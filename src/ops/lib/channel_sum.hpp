// The gradient of a bias, of convolutions and linear layers.
#pragma once

#include <dlprim/plan.hpp>
#include <dlprim/tensor.hpp>

namespace dlprim::detail {

/// dbias[k] = sum over all axes of dy but the second. Throws ValidationError: contexts, dtypes (dbias may be
/// f32 where dy is f16 or bf16), shapes, memory that is shared.
void channel_sum(const Stream& stream, const Tensor& dy, const Tensor& dbias, const Options& options,
                 const Tensor& workspace);

}  // namespace dlprim::detail
