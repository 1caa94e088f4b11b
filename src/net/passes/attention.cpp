// Attention that is written out becomes one node:
//   softmax(scale q k^T [+ mask]) v, for each sample and head: [B, H, L, D], or [N, L, D]
// The factor may stand on q, on k or behind the product; a mask is added; what guards against rows without
// anything, where(is_nan(w), 0, w), goes; heads of k and v that were repeated for several of q are not.
// Masks of causal attention become one constant for all nodes of a size.
#include <array>
#include <set>

#include <dlprim/net_host.hpp>

#include "net/passes/pass.hpp"

namespace dlprim::detail {
namespace {

using Integers = std::vector<int64_t>;

class Attentions {
 public:
  explicit Attentions(Rewritten& r) : r_(r), links_(r.graph) {
    for (const NetGraph::Node& node : r.graph.nodes)
      for (int value : node.inputs)
        if (value != NetGraph::kNone) readers_[value].insert(&node - r.graph.nodes.data());
    for (int value : r.graph.outputs) readers_[value].insert(-1);
  }

  /// Whether node `n` is a softmax of scores; then what belongs to it is one node.
  void take(size_t n) {
    const NetGraph::Node& softmax = node_at(n);
    if (softmax.kind != "softmax" || has_flag(softmax, "log") || has_flag(softmax, "to_end")) return;
    const ValueFacts* scores = r_.fact(softmax.inputs[0]);
    const auto* axis = attribute<int64_t>(softmax, "axis");
    const int rank = scores ? scores->shape.size() : 0;
    if ((rank != 3 && rank != 4) || !is_floating(scores->dtype) || (axis && *axis != -1 && *axis != rank - 1))
      return;
    Found found;
    if (take_weights(n, found) && take_scores(softmax.inputs[0], found)) replace(found);
  }

  void finish() { put_in_front(r_.graph, std::move(in_front_)); }

 private:
  struct Found {
    std::vector<size_t> members;  ///< nodes that go
    size_t last = 0;              ///< the product with v, in whose place the new node is
    int q = NetGraph::kNone, k = q, v = q, mask = q;
    bool k_lies_across = true;  ///< k is [.., D, S]
    double scale = 1;
  };

  NetGraph::Node& node_at(size_t n) { return r_.graph.nodes[n]; }

  /// The node that computes the value, if one does and only `reader` reads it; else null.
  const NetGraph::Node* made_for(int value, size_t reader) {
    const int producer = links_.producer(value);
    if (producer < 0 || links_.only_reader(value) != static_cast<int>(reader)) return nullptr;
    const NetGraph::Node& node = node_at(static_cast<size_t>(producer));
    return node.outputs.size() == 1 ? &node : nullptr;
  }
  size_t place(const NetGraph::Node* node) const { return static_cast<size_t>(node - r_.graph.nodes.data()); }
  static bool is_plain_product(const NetGraph::Node& node) {
    return node.kind == "matmul" && node.inputs.size() == 2 && node.outputs.size() == 1 &&
           node.attributes.empty();
  }
  /// What may be a factor: a constant number that changes no dtype.
  std::optional<double> number(int value) const {
    const HostTensor* constant = r_.constant(value);
    return constant && is_floating(constant->dtype) ? r_.number(value) : std::nullopt;
  }

  /// Behind the softmax: the product with v, past a guard.
  bool take_weights(size_t n, Found& found) {
    found.members = {n};
    int weights = node_at(n).outputs[0];
    if (const auto guard = guard_of(weights)) {
      found.members.insert(found.members.end(), guard->begin(), guard->end());
      weights = node_at((*guard)[1]).outputs[0];
    }
    const int reader = links_.only_reader(weights);
    if (reader < 0) return false;
    found.last = static_cast<size_t>(reader);
    const NetGraph::Node& product = node_at(found.last);
    if (!is_plain_product(product) || product.inputs[0] != weights || product.inputs[1] == weights)
      return false;
    found.v = product.inputs[1];
    const ValueFacts *v = r_.fact(found.v), *w = r_.fact(weights), *y = r_.fact(product.outputs[0]);
    return v && w && y && v->shape.size() == w->shape.size() && same_heads(v->shape, w->shape) &&
           v->dtype == w->dtype;
  }
  static bool same_heads(const Shape& a, const Shape& b) {
    for (int i = 0; i + 2 < a.size(); i++)
      if (a[i] != b[i]) return false;
    return true;
  }

  /// is_nan(w) and where(that, 0, w), which alone read w.
  std::optional<std::array<size_t, 2>> guard_of(int weights) {
    const std::set<std::ptrdiff_t>& readers = readers_[weights];
    if (readers.size() != 2 || *readers.begin() < 0) return {};
    const auto first = static_cast<size_t>(*readers.begin()), second = static_cast<size_t>(*readers.rbegin());
    const NetGraph::Node &asks = node_at(first), &chooses = node_at(second);
    if (plain_function(asks) != "is_nan" || plain_function(chooses) != "where" ||
        links_.only_reader(asks.outputs[0]) != static_cast<int>(second) ||
        chooses.inputs[0] != asks.outputs[0] || number(chooses.inputs[1]) != 0.0 ||
        chooses.inputs[2] != weights)
      return {};
    return std::array<size_t, 2>{first, second};
  }

