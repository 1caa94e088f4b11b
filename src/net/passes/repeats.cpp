// What is computed twice is computed once: nodes of one kind with the same attributes and inputs. Exporters
// write the mask of attention, and sizes, once for each layer. Small constants that are equal count as one.
#include <algorithm>

#include "core/plan_cache.hpp"
#include "net/nodes/node.hpp"
#include "net/passes/pass.hpp"

namespace dlprim::detail {
namespace {

constexpr size_t kMostBytes = 256;  ///< of constants that are compared

}  // namespace

void remove_repeats(Rewritten& r) {
  NetGraph& graph = r.graph;
  std::vector<int> same(graph.values.size());
  for (size_t value = 0; value < same.size(); value++) same[value] = static_cast<int>(value);
  std::map<std::string, int> constants;
  for (const auto& [value, constant] : graph.constants) {
    if (constant->data.size() > kMostBytes || !constant->name.empty()) continue;
    PlanKey key("constant");
    key.add(constant->dtype).add(constant->shape);
    key.add(std::string(constant->data.begin(), constant->data.end()));
    same[static_cast<size_t>(value)] = constants.emplace(key.bytes(), value).first->second;
  }
  std::vector<bool> given(graph.values.size());
  for (int value : graph.outputs) given[static_cast<size_t>(value)] = true;
  std::map<std::string, const NetGraph::Node*> seen;
  for (NetGraph::Node& node : graph.nodes) {
    for (int& value : node.inputs)
      if (value != NetGraph::kNone) value = same[static_cast<size_t>(value)];
    if (differs_each_time(node)) continue;
    PlanKey key(node.kind.c_str());
    for (const auto& [name, attribute] : node.attributes) {
      key.add(name).add(attribute.value.index());
      std::visit([&](const auto& value) { key.add(value); }, attribute.value);
    }
    for (int value : node.inputs) key.add(value);
    for (int value : node.outputs) key.add(value == NetGraph::kNone);
    const auto [first, is_new] = seen.emplace(key.bytes(), &node);
    if (is_new) continue;
    if (std::any_of(node.outputs.begin(), node.outputs.end(),
                    [&](int value) { return value != NetGraph::kNone && given[static_cast<size_t>(value)]; }))
      continue;
    for (size_t k = 0; k < node.outputs.size(); k++)
      if (node.outputs[k] != NetGraph::kNone)
        same[static_cast<size_t>(node.outputs[k])] = first->second->outputs[k];
    node.outputs.clear();
  }
  drop_emptied(graph);
}

}  // namespace dlprim::detail
