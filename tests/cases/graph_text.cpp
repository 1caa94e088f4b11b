#include <sstream>
#include <variant>

#include "cases/graph.hpp"

namespace dlprim::test {
namespace {

struct Text {
  std::ostringstream& out;
  void operator()(const std::string& v) const { out << v; }
  void operator()(int64_t v) const { out << v; }
  void operator()(double v) const { out << v; }
  template <class T>
  void operator()(const std::vector<T>& list) const {
    for (size_t i = 0; i < list.size(); i++) out << (i ? "," : "") << list[i];
  }
};

}  // namespace

std::string text_of(const NetGraph& graph) {
  std::ostringstream out;
  const auto value = [&](int v) {
    if (v == NetGraph::kNone) return void(out << " -");
    out << " " << v;
    const auto constant = graph.constants.find(v);
    if (constant != graph.constants.end()) out << to_string(constant->second->shape);
  };
  for (const int input : graph.inputs) {
    out << "input " << input << " [";
    for (const Dimension& size : *graph.values[static_cast<size_t>(input)].shape) out << " " << size.size;
    out << " ]\n";
  }
  for (const NetGraph::Node& node : graph.nodes) {
    for (const int v : node.outputs) out << v << " ";
    out << "= " << node.kind;
    for (const int v : node.inputs) value(v);
    for (const auto& [name, attribute] : node.attributes) {
      out << " " << name << "=";
      std::visit(Text{out}, attribute.value);
    }
    out << "\n";
  }
  out << "outputs";
  for (const int v : graph.outputs) out << " " << v;
  return out.str() + "\n";
}

}  // namespace dlprim::test