  /// In front of the softmax: a mask, a factor, the product of q and k.
  bool take_scores(int value, Found& found) {
    const Shape shape = r_.fact(value)->shape;
    size_t reader = found.members[0];
    const NetGraph::Node* node = made_for(value, reader);
    if (node && plain_function(*node) == "add" && node->inputs[0] != node->inputs[1]) {
      const size_t adds = place(node);
      for (size_t k = 0; k < 2; k++) {
        const NetGraph::Node* before = made_for(node->inputs[k], adds);
        const ValueFacts* mask = r_.fact(node->inputs[1 - k]);
        if (!before || !leads_to_product(*before) || r_.fact(node->inputs[k])->shape != shape || !mask ||
            mask->shape.empty() || !is_floating(mask->dtype))
          continue;
        found.mask = node->inputs[1 - k];
        found.members.push_back(adds);
        node = before, reader = adds;
        break;
      }
    }
    if (node && !is_plain_product(*node)) {
      found.members.push_back(place(node));
      const int inner = factor_of(*node, found.scale);
      node = inner == NetGraph::kNone ? nullptr : made_for(inner, found.members.back());
    }
    if (!node || !is_plain_product(*node)) return false;
    found.members.push_back(place(node));
    return take_operands(*node, found) && r_.fact(node->outputs[0])->shape == shape;
  }
  bool leads_to_product(const NetGraph::Node& node) {
    if (is_plain_product(node)) return true;
    double scale = 1;
    const int inner = factor_of(node, scale);
    const NetGraph::Node* before = inner == NetGraph::kNone ? nullptr : made_for(inner, place(&node));
    return before && is_plain_product(*before);
  }

  /// The value that the node multiplies by a constant number, which goes into `scale`; or none.
  int factor_of(const NetGraph::Node& node, double& scale) const {
    const std::string function = plain_function(node);
    if ((function != "mul" && function != "div") || node.inputs.size() != 2) return NetGraph::kNone;
    const auto right = number(node.inputs[1]);
    if (right && function == "div" && *right != 0) return scale /= *right, node.inputs[0];
    if (right && function == "mul") return scale *= *right, node.inputs[0];
    const auto left = number(node.inputs[0]);
    return left && function == "mul" ? (scale *= *left, node.inputs[1]) : NetGraph::kNone;
  }

  /// q and k without their factors; k as it lay before it was turned; k and v without repetitions.
  bool take_operands(const NetGraph::Node& product, Found& found) {
    const auto without_factor = [&](int value) {
      const NetGraph::Node* node = made_for(value, place(&product));
      const int inner = node ? factor_of(*node, found.scale) : NetGraph::kNone;
      return inner == NetGraph::kNone || r_.fact(inner)->shape != r_.fact(value)->shape ? value : inner;
    };
    const ValueFacts *left = r_.fact(product.inputs[0]), *right = r_.fact(product.inputs[1]);
    if (!left || !right || left->shape.size() != right->shape.size() ||
        !same_heads(left->shape, right->shape) || left->dtype != right->dtype)
      return false;
    found.q = without_factor(product.inputs[0]);
    found.k = without_factor(product.inputs[1]);
    if (const int turned = swapped(found.k); turned != NetGraph::kNone) {
      found.k = turned;
      found.k_lies_across = false;
      const auto [k, v] = std::pair(unrepeated(found.k), unrepeated(found.v));
      if (k != NetGraph::kNone && v != NetGraph::kNone && r_.fact(k)->shape[1] == r_.fact(v)->shape[1])
        found.k = k, found.v = v;
    }
    return true;
  }

  /// What the value is with its last two axes exchanged, if a node does that; or none.
  int swapped(int value) const {
    const int producer = links_.producer(value);
    if (producer < 0) return NetGraph::kNone;
    const NetGraph::Node& node = r_.graph.nodes[static_cast<size_t>(producer)];
    const auto* axes = attribute<Integers>(node, "axes");
    if (node.kind != "transpose" || !axes) return NetGraph::kNone;
    const Integers three{0, 2, 1}, four{0, 1, 3, 2};
    return *axes == three || *axes == four ? node.inputs[0] : NetGraph::kNone;
  }

