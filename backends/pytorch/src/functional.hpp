// Structured operators that make their outputs themselves. The functional form of an operator else calls the
// one with outputs, which profilers see, and count, as a second operator of the same name.
#pragma once

#include "structured.hpp"

namespace ocl {

/// `Class` with outputs of its own.
template <class Class, size_t N>
class NewOutputs final : public Class {
 public:
  const at::Tensor& maybe_get_output(int64_t i) override { return made_[static_cast<size_t>(i)]; }

#ifdef OCL_OUTPUTS_HAVE_NAMES
#define OCL_NAMES , at::DimnameList names
#define OCL_PASS_NAMES , names
#else
#define OCL_NAMES
#define OCL_PASS_NAMES
#endif
  void set_output_raw_strided(int64_t i, at::IntArrayRef sizes, at::IntArrayRef strides,
                              at::TensorOptions options OCL_NAMES) override {
    made_[static_cast<size_t>(i)] =
        strides.empty() ? at::empty(sizes, options) : at::empty_strided(sizes, strides, options);
    if constexpr (std::is_base_of_v<at::TensorIteratorBase, Class>)
      at::TensorIteratorBase::set_output_raw_strided(i, sizes, strides, options OCL_PASS_NAMES);
  }
  void set_output_strided(int64_t i, at::IntArrayRef sizes, at::IntArrayRef strides,
                          at::TensorOptions options OCL_NAMES) override {
    set_output_raw_strided(i, sizes, strides, options OCL_PASS_NAMES);
  }
#undef OCL_NAMES
#undef OCL_PASS_NAMES

 private:
  std::array<at::Tensor, N> made_;
};

template <class Op, class OutOp, class Class, class Schema = typename Op::schema>
struct StructuredFunctional;

/// The kernel of a functional operator with one output. What it does not serve goes the way of `OutOp`, its
/// form with an output, on the CPU or as complex numbers.
template <class Op, class OutOp, class Class, class... Args>
struct StructuredFunctional<Op, OutOp, Class, at::Tensor(Args...)> {
  static at::Tensor call(Args... args) {
    const c10::OptionalDeviceGuard guard(device_for<Op, Class>(args...));
    NewOutputs<Class, 1> op;
    op.meta(to_structured(args)...);
    at::Tensor result = op.maybe_get_output(0);
    // A number of the host's may make the result complex.
    if (!(serves(args) && ...) || !serves(result) || !suits<Class>(args...))
      return at::native::call_fallback_fn_symint<&fallback, OutOp>::call(args..., result);
    op.impl(to_structured(args)..., result);
    return result;
  }
};

}  // namespace ocl

#define OCL_FUNCTIONAL(op, Class) \
  ocl::register_kernel<at::_ops::op, ocl::StructuredFunctional<at::_ops::op, at::_ops::op##_out, Class>>(m);
#define OCL_FUNCTIONAL_TENSOR(op, Class)      \
  ocl::register_kernel<at::_ops::op##_Tensor, \
                       ocl::StructuredFunctional<at::_ops::op##_Tensor, at::_ops::op##_out, Class>>(m);
