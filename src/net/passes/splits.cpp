// Gathers and slices of one tensor that together cover an axis, each element once and in order, are one
// split; a gather of one place, or of places that follow one another, is a slice. Both give views, where a
// gather copies. Only of floating tensors of two axes or more: sizes and axes are computed on the host, which
// knows no split.
#include <map>

#include <dlprim/net_host.hpp>

#include "net/passes/parts.hpp"

namespace dlprim::detail {
namespace {

class Splits {
 public:
  explicit Splits(Rewritten& r) : r_(r), links_(r.graph) {}

  void run() {
    for (size_t n = 0; n < r_.graph.nodes.size(); n++) find(n);
    std::vector<NetGraph::Node> nodes = std::move(r_.graph.nodes);
    for (size_t n = 0; n < nodes.size(); n++) {
      const auto found = parts_.find(n);
      if (found == parts_.end())
        made_.push_back(std::move(nodes[n]));
      else
        replace(nodes[n], found->second);
    }
    r_.graph.nodes = std::move(made_);
  }

 private:
  using Key = std::pair<int, int>;            // a value and its axis
  using Range = std::pair<int64_t, int64_t>;  // start and count

  void find(size_t n) {
    const NetGraph::Node& node = r_.graph.nodes[n];
    if ((node.kind != "gather" && node.kind != "slice") || node.outputs.size() != 1) return;
    const auto part = part_of(r_, links_, node.outputs[0]);
    const ValueFacts* x = part ? r_.fact(part->x) : nullptr;
    if (!x || part->step != 1 || !is_floating(x->dtype) || x->shape.size() < 2 || !r_.fact(node.outputs[0]))
      return;
    parts_.emplace(n, *part);
    if (part->count < x->shape[part->axis])
      ranges_[{part->x, part->axis}].emplace(Range{part->start, part->count}, NetGraph::kNone);
  }

  /// Whether the ranges are all of the axis.
  static bool cover(const std::map<Range, int>& ranges, int64_t size) {
    int64_t at = 0;
    for (const auto& [range, value] : ranges) {
      if (range.first != at) return false;
      at += range.second;
    }
    return at == size;
  }

  void replace(NetGraph::Node& node, const Part& part) {
    const int from = view(node, part);
    if (from == NetGraph::kNone)
      made_.push_back(std::move(node));
    else if (part.single)
      made_.push_back(
          node_of("squeeze", {from}, node.outputs[0], {{"axes", Attribute::Integers{part.axis}}}));
    else
      made_.push_back(node_of("identity", {from}, node.outputs[0]));
    made_.back().name = node.name;
  }

  /// The part with its axis; kNone for a slice that is no part of a split, which is a view itself.
  int view(const NetGraph::Node& node, const Part& part) {
    const ValueFacts x = *r_.fact(part.x);
    if (part.count == x.shape[part.axis]) return part.x;
    std::map<Range, int>& ranges = ranges_.at({part.x, part.axis});
    int& value = ranges.at({part.start, part.count});
    if (value != NetGraph::kNone) return value;
    if (cover(ranges, x.shape[part.axis])) {
      split(part, x, ranges);
    } else if (node.kind == "gather") {
      const auto constant = [&](int64_t number) {
        return r_.add_constant(host_tensor(DType::i64, {1}, std::vector<int64_t>{number}));
      };
      const int start = constant(part.start), end = constant(part.start + part.count),
                axis = constant(part.axis);
      value = r_.add_value(cut(x, part.axis, part.count));
      made_.push_back(node_of("slice", {part.x, start, end, axis}, value));
      made_.back().name = node.name;
    }
    return value;
  }

  void split(const Part& part, const ValueFacts& x, std::map<Range, int>& ranges) {
    NetGraph::Node node;
    node.kind = "split";
    node.inputs = {part.x};
    Attribute::Integers sizes;
    for (auto& [range, value] : ranges) {
      value = r_.add_value(cut(x, part.axis, range.second));
      node.outputs.push_back(value);
      sizes.push_back(range.second);
    }
    node.attributes = {{"axis", part.axis}, {"sizes", std::move(sizes)}};
    made_.push_back(std::move(node));
  }
  static ValueFacts cut(ValueFacts x, int axis, int64_t count) {
    x.shape[axis] = count;
    return x;
  }

  Rewritten& r_;
  const Links links_;
  std::map<size_t, Part> parts_;                ///< of nodes
  std::map<Key, std::map<Range, int>> ranges_;  ///< and the view of each, once it is there
  std::vector<NetGraph::Node> made_;
};

}  // namespace

void join_splits(Rewritten& r) {
  Splits(r).run();
}

}  // namespace dlprim::detail
