// Operators of PyTorch's, registered for this device by their names in at::_ops alone: the types of their
// arguments come from the schema there. A structured operator is two functions of a class, meta() and impl(),
// over virtual functions that say what becomes of the outputs; Structured fills them in for outputs that the
// caller gave.
#pragma once

#include <array>
#include <string_view>
#include <tuple>

#include <ATen/Functions.h>
#include <ATen/TensorIterator.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/native/Resize.h>
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

#include "devices.hpp"
#include "fallback.hpp"
#include "tensor.hpp"

namespace ocl {

/// Whether kernels compute with the argument's dtype. Numbers on the CPU go along with any.
inline bool serves(const at::Tensor& t) {
  return !t.defined() || t.device().type() != kOcl || computes(home_of(t), t.scalar_type());
}
inline bool serves(const std::optional<at::Tensor>& t) {
  return !t || serves(*t);
}
inline bool serves(at::TensorList tensors) {
  return std::all_of(tensors.begin(), tensors.end(), [](const at::Tensor& t) { return serves(t); });
}
inline bool serves(const at::ITensorListRef& tensors) {
  return std::all_of(tensors.begin(), tensors.end(), [](const at::Tensor& t) { return serves(t); });
}
template <class T>
bool serves(const T&) {
  return true;
}

/// Whether the class computes with the first argument's numbers. One that takes floating numbers alone says
/// so by a member `floating_only`.
template <class Class, class... Args>
bool suits(const at::Tensor& first, const Args&...) {
  if constexpr (requires { Class::floating_only; }) return first.is_floating_point();
  return true;
}
template <class Class, class... Args>
bool suits(const Args&...) {
  return true;
}

/// Whether the dispatch layer checks that an operator's tensors are on one device: PyTorch's iterators do so
/// themselves and let numbers on the CPU pass; operators over lists go tensor by tensor where devices differ.
template <class Op, class Class>
constexpr bool checks_devices() {
  return !std::is_base_of_v<at::TensorIteratorBase, Class> &&
         std::string_view(Op::name).find("_foreach_") == std::string_view::npos;
}

/// The device that an operator runs on: of the first tensor on one. Throws PyTorch's error if a tensor is on
/// another device.
template <class Op, class Class, class... Args>
std::optional<c10::Device> device_for(const Args&... args) {
  if constexpr (checks_devices<Op, Class>()) return common_device<Op>(args...);
  CommonDevice common(Op::schema_str);
  (common.first(args), ...);
  return common.found();
}

/// What meta() and impl() take for an argument of the schema.
template <class T>
const T& to_structured(const T& argument) {
  return argument;
}
inline int64_t to_structured(const c10::SymInt& number) {
  return number.guard_int(__FILE__, __LINE__);
}
inline at::IntArrayRef to_structured(const c10::SymIntArrayRef& numbers) {
  return C10_AS_INTARRAYREF_SLOW(numbers);
}
inline at::OptionalTensorRef to_structured(const std::optional<at::Tensor>& t) {
  return t ? at::OptionalTensorRef(*t) : at::OptionalTensorRef();
}
inline at::OptionalScalarRef to_structured(const std::optional<at::Scalar>& s) {
  return s ? at::OptionalScalarRef(*s) : at::OptionalScalarRef();
}

/// Gives `out` the sizes, and if they are new the strides, that the operator wants.
void resize_output(const at::Tensor& out, at::IntArrayRef sizes, at::IntArrayRef strides,
                   const at::TensorOptions& options);

/// `Class` with its N outputs in the caller's tensors, or in others of the strides that it insists on.
template <class Class, size_t N>
class Outputs final : public Class {
 public:
  explicit Outputs(std::array<at::Tensor*, N> given) : given_(given) {}

  const at::Tensor& maybe_get_output(int64_t i) override {
    const auto at = static_cast<size_t>(i);
    return instead_[at].defined() ? instead_[at] : *given_[at];
  }

#ifdef OCL_OUTPUTS_HAVE_NAMES
#define OCL_NAMES , at::DimnameList names
#define OCL_PASS_NAMES , names
#else
#define OCL_NAMES
#define OCL_PASS_NAMES
#endif
  void set_output_raw_strided(int64_t i, at::IntArrayRef sizes, at::IntArrayRef strides,
                              at::TensorOptions options OCL_NAMES) override {
    resize_output(*given_[static_cast<size_t>(i)], sizes, strides, options);
    if constexpr (std::is_base_of_v<at::TensorIteratorBase, Class>)
      at::TensorIteratorBase::set_output_raw_strided(i, sizes, strides, options OCL_PASS_NAMES);
  }

