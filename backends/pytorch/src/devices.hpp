// Checks that an operator's tensors are on one device, as PyTorch does for its own devices, in its words.
// A tensor without dimensions may be on the CPU: it is a number. The argument's name comes from the schema.
#pragma once

#include <optional>
#include <string_view>

#include <ATen/core/IListRef.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include "device.hpp"

namespace ocl {

/// Throws PyTorch's error for argument `index` of an operator with this schema.
[[noreturn]] void refuse_device(c10::Device common, const at::Tensor& t, const char* schema, size_t index);

/// The same for arguments of a boxed call. Operators whose indices may be on the CPU are not checked.
void check_devices(const c10::OperatorHandle& op, c10::ArrayRef<c10::IValue> arguments);

/// Sees an operator's arguments in their order.
class CommonDevice {
 public:
  explicit CommonDevice(const char* schema) : schema_(schema) {}

  void first(const at::Tensor& t) {
    if (!common_ && t.defined() && t.device().type() == kOcl) common_ = t.device();
  }
  void first(const std::optional<at::Tensor>& t) {
    if (t) first(*t);
  }
  void first(const at::TensorList& list) {
    for (const at::Tensor& t : list) first(t);
  }
  void first(const at::ITensorListRef& list) {
    for (const at::Tensor& t : list) first(t);
  }
  template <class T>
  void first(const T&) {}

  void check(const at::Tensor& t, size_t index) const {
    if (common_ && t.defined() && t.device() != *common_ && !(t.is_cpu() && t.dim() == 0))
      refuse_device(*common_, t, schema_, index);
  }
  void check(const std::optional<at::Tensor>& t, size_t index) const {
    if (t) check(*t, index);
  }
  void check(const at::TensorList& list, size_t index) const {
    for (const at::Tensor& t : list) check(t, index);
  }
  void check(const at::ITensorListRef& list, size_t index) const {
    for (const at::Tensor& t : list) check(t, index);
  }
  template <class T>
  void check(const T&, size_t) const {}

  const std::optional<c10::Device>& found() const { return common_; }

 private:
  const char* const schema_;
  std::optional<c10::Device> common_;
};

/// Throws if the arguments, in the schema's order, are on several devices; else their device.
template <class Op, class... Args>
std::optional<c10::Device> common_device(const Args&... args) {
  CommonDevice common(Op::schema_str);
  (common.first(args), ...);
  size_t index = 0;
  (common.check(args, index++), ...);
  return common.found();
}

}  // namespace ocl
