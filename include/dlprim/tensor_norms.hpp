// The norm of every tensor of a list, in few launches: what clipping by each layer's norm and optimizers like
// LAMB need. The norm of all tensors together: dlprim/gradients.hpp.
//
//   tensor_norms(stream, dw, NormOrder::two, y);  // y[i]: the norm of dw[i]
#pragma once

#include <memory>
#include <vector>

#include <dlprim/export.hpp>
#include <dlprim/gradients.hpp>
#include <dlprim/plan.hpp>
#include <dlprim/stream.hpp>
#include <dlprim/tensor.hpp>

namespace dlprim {

/// Of lists with so many tensors, and at most so many elements together: the workspace is as large as these
/// need. Dtypes are floating; both are f64, or neither.
struct TensorNormsDesc {
  DType x = DType::f32, y = DType::f32;
  NormOrder order = NormOrder::two;
  int64_t tensors = 0, elements = 0;
};

/// y[i] = the norm of x[i], summed in a fixed order in f32, or in f64. A tensor without elements has norm 0.
class DLPRIM_API TensorNorms : public Plan {
 public:
  explicit TensorNorms(const Context& context, const TensorNormsDesc& desc, const Options& options = {});
  /// x: each without gaps, in whatever order its elements lie. y: of rank 1, any stride but 0; it shares no
  /// memory with x. Throws ValidationError.
  void run(const Stream& stream, const std::vector<Tensor>& x, const Tensor& y,
           const Tensor& workspace = {}) const;

  struct Impl;

 private:
  TensorNormsDesc desc_;
  std::shared_ptr<const Impl> impl_;
};

/// Finds the plan in the context's cache, or makes it, and runs it.
DLPRIM_API void tensor_norms(const Stream& stream, const std::vector<Tensor>& x, NormOrder order,
                             const Tensor& y, const Options& options = {}, const Tensor& workspace = {});

}  // namespace dlprim
