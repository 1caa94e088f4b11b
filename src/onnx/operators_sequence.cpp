// Sequences whose length the file says: they are lists of values while a graph is imported, and nothing of
// them is left in it. Inputs, outputs and states of loops that are sequences are refused.
#include <dlprim/net_host.hpp>

#include "core/text.hpp"
#include "onnx/operators.hpp"

namespace dlprim::onnx {
namespace {

using detail::cat;

/// Parts of sizes that a list says, as torch.chunk and torch.split are written.
void split_to_sequence(NodeImport& node) {
  const HostTensor* const sizes = node.constant_in(1);
  if (!sizes || sizes->shape.size() != 1)
    node.refuse("has no constant list of sizes: how many parts there are is not known");
  node.ignore("keepdims");  // for parts of one place alone
  const auto count = static_cast<size_t>(sizes->shape[0]);
  if (count == 0) return node.result_sequence({});
  node.result_sequence(
      node.emit_many("split", {node.in(0), node.in(1)}, count, {{"axis", node.integer("axis", 0)}}));
}

void sequence_construct(NodeImport& node) {
  node.result_sequence(node.all_inputs());
}

void sequence_at(NodeImport& node) {
  const std::vector<int>& members = node.sequence_in(0);
  const HostTensor* const place = node.constant_in(1);
  if (!place) node.refuse("has no constant place");
  const auto count = static_cast<int64_t>(members.size());
  const int64_t given = integers_of(*place).at(0), at = given < 0 ? given + count : given;
  if (at < 0 || at >= count) node.refuse(cat("asks for place ", given, " of ", count));
  node.result(node.emit("identity", {members[static_cast<size_t>(at)]}));
}

void sequence_length(NodeImport& node) {
  const auto count = static_cast<int64_t>(node.sequence_in(0).size());
  node.result(node.constant(host_tensor(DType::i64, {}, std::vector<int64_t>{count})));
}

void concat_from_sequence(NodeImport& node) {
  std::vector<int> members = node.sequence_in(0);
  const int64_t axis = node.integer("axis", 0);
  if (members.empty()) node.refuse("has an empty sequence");
  if (node.integer("new_axis", 0) != 0)
    for (int& member : members)
      member = node.emit("unsqueeze", {member}, {{"axes", std::vector<int64_t>{axis}}});
  node.result(node.emit("concat", std::move(members), {{"axis", axis}}));
}

constexpr OperatorEntry kOperators[] = {
    {"ConcatFromSequence", concat_from_sequence}, {"SequenceAt", sequence_at},
    {"SequenceConstruct", sequence_construct},    {"SequenceLength", sequence_length},
    {"SplitToSequence", split_to_sequence},
};

}  // namespace

OperatorList sequence_operators() {
  return list_of(kOperators);
}

}  // namespace dlprim::onnx
