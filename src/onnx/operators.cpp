#include "onnx/operators.hpp"

namespace dlprim::onnx {

std::vector<const OperatorEntry*> all_operators() {
  std::vector<const OperatorEntry*> entries;
  for (const OperatorList& family :
       {algebra_operators(),   attention_operators(), control_operators(),   elementwise_operators(),
        index_operators(),     loss_operators(),      microsoft_operators(), norm_operators(),
        pad_operators(),       product_operators(),   quant_operators(),     random_operators(),
        recurrent_operators(), reduction_operators(), resample_operators(),  sequence_operators(),
        shape_operators(),     signal_operators(),    sort_operators(),      training_operators()})
    for (const OperatorEntry& entry : family) entries.push_back(&entry);
  return entries;
}

const OperatorEntry* find_operator(const std::string& domain, const std::string& name, int64_t opset) {
  static const auto* entries = new std::vector<const OperatorEntry*>(all_operators());
  const OperatorEntry* best = nullptr;
  for (const OperatorEntry* entry : *entries)
    if (name == entry->name && domain == entry->domain && entry->since <= opset &&
        (!best || entry->since > best->since))
      best = entry;
  return best;
}

}  // namespace dlprim::onnx
