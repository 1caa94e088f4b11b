// The checks' way out: names of arguments, and PyTorch's text.
#include "devices.hpp"

#include <algorithm>
#include <array>
#include <string>

#include <ATen/core/op_registration/adaption.h>

namespace ocl {

namespace {

/// "self" of "mm(Tensor self, Tensor mat2) -> Tensor" for index 0.
std::string argument_name(std::string_view schema, size_t index) {
  size_t depth = 0, begin = schema.find('(') + 1;
  for (size_t i = begin; i < schema.size(); i++) {
    const char c = schema[i];
    depth += c == '(' || c == '[';
    const bool ends = depth == 0 && (c == ',' || c == ')');
    if (c == ')' || c == ']') depth -= depth > 0;
    if (!ends) continue;
    std::string_view argument = schema.substr(begin, i - begin);
    begin = i + 1;
    argument = argument.substr(std::min(argument.find_first_not_of(' '), argument.size()));
    if (argument == "*") continue;
    if (index-- != 0) continue;
    argument = argument.substr(0, argument.find('='));
    return std::string(argument.substr(argument.rfind(' ') + 1));
  }
  return "an argument";
}

[[noreturn]] void refuse(c10::Device common, const at::Tensor& t, const std::string& op,
                         const std::string& argument) {
  c10::impl::common_device_check_failure(common, t, op.c_str(), argument.c_str());
  TORCH_CHECK(false, op, ": ", argument, " is on ", t.device(), ", other tensors on ", common);
}

/// Their indices may be on the CPU, as on every device.
constexpr std::array kIndicesAnywhere{"aten::index.Tensor", "aten::index.Tensor_out",
                                      "aten::_index_put_impl_", "aten::index_put_", "aten::index_put"};

}  // namespace

void refuse_device(c10::Device common, const at::Tensor& t, const char* schema, size_t index) {
  const std::string_view text = schema;
  refuse(common, t, "aten::" + std::string(text.substr(0, text.find('('))), argument_name(text, index));
}

void check_devices(const c10::OperatorHandle& op, c10::ArrayRef<c10::IValue> arguments) {
  const std::string name = c10::toString(op.operator_name());
  if (std::find(kIndicesAnywhere.begin(), kIndicesAnywhere.end(), name) != kIndicesAnywhere.end()) return;
  const auto each = [&](const auto& see) {
    for (size_t i = 0; i < arguments.size(); i++) {
      if (arguments[i].isTensor()) see(arguments[i].toTensor(), i);
      if (arguments[i].isTensorList())
        for (const at::Tensor& t : arguments[i].toTensorVector()) see(t, i);
    }
  };
  std::optional<c10::Device> common;
  each([&](const at::Tensor& t, size_t) {
    if (!common && t.defined() && t.device().type() == kOcl) common = t.device();
  });
  if (!common) return;
  each([&](const at::Tensor& t, size_t i) {
    if (t.defined() && t.device() != *common && !(t.is_cpu() && t.dim() == 0))
      refuse(*common, t, name, op.schema().arguments()[i].name());
  });
}

}  // namespace ocl
