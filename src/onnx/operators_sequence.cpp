// Sequences whose length the file says: they are lists of values while a graph is imported, and nothing of
// them is left in it. Inputs, outputs and states of loops that are sequences are refused.
#include <algorithm>

#include <dlprim/net_host.hpp>

#include "core/text.hpp"
#include "onnx/operators.hpp"

namespace dlprim::onnx {
namespace {

using detail::cat;

constexpr int64_t kMostParts = 1 << 16;

/// The sizes of parts of `each` places; the last has what is left. How many there are follows from the shape
/// that the file declares; when the model runs, the split refuses another one.
std::vector<int64_t> equal_sizes(const NodeImport& node, int64_t axis, int64_t each) {
  if (each < 1) node.refuse(cat("splits into parts of size ", each));
  const auto* shape = node.declared_shape(0);
  const auto rank = static_cast<int64_t>(shape ? shape->size() : 0);
  if (shape && (axis < -rank || axis >= rank)) node.refuse(cat("splits axis ", axis, " of ", rank));
  const int64_t whole = shape ? (*shape)[static_cast<size_t>(axis < 0 ? axis + rank : axis)].size : -1;
  if (whole < 0)
    node.refuse(cat("splits axis ", axis, ", whose size the file does not declare: how many parts ",
                    "there are is not known"));
  if ((whole - 1) / each >= kMostParts) node.refuse(cat("has more than ", kMostParts, " parts"));
  std::vector<int64_t> sizes;
  for (int64_t left = whole; left > 0; left -= each) sizes.push_back(std::min(each, left));
  return sizes;
}

/// Parts of sizes that a list says, or of one size, as torch.split and torch.chunk are written; without
/// either parts of one place, which lose the axis without keepdims.
void split_to_sequence(NodeImport& node) {
  const int64_t axis = node.integer("axis", 0);
  const bool keeps = node.integer("keepdims", 1) != 0 || node.has(1);
  const HostTensor* const split = node.constant_in(1);
  if (node.has(1) && !split) node.refuse("has no constant sizes: how many parts there are is not known");
  const bool listed = split && split->shape.size() == 1;
  const std::vector<int64_t> sizes =
      listed ? integers_of(*split) : equal_sizes(node, axis, split ? integers_of(*split).at(0) : 1);
  if (sizes.empty()) return node.in(0), node.result_sequence({});
  std::vector<int> parts =
      node.emit_many("split", {node.in(0)}, sizes.size(), {{"axis", axis}, {"sizes", sizes}});
  if (!keeps)
    for (int& part : parts) part = node.emit("squeeze", {part}, {{"axes", std::vector<int64_t>{axis}}});
  node.result_sequence(std::move(parts));
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