  void set_output_strided(int64_t i, at::IntArrayRef sizes, at::IntArrayRef strides,
                          at::TensorOptions options OCL_NAMES) override {
    const auto at = static_cast<size_t>(i);
    resize_output(*given_[at], sizes, strides, options);
    if (given_[at]->strides() != strides) instead_[at] = at::empty_strided(sizes, strides, options);
    if constexpr (std::is_base_of_v<at::TensorIteratorBase, Class>)
      at::TensorIteratorBase::set_output_raw_strided(i, sizes, strides, options OCL_PASS_NAMES);
  }
#undef OCL_NAMES
#undef OCL_PASS_NAMES

  /// Brings what impl() wrote to the caller's tensors.
  void finish() {
    for (size_t i = 0; i < N; i++)
      if (instead_[i].defined()) given_[i]->copy_(instead_[i]);
  }

 private:
  std::array<at::Tensor*, N> given_;
  std::array<at::Tensor, N> instead_;
};

/// How many of an operator's last arguments are outputs.
template <class... Args>
constexpr size_t outputs_of() {
  constexpr std::array<bool, sizeof...(Args)> is_output = {std::is_same_v<Args, at::Tensor&>...};
  size_t count = 0;
  while (count < is_output.size() && is_output[is_output.size() - 1 - count]) count++;
  return count;
}

template <class Op, class Class, class Schema = typename Op::schema>
struct Structured;

/// The kernel of an operator with outputs: `Op` of at::_ops, `Class` of at::native.
template <class Op, class Class, class Result, class... Args>
struct Structured<Op, Class, Result(Args...)> {
  static constexpr size_t kOutputs = outputs_of<Args...>(), kInputs = sizeof...(Args) - kOutputs;

  static Result call(Args... args) {
    const c10::OptionalDeviceGuard guard(device_for<Op, Class>(args...));
    if ((serves(args) && ...) && suits<Class>(args...)) {
      try {
        return run(std::forward_as_tuple(args...), std::make_index_sequence<kInputs>(),
                   std::make_index_sequence<kOutputs>());
      } catch (const RankError&) {  // nothing was launched
      }
    }
    return at::native::call_fallback_fn_symint<&fallback, Op>::call(args...);
  }

 private:
  template <class Tuple, size_t... In, size_t... Out>
  static Result run(Tuple all, std::index_sequence<In...>, std::index_sequence<Out...>) {
    Outputs<Class, kOutputs> op({&std::get<kInputs + Out>(all)...});
    op.meta(to_structured(std::get<In>(all))...);
    op.impl(to_structured(std::get<In>(all))..., op.maybe_get_output(Out)...);
    op.finish();
    return Result(std::get<kInputs + Out>(all)...);
  }
};

/// What a function takes: any dtype that the device computes with, or of the first argument floating ones.
struct AnyNumbers {};
struct Floating {
  static constexpr bool floating_only = true;
};

template <class Op, auto function, class Numbers = AnyNumbers, class Schema = typename Op::schema>
struct Native;

/// The kernel of an operator that is a function, of at::native or ours.
template <class Op, auto function, class Numbers, class Result, class... Args>
struct Native<Op, function, Numbers, Result(Args...)> {
  static Result call(Args... args) {
    const c10::OptionalDeviceGuard guard(device_for<Op, Numbers>(args...));
    if ((serves(args) && ...) && suits<Numbers>(args...)) {
      try {
        return function(args...);
      } catch (const RankError&) {  // nothing was launched
      }
    }
    return at::native::call_fallback_fn_symint<&fallback, Op>::call(args...);
  }
};

/// Registers Kernel::call for the operator `Op`.
template <class Op, class Kernel>
void register_kernel(torch::Library& library) {
  const std::string overload = Op::overload_name;
  const std::string name = Op::name + (overload.empty() ? "" : "." + overload);
  library.impl(name.c_str(), TORCH_FN(Kernel::call));
}

}  // namespace ocl

// Lines of a TORCH_LIBRARY_IMPL whose library is m: an operator by a structured class, by a function of ours,
// by one for floating numbers, by one of at::native's that has overloads.
#define OCL_CLASS(op, Class) ocl::register_kernel<at::_ops::op, ocl::Structured<at::_ops::op, Class>>(m);
#define OCL_FUNCTION(op, function) \
  ocl::register_kernel<at::_ops::op, ocl::Native<at::_ops::op, &function>>(m);
#define OCL_FLOATING(op, function) \
  ocl::register_kernel<at::_ops::op, ocl::Native<at::_ops::op, &function, ocl::Floating>>(m);
#define OCL_NATIVE(op, function)                                                                           \
  ocl::register_kernel<                                                                                    \
      at::_ops::op, ocl::Native<at::_ops::op, static_cast<at::_ops::op::schema*>(&at::native::function)>>( \
      m);