  /// [B, K, S, D] of the value if that is [B, K * G, S, D] with each head G times: expanded as [B, K, G, S,
  /// D].
  int unrepeated(int value) const {
    const auto from = [&](int of, const char* kind) {
      const int producer = links_.producer(of);
      if (producer < 0) return NetGraph::kNone;
      const NetGraph::Node& node = r_.graph.nodes[static_cast<size_t>(producer)];
      return node.kind == kind ? node.inputs[0] : NetGraph::kNone;
    };
    const int expanded = from(value, "reshape"), single = from(expanded, "expand");
    int x = from(single, "unsqueeze");
    if (x == NetGraph::kNone) x = from(single, "reshape");
    const ValueFacts *all = r_.fact(value), *five = r_.fact(expanded), *one = r_.fact(single),
                     *own = r_.fact(x);
    if (!all || !five || !one || !own || own->shape.size() != 4 || all->shape.size() != 4)
      return NetGraph::kNone;
    const Shape& s = own->shape;
    const int64_t groups = s[1] == 0 ? 0 : all->shape[1] / s[1];
    const bool repeats = one->shape == Shape{s[0], s[1], 1, s[2], s[3]} &&
                         five->shape == Shape{s[0], s[1], groups, s[2], s[3]} &&
                         all->shape == Shape{s[0], s[1] * groups, s[2], s[3]};
    return repeats ? x : NetGraph::kNone;
  }

  /// A node in front of node `n`, whose result has that shape and the input's dtype.
  int put(size_t n, const char* kind, int input, Attributes attributes, const Shape& shape) {
    const int y = r_.add_value({r_.fact(input)->dtype, shape});
    in_front_[n].push_back(node_of(kind, {input}, y, std::move(attributes)));
    return y;
  }

  void replace(Found& found) {
    if (found.k_lies_across) {
      Shape turned = r_.fact(found.k)->shape;
      const int rank = turned.size();
      std::swap(turned[rank - 1], turned[rank - 2]);
      found.k = put(found.last, "transpose", found.k,
                    {{"axes", rank == 3 ? Integers{0, 2, 1} : Integers{0, 1, 3, 2}}}, turned);
    }
    NetGraph::Node& product = node_at(found.last);
    const bool one_batch = r_.fact(found.q)->shape.size() == 3;
    const auto as_four = [&](int value) {
      const Shape& s = r_.fact(value)->shape;
      return one_batch ? put(found.last, "unsqueeze", value, {{"axes", Integers{0}}}, {1, s[0], s[1], s[2]})
                       : value;
    };
    std::vector<int> inputs{as_four(found.q), as_four(found.k), as_four(found.v)};
    if (found.mask != NetGraph::kNone) inputs.push_back(found.mask);
    const int y = product.outputs[0];
    const ValueFacts known = *r_.fact(y);
    const Shape& s = known.shape;
    const int own = one_batch ? r_.add_value({known.dtype, {1, s[0], s[1], s[2]}}) : y;
    NetGraph::Node node = node_of("attention", std::move(inputs), own, {{"scale", found.scale}});
    node.name = product.name;
    for (size_t member : found.members) node_at(member).outputs.clear();
    if (one_batch) in_front_[found.last].push_back(std::move(node));
    product = one_batch ? node_of("squeeze", {own}, y, {{"axes", Integers{0}}}) : std::move(node);
  }

  Rewritten& r_;
  const Links links_;
  std::map<int, std::set<std::ptrdiff_t>> readers_;
  std::map<size_t, std::vector<NetGraph::Node>> in_front_;  ///< nodes that were made
};

/// Truths below the diagonal, in the place of the flag: the rule of each row is the same in all nodes.
void share_causal_masks(Rewritten& r) {
  constexpr int64_t kMost = 1 << 22;
  std::map<std::pair<int64_t, int64_t>, int> masks;
  for (NetGraph::Node& node : r.graph.nodes) {
    const bool backward = node.kind == "attention_backward";
    if ((node.kind != "attention" && !backward) || !has_flag(node, "causal")) continue;
    constexpr size_t kMask = 3;
    const auto left_out = [&](size_t k) {
      return k >= node.inputs.size() || node.inputs[k] == NetGraph::kNone;
    };
    const ValueFacts *q = r.fact(node.inputs[0]), *k = r.fact(node.inputs[1]);
    const bool scores = !backward && node.outputs.size() > 3 && node.outputs[3] != NetGraph::kNone;
    if (!q || !k || scores || !left_out(3) || !left_out(4) || !left_out(5) || !left_out(6)) continue;
    const auto places = [](const Shape& s) { return s[s.size() == 3 ? 1 : 2]; };
    const int64_t rows = places(q->shape), columns = places(k->shape);
    if (rows * columns > kMost) continue;
    auto [found, is_new] = masks.try_emplace({rows, columns}, NetGraph::kNone);
    if (is_new) {
      std::vector<double> truths;
      for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++) truths.push_back(j <= i ? 1 : 0);
      found->second = r.add_constant(host_tensor(DType::boolean, {rows, columns}, truths));
    }
    if (node.inputs.size() <= kMask) node.inputs.resize(kMask + 1, NetGraph::kNone);
    node.inputs[kMask] = found->second;
    node.attributes.erase("causal");
  }
}

}  // namespace

void recognise_attention(Rewritten& r) {
  Attentions attentions(r);
  for (size_t n = 0; n < r.graph.nodes.size(); n++) attentions.take(n);
  attentions.finish();
  share_causal_masks(r);
}

}  // namespace dlprim::detail
