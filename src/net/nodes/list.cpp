// All kinds of nodes.
#include <algorithm>
#include <unordered_map>

#include "net/nodes/families.hpp"

namespace dlprim {
namespace detail {
namespace {

const std::unordered_map<std::string, const NodeKind*>& by_name() {
  static const auto* map = [] {
    auto* kinds = new std::unordered_map<std::string, const NodeKind*>;
    for (const NodeKind* kind : all_kinds()) kinds->emplace(kind->name, kind);
    return kinds;
  }();
  return *map;
}

}  // namespace

std::vector<const NodeKind*> all_kinds() {
  std::vector<const NodeKind*> kinds;
  for (const KindList& family :
       {algebra_kinds(), attention_kinds(),   backward_kinds(),  cache_kinds(),   code_kinds(),
        control_kinds(), elementwise_kinds(), index_kinds(),     loss_kinds(),    ngram_kinds(),
        norm_kinds(),    pad_kinds(),         pattern_kinds(),   product_kinds(), quant_kinds(),
        random_kinds(),  recurrent_kinds(),   reduction_kinds(), region_kinds(),  resize_kinds(),
        sample_kinds(),  scatter_kinds(),     shape_kinds(),     signal_kinds(),  sort_kinds()})
    for (const NodeKind& kind : family) kinds.push_back(&kind);
  return kinds;
}

const NodeKind* find_kind(const std::string& name) {
  const auto found = by_name().find(name);
  return found == by_name().end() ? nullptr : found->second;
}

}  // namespace detail

const std::vector<std::string>& node_kinds() {
  static const auto* names = [] {
    auto* list = new std::vector<std::string>;
    for (const auto& [name, kind] : detail::by_name()) list->push_back(name);
    std::sort(list->begin(), list->end());
    return list;
  }();
  return *names;
}

}  // namespace dlprim
