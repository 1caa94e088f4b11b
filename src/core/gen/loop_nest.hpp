// LoopNest: several strided tensors seen as one nest of loops, with as few dimensions as their strides allow.
// It is what pointwise and reduction kernels run over.
#pragma once

#include <vector>

#include <dlprim/tensor.hpp>

namespace dlprim::detail {

struct LoopDim {
  int64_t size = 1;
  std::vector<int64_t> strides;  ///< one per tensor, in elements; 0 where it broadcasts
};

/// Dimensions outermost first.
struct LoopNest {
  std::vector<LoopDim> kept;     ///< dimensions of the outputs
  std::vector<LoopDim> reduced;  ///< dimensions that the outputs lack
  int64_t kept_count = 1;
  int64_t reduced_count = 1;
  bool reduced_innermost = false;  ///< the dimension with the smallest strides of the first input is reduced
  bool wide = false;               ///< an index or an offset needs 64 bits
};

/// The nest over `inputs` and `outputs` (strides are in that order). Inputs broadcast to the outputs' shape;
/// with `reduces` the outputs may have size 1 or no dimension where the inputs have more. Throws
/// ValidationError when shapes do not fit.
LoopNest make_loop_nest(const std::vector<TensorDesc>& inputs, const std::vector<TensorDesc>& outputs,
                        bool reduces);

}  // namespace dlprim::detail
