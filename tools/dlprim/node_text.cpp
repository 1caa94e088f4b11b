#include "node_text.hpp"

#include <type_traits>

#include "format.hpp"
#include "model_input.hpp"

namespace dlprim::cli {
namespace {

std::string text_of(const Attribute& attribute) {
  return std::visit(
      [](const auto& value) -> std::string {
        using T = std::decay_t<decltype(value)>;
        if constexpr (std::is_arithmetic_v<T>) {
          return format("%g", static_cast<double>(value));
        } else if constexpr (std::is_same_v<T, std::string>) {
          return value;
        } else if constexpr (std::is_arithmetic_v<typename T::value_type>) {
          std::vector<std::string> parts;
          for (const auto& item : value) parts.push_back(format("%g", static_cast<double>(item)));
          return joined(parts, ",");
        } else {
          return joined(value, ",");
        }
      },
      attribute.value);
}

}  // namespace

std::string joined(const std::vector<std::string>& list, const char* between) {
  std::string text;
  for (const std::string& item : list) text += (text.empty() ? "" : between) + item;
  return text;
}

std::string kind_of(const NetGraph::Node& node) {
  const auto function = node.attributes.find("function");
  const auto* name =
      function == node.attributes.end() ? nullptr : std::get_if<std::string>(&function->second.value);
  return name ? node.kind + " " + *name : node.kind;
}

std::string attributes_of(const NetGraph::Node& node) {
  std::vector<std::string> parts;
  for (const auto& [name, attribute] : node.attributes) parts.push_back(name + "=" + text_of(attribute));
  return joined(parts, " ");
}

std::string outputs_of(const std::vector<std::pair<std::string, TensorDesc>>& outputs) {
  std::vector<std::string> parts;
  for (const auto& [name, desc] : outputs) parts.push_back(describe(desc.dtype, desc.shape));
  return joined(parts, ", ");
}

}  // namespace dlprim::cli
