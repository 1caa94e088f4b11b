// Complex numbers, as pairs of real ones that lie side by side: kernels see real and imaginary parts as two
// strided tensors. Operators of the lists reach this file by way of the fallback, which asks it first.
#pragma once

#include <ATen/TensorIterator.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <c10/core/Scalar.h>
#include <c10/util/ArrayRef.h>

namespace ocl {

/// Runs the operator if one of its tensors on a device is complex, and there is a kernel for that.
bool run_complex(const c10::OperatorHandle& op, torch::jit::Stack* stack);

/// Fills a complex tensor.
void fill_complex(const at::Tensor& self, const at::Scalar& value);
/// dst = src, one of them complex, of two dtypes, on one device. Imaginary parts are lost, or 0.
void convert_complex(const at::Tensor& src, const at::Tensor& dst);

/// The function of an elementwise operator, of inputs x, or a and b, or x, a and b, and scalars p and q. Real
/// and imaginary parts are called xr and xi, and so on; the statements set yr and yi.
struct ComplexRow {
  const char* text;
  bool real_result = false;  ///< yr alone
};
void run_complex(const ComplexRow& row, at::TensorIteratorBase& iter, c10::ArrayRef<at::Scalar> scalars = {});

/// Kernels for complex arguments, by their operators' names.
class ComplexKernels {
 public:
  void add(const char* name, const char* overload, c10::KernelFunction kernel) {
    kernels_.emplace(c10::OperatorName(name, overload), std::move(kernel));
  }
  const c10::KernelFunction* find(const c10::OperatorName& name) const {
    const auto found = kernels_.find(name);
    return found == kernels_.end() ? nullptr : &found->second;
  }

 private:
  std::unordered_map<c10::OperatorName, c10::KernelFunction> kernels_;
};

/// Adds a function for an operator of at::_ops.
template <class Op, auto function>
void add_complex(ComplexKernels& to) {
  static_assert(std::is_same_v<decltype(function), typename Op::schema*>);
  to.add(Op::name, Op::overload_name, c10::KernelFunction::makeFromUnboxedFunction(TORCH_FN(function)));
}

void add_complex_elementwise(ComplexKernels& to);
void add_complex_products(ComplexKernels& to);

}  // namespace ocl

#define OCL_COMPLEX(op, function) ocl::add_complex<at::_ops::op, &function>(to);
