// GeneratedArguments: binds what generated kernels take, in the order of expression.hpp's parameter_list, and
// checks tensors against what their plan was made for.
#pragma once

#include <utility>
#include <vector>

#include <dlprim/scalar.hpp>

#include "core/gen/expression.hpp"
#include "core/launch.hpp"
#include "core/plan_cache.hpp"

namespace dlprim::detail {

class GeneratedArguments {
 public:
  GeneratedArguments() = default;
  /// `places`: operands without memory in the nest, between inputs and outputs. `finishing`: so many of the
  /// last inputs are read by a kernel that finishes, too.
  GeneratedArguments(const std::vector<TensorDesc>& inputs, const std::vector<TensorDesc>& outputs,
                     int scalars, DType real, const LoopNest& nest, size_t places = 0, size_t finishing = 0);

  /// Counts, contexts and descriptions fit, outputs do not overlap each other, a scalar can be a `real`.
  /// Throws ValidationError.
  void check(const Stream& stream, const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs,
             const std::vector<Scalar>& scalars) const;
  /// Binds the parameter list.
  void bind(Launch& launch, const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs,
            const std::vector<Scalar>& scalars) const;
  /// Binds that of a kernel that finishes: without other inputs and reduced dimensions.
  void bind_finish(Launch& launch, const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs,
                   const std::vector<Scalar>& scalars) const;
  /// Binds one more INDEX.
  void bind_index(Launch& launch, int64_t value) const;

 private:
  /// Of inputs from number `first` on, and all outputs.
  void bind_kept(Launch& launch, size_t first, const std::vector<Tensor>& inputs,
                 const std::vector<Tensor>& outputs, const std::vector<Scalar>& scalars) const;
  void bind_dims(Launch& launch, const std::vector<LoopDim>& dims, size_t first, size_t last) const;

  std::vector<TensorDesc> inputs_, outputs_;
  size_t scalars_ = 0, places_ = 0, finishing_ = 0;
  DType real_ = DType::f32;
  LoopNest nest_;
};

/// Output `i` may be input `j`, element for element; other overlaps would read what was already overwritten.
/// Throws ValidationError.
void require_elementwise_alias(const Tensor& y, size_t i, const Tensor& x, size_t j);
/// " x0=f32[2,3] y0=f32[2,3] body=y0%20=%20x0" for a plan's text: white space is %20, a percent sign %25.
std::string generated_text(const std::vector<TensorDesc>& inputs, const std::vector<TensorDesc>& outputs,
                           const char* what, const std::string& expression);
/// An element of `dtype` can be made of the number, which an integer's then is modulo 2^64.
bool takes(DType dtype, const Scalar& value);
/// Throws ValidationError if `real` is f64 and the device has no double arithmetic.
void require_real(const Context& context, DType real);
/// The tensors' descriptions, which are also added to `key`. Throws ValidationError on an undefined one.
std::pair<std::vector<TensorDesc>, std::vector<TensorDesc>> describe_tensors(
    const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs, PlanKey& key);

}  // namespace dlprim::detail
