// Zeros that are put around a convolution's input become the convolution's own padding.
#include <algorithm>

#include <dlprim/net_host.hpp>

#include "net/passes/pass.hpp"

namespace dlprim::detail {
namespace {

std::vector<int64_t> integers(const NetGraph::Node& node, const char* name) {
  const auto* list = attribute<std::vector<int64_t>>(node, name);
  std::vector<int64_t> numbers;
  if (list) numbers = *list;
  return numbers;
}

/// What a "pad" node puts in front of and behind each axis, if that is zeros around the axes from 2 on.
std::optional<std::vector<int64_t>> zeros_around(const Rewritten& r, const NetGraph::Node& node,
                                                 size_t rank) {
  const auto* mode = attribute<std::string>(node, "mode");
  if (node.kind != "pad" || (mode && *mode != "constant")) return {};
  const auto has = [&](size_t k) { return node.inputs.size() > k && node.inputs[k] != NetGraph::kNone; };
  if (has(3)) return {};  // axes of its own
  if (has(2)) {
    const HostTensor* value = r.constant(node.inputs[2]);
    if (!value || element_count(value->shape) != 1 || numbers_of(*value)[0] != 0) return {};
  }
  const HostTensor* constant = r.constant(node.inputs[1]);
  if (!constant) return {};
  const std::vector<double> numbers = numbers_of(*constant);
  const std::vector<int64_t> widths(numbers.begin(), numbers.end());
  if (widths.size() != 2 * rank) return {};
  for (size_t i = 0; i < widths.size(); i++)
    if (widths[i] < 0 || (i % rank < 2 && widths[i] != 0)) return {};
  return widths;
}

}  // namespace

void fold_pads(Rewritten& r) {
  const Links links(r.graph);
  for (NetGraph::Node& node : r.graph.nodes) {
    if (node.kind != "conv" || has_flag(node, "transposed") || node.attributes.count("same")) continue;
    const int producer = links.producer(node.inputs[0]);
    const ValueFacts *x = r.fact(node.inputs[0]), *w = r.fact(node.inputs[1]);
    if (producer < 0 || !x || !w || !is_floating(x->dtype)) continue;
    const auto rank = static_cast<size_t>(x->shape.size());
    const NetGraph::Node& pad = r.graph.nodes[static_cast<size_t>(producer)];
    const auto widths = zeros_around(r, pad, rank);
    if (!widths) continue;
    std::vector<int64_t> begin = integers(node, "pad_begin"), end = integers(node, "pad_end");
    if (begin.empty()) begin.resize(rank - 2);
    if (end.empty()) end = begin;
    if (begin.size() != rank - 2 || end.size() != rank - 2) continue;
    for (size_t i = 0; i + 2 < rank; i++) {
      begin[i] += (*widths)[i + 2];
      end[i] += (*widths)[rank + i + 2];
    }
    node.attributes.insert_or_assign("pad_begin", begin);
    node.attributes.insert_or_assign("pad_end", end);
    node.inputs[0] = pad.inputs[0];
  }
}

}  // namespace dlprim::detail
