// Rotary embeddings, written out as exporters do, become one node:
//   y = x * cos + turned * sin;  turned = concat(-second, first) of the halves of x's last axis,
// where cos and sin have two equal halves; or with pairs that lie side by side, where turned is -odd and even
// elements in turn, and cos and sin have each number twice. x is [B, H, L, D], or [B, L, H, D]. Where only
// the first of more numbers are turned and the others put behind them, that is in the node, too. What
// nobody reads any more goes.
#include <algorithm>
#include <map>

#include <dlprim/net_host.hpp>

#include "net/passes/parts.hpp"

namespace dlprim::detail {
namespace {

constexpr int kRank = 4;

const Shape* shape_of(const Rewritten& r, int value) {
  const ValueFacts* fact = r.fact(value);
  return fact && !fact->shape.empty() ? &fact->shape : nullptr;
}
const NetGraph::Node* node_that_gives(const Rewritten& r, const Links& links, int value) {
  const int producer = links.producer(value);
  return producer < 0 ? nullptr : &r.graph.nodes[static_cast<size_t>(producer)];
}
/// Of a concat: along the last axis.
bool joins_last(const Rewritten& r, const NetGraph::Node& node) {
  const auto* axis = attribute<int64_t>(node, "axis");
  const Shape* y = shape_of(r, node.outputs[0]);
  return y && (axis ? *axis : 0) + (axis && *axis < 0 ? y->size() : 0) == y->size() - 1;
}
/// The reshape or flatten of [..., n, 2] to [..., 2 n] that gives the value, or null.
const NetGraph::Node* flattening(const Rewritten& r, const Links& links, int value) {
  const NetGraph::Node* node = node_that_gives(r, links, value);
  if (!node || (node->kind != "reshape" && node->kind != "flatten")) return nullptr;
  const Shape *x = shape_of(r, node->inputs[0]), *y = shape_of(r, value);
  if (!x || !y || x->back() != 2 || x->size() != y->size() + 1) return nullptr;
  for (int i = 0; i + 1 < y->size(); i++)
    if ((*x)[i] != (*y)[i]) return nullptr;
  return node;
}

/// Cosines and sines that have each number twice along their last axis: in two halves, or side by side.
class Tables {
 public:
  Tables(Rewritten& r, const Links& links) : r_(r), links_(links) {}

  /// How a table comes to be of one that has each number once. Between them are only nodes that treat each
  /// number alike, or pick rows.
  struct Origin {
    int table = NetGraph::kNone;
    bool pairs = false;
    int once = NetGraph::kNone;  ///< has each number once; kNone: the constant is to be halved
    int constant = NetGraph::kNone;
    std::vector<NetGraph::Node> nodes;  ///< that follow it, the last first
  };
  std::optional<Origin> find(int table, bool pairs) const {
    Origin origin;
    origin.table = table, origin.pairs = pairs;
    bool rows = false;
    for (int value = table;;) {
      if (const HostTensor* constant = r_.constant(value)) {
        origin.constant = value;
        return twice(*constant, pairs) ? std::optional<Origin>(origin) : std::nullopt;
      }
      origin.once = pairs ? under_pairs(value) : under_halves(value);
      if (origin.once != NetGraph::kNone) return origin;
      const NetGraph::Node* node = node_that_gives(r_, links_, value);
      if (!node || node->outputs.size() != 1 || node->inputs.empty() || !shape_of(r_, value))
        return std::nullopt;
      int from = node->inputs[0];
      const bool keeps = node->kind == "unsqueeze" || node->kind == "squeeze";
      if (node->kind == "elementwise")
        from = varying(*node);
      else if (node->kind == "gather" && !rows && picks_rows(*node))
        rows = true;
      else if (node->kind != "cast" && !(keeps && !rows))
        return std::nullopt;
      const Shape *x = from == NetGraph::kNone ? nullptr : shape_of(r_, from), *y = shape_of(r_, value);
      if (!x || x->back() != y->back() || x->back() < 2) return std::nullopt;
      if (!keeps) origin.nodes.push_back(*node);
      value = from;
    }
  }

  /// The table with each number once, in that shape.
  int make(const Origin& origin, const Shape& shape, std::vector<NetGraph::Node>& nodes) {
    int& value = tables_[{origin.table, origin.pairs}];
    if (value > 0) return value;
    int at = origin.once != NetGraph::kNone
                 ? origin.once
                 : r_.add_constant(halved(*r_.constant(origin.constant), origin.pairs));
    for (size_t i = origin.nodes.size(); i-- > 0;) {
      NetGraph::Node node = origin.nodes[i];
      ValueFacts known{r_.fact(node.outputs[0])->dtype, r_.fact(at)->shape};
      const int from = node.kind == "elementwise" ? varying(node) : node.inputs[0];
      if (node.kind == "gather") known.shape = rows_of(*r_.fact(node.inputs[1]), known.shape);
      std::replace(node.inputs.begin(), node.inputs.end(), from, at);
      at = r_.add_value(known);
      node.outputs = {at};
      nodes.push_back(std::move(node));
    }
    if (r_.fact(at)->shape != shape) {
      const int sizes = r_.add_constant(
          host_tensor(DType::i64, {shape.size()}, std::vector<int64_t>(shape.begin(), shape.end())));
      const int y = r_.add_value({r_.fact(at)->dtype, shape});
      nodes.push_back(node_of("reshape", {at, sizes}, y, {{"allow_zero", true}}));
      at = y;
    }
    return value = at;
  }

 private:
  /// The only input of an elementwise node that is not one constant number, or kNone.
  int varying(const NetGraph::Node& node) const {
    int varying = NetGraph::kNone;
    for (int value : node.inputs) {
      const HostTensor* constant = r_.constant(value);
      if (constant && element_count(constant->shape) == 1) continue;
      if (varying != NetGraph::kNone) return NetGraph::kNone;
      varying = value;
    }
    const ValueFacts *x = r_.fact(varying), *y = r_.fact(node.outputs[0]);
    return x && y && x->shape == y->shape ? varying : NetGraph::kNone;
  }
  bool picks_rows(const NetGraph::Node& node) const {
    const auto* axis = attribute<int64_t>(node, "axis");
    const Shape* x = shape_of(r_, node.inputs[0]);
    return x && x->size() == 2 && (!axis || *axis == 0 || *axis == -2) && r_.fact(node.inputs[1]);
  }
  static Shape rows_of(const ValueFacts& indices, const Shape& x) {
    Shape shape = indices.shape;
    for (int i = 1; i < x.size(); i++) shape.push_back(x[i]);
    return shape;
  }

  /// What is joined with itself along the last axis.
  int under_halves(int value) const {
    const NetGraph::Node* node = node_that_gives(r_, links_, value);
    const bool twice = node && node->kind == "concat" && node->inputs.size() == 2 &&
                       node->inputs[0] == node->inputs[1] && joins_last(r_, *node);
    return twice && shape_of(r_, node->inputs[0]) ? node->inputs[0] : NetGraph::kNone;
  }
  /// What is [..., n, 1] and was stretched to [..., n, 2], which is the value's [..., 2 n].
  int under_pairs(int value) const {
    const NetGraph::Node* flat = flattening(r_, links_, value);
    const NetGraph::Node* wide = flat ? node_that_gives(r_, links_, flat->inputs[0]) : nullptr;
    if (!wide || wide->inputs.empty() || wide->outputs.size() != 1) return NetGraph::kNone;
    if (wide->kind == "concat") {
      const int column = under_halves(flat->inputs[0]);
      return column != NetGraph::kNone && shape_of(r_, column)->back() == 1 ? column : NetGraph::kNone;
    }
    if (wide->kind != "tile" && wide->kind != "expand") return NetGraph::kNone;
    const Shape* column = shape_of(r_, wide->inputs[0]);
    if (!column || column->back() != 1) return NetGraph::kNone;
    Shape stretched = *column;
    stretched[stretched.size() - 1] = 2;
    return stretched == r_.fact(flat->inputs[0])->shape ? wide->inputs[0] : NetGraph::kNone;
  }

  /// Where in a row of `width` numbers the two that are to be equal lie.
  static std::pair<int64_t, int64_t> places(int64_t i, int64_t width, bool pairs) {
    return pairs ? std::make_pair(2 * i, 2 * i + 1) : std::make_pair(i, i + width / 2);
  }
  template <class F>
  static void for_pairs(const HostTensor& table, bool pairs, F f) {
    const int64_t width = table.shape.back(), rows = element_count(table.shape) / width;
    const auto size = static_cast<int64_t>(size_of(table.dtype));
    for (int64_t row = 0; row < rows; row++)
      for (int64_t i = 0; i < width / 2; i++) {
        const auto [a, b] = places(i, width, pairs);
        f(table.data.data() + (row * width + a) * size, table.data.data() + (row * width + b) * size);
      }
  }
  static bool twice(const HostTensor& table, bool pairs) {
    if (table.shape.empty() || table.shape.back() < 2 || table.shape.back() % 2 != 0 || table.data.empty())
      return false;
    bool equal = true;
    const size_t size = size_of(table.dtype);
    for_pairs(table, pairs, [&](const unsigned char* a, const unsigned char* b) {
      equal = equal && std::equal(a, a + size, b);
    });
    return equal;
  }
  static HostTensor halved(const HostTensor& table, bool pairs) {
    HostTensor half;
    half.dtype = table.dtype;
    half.shape = table.shape;
    half.shape[half.shape.size() - 1] /= 2;
    for_pairs(table, pairs, [&](const unsigned char* a, const unsigned char*) {
      half.data.insert(half.data.end(), a, a + size_of(table.dtype));
    });
    return half;
  }

  Rewritten& r_;
  const Links& links_;
  std::map<std::pair<int, bool>, int> tables_;  ///< those that were made
};

class Rotary {
 public:
  explicit Rotary(Rewritten& r) : r_(r), links_(r.graph), tables_(r, links_) {}

  void run() {
    for (size_t n = 0; n < r_.graph.nodes.size(); n++) {
      const NetGraph::Node node = r_.graph.nodes[n];
      if (!take_sum(node) && !take_concat(node, static_cast<int>(n))) made_.push_back(node);
    }
    r_.graph.nodes = std::move(made_);
  }

 private:
  /// What an embedding was found to be.
  struct Found {
    int x, cos, sin;
    bool pairs;  ///< side by side
  };
  struct Turned {
    int x;
    bool pairs;
  };

  const NetGraph::Node* made_by(int value) const { return node_that_gives(r_, links_, value); }
  /// The node that gives the value, of that kind and so many inputs, or null.
  const NetGraph::Node* made_by(int value, const std::string& kind, size_t inputs) const {
    const NetGraph::Node* node = made_by(value);
    return node && node->kind == kind && node->inputs.size() == inputs ? node : nullptr;
  }
  const NetGraph::Node* made_by_function(int value, const std::string& function) const {
    const NetGraph::Node* node = made_by(value);
    return node && plain_function(*node) == function ? node : nullptr;
  }
  const Shape* shape(int value) const { return shape_of(r_, value); }
  std::optional<Part> part_of_last(int value) const {
    const auto part = part_of(r_, links_, value);
    return part && !part->single && part->axis == shape(part->x)->size() - 1 ? part : std::nullopt;
  }

  /// x, if the two are -second and first of its halves, or -odd and even of its elements.
  std::optional<Turned> turned_of(int negative, int other, bool pairs) const {
    const NetGraph::Node* neg = made_by_function(negative, "neg");
    const auto second = neg ? part_of_last(neg->inputs[0]) : std::nullopt;
    const auto first = part_of_last(other);
    if (!first || !second || first->x != second->x) return std::nullopt;
    const int64_t width = shape(first->x)->back(), half = width / 2;
    const bool fits = width % 2 == 0 && first->start == 0 && first->count == half && second->count == half &&
                      (half == 1 || (first->step == (pairs ? 2 : 1) && second->step == first->step)) &&
                      second->start == (pairs ? 1 : half);
    return fits ? std::optional<Turned>({first->x, pairs}) : std::nullopt;
  }
  std::optional<Turned> turned(int value) const {
    if (const NetGraph::Node* halves = made_by(value, "concat", 2))
      return joins_last(r_, *halves) ? turned_of(halves->inputs[0], halves->inputs[1], false) : std::nullopt;
    const NetGraph::Node* flat = flattening(r_, links_, value);
    const NetGraph::Node* stack = flat ? made_by(flat->inputs[0], "concat", 2) : nullptr;
    if (!stack || !joins_last(r_, *stack)) return std::nullopt;
    int sides[2];
    for (size_t k = 0; k < 2; k++) {
      const NetGraph::Node* column = made_by(stack->inputs[k]);
      const Shape* y = shape(stack->inputs[k]);
      if (!column || column->kind != "unsqueeze" || !y || y->back() != 1) return std::nullopt;
      const Shape* x = shape(column->inputs[0]);
      if (!x || x->back() != (*y)[y->size() - 2]) return std::nullopt;
      sides[k] = column->inputs[0];
    }
    return turned_of(sides[0], sides[1], true);
  }
  std::optional<Found> found(const NetGraph::Node& sum) const {
    for (size_t k = 0; k < 2; k++) {
      const NetGraph::Node *straight = made_by_function(sum.inputs[k], "mul"),
                           *across = made_by_function(sum.inputs[1 - k], "mul");
      if (!straight || !across) continue;
      for (size_t t = 0; t < 2; t++) {
        const auto x = turned(across->inputs[t]);
        if (!x || (straight->inputs[0] != x->x && straight->inputs[1] != x->x)) continue;
        return Found{x->x, other_input(*straight, x->x), across->inputs[1 - t], x->pairs};
      }
    }
    return std::nullopt;
  }

  /// The axis of x's heads, along which the tables are of size 1; 0 if they are no such tables.
  static int heads_axis(const Shape& table, const Shape& x) {
    if (table.size() < 2 || table.size() > kRank) return 0;
    Shape full = Shape::filled(kRank, 1);
    for (int i = 0; i < table.size(); i++) full[kRank - table.size() + i] = table[i];
    if ((full[0] != 1 && full[0] != x[0]) || full[3] != x[3]) return 0;
    for (int heads : {1, 2})
      if (full[heads] == 1 && full[3 - heads] == x[3 - heads]) return heads;
    return 0;
  }

  /// The node's output is an embedding: the nodes that compute it are made.
  bool take_sum(const NetGraph::Node& sum) {
    if (plain_function(sum) != "add" || sum.inputs.size() != 2 || sum.outputs.size() != 1) return false;
    const auto parts = found(sum);
    if (!parts) return false;
    const ValueFacts *x = r_.fact(parts->x), *y = r_.fact(sum.outputs[0]), *cos = r_.fact(parts->cos),
                     *sin = r_.fact(parts->sin);
    if (!y || !cos || !sin || !is_floating(x->dtype) || x->shape.size() != kRank || y->shape != x->shape ||
        y->dtype != x->dtype || cos->dtype != x->dtype || sin->dtype != x->dtype || cos->shape != sin->shape)
      return false;
    Embedding e;
    e.x = parts->x, e.pairs = parts->pairs, e.heads = heads_axis(cos->shape, x->shape);
    const auto half_cos = tables_.find(parts->cos, e.pairs), half_sin = tables_.find(parts->sin, e.pairs);
    if (e.heads == 0 || !half_cos || !half_sin) return false;
    const int64_t length = x->shape[3 - e.heads], half = x->shape[3] / 2;
    const Shape full{element_count(cos->shape) / (length * 2 * half), length, half};
    e.cos = tables_.make(*half_cos, full, made_);
    e.sin = tables_.make(*half_sin, full, made_);
    put(e, 0, sum);
    embeddings_[sum.outputs[0]] = e;
    return true;
  }

  /// An embedding, and behind it what x has further.
  bool take_concat(const NetGraph::Node& node, int n) {
    if (node.kind != "concat" || node.inputs.size() != 2 || !joins_last(r_, node)) return false;
    const auto found = embeddings_.find(node.inputs[0]);
    if (found == embeddings_.end() || links_.only_reader(node.inputs[0]) != n) return false;
    const auto front = part_of_last(found->second.x), back = part_of_last(node.inputs[1]);
    if (!front || !back || front->x != back->x || front->step != 1 || (back->step != 1 && back->count != 1) ||
        front->start != 0 || back->start != front->count ||
        front->count + back->count != shape(front->x)->back() ||
        r_.fact(back->x)->dtype != r_.fact(node.outputs[0])->dtype)
      return false;
    Embedding e = found->second;
    e.x = front->x;
    put(e, front->count, node);
    return true;
  }

  struct Embedding {
    int x = NetGraph::kNone, cos = NetGraph::kNone, sin = NetGraph::kNone, heads = 1;
    bool pairs = false;
  };
  /// The embedding gives what the node gave. `width`: how many numbers are turned; 0: all.
  void put(const Embedding& e, int64_t width, const NetGraph::Node& node) {
    const Attribute::Integers exchanged{0, 2, 1, 3};
    const bool turn = e.heads == 2;
    int x = e.x, y = node.outputs[0];
    if (turn) {
      ValueFacts known = *r_.fact(x);
      std::swap(known.shape[1], known.shape[2]);
      x = r_.add_value(known), y = r_.add_value(known);
      made_.push_back(node_of("transpose", {e.x}, x, {{"axes", exchanged}}));
    }
    made_.push_back(node_of("rotary", {x, e.cos, e.sin}, y, {{"interleaved", e.pairs}, {"width", width}}));
    made_.back().name = node.name;
    if (turn) made_.push_back(node_of("transpose", {y}, node.outputs[0], {{"axes", exchanged}}));
  }

  Rewritten& r_;
  const Links links_;
  Tables tables_;
  std::vector<NetGraph::Node> made_;
  std::map<int, Embedding> embeddings_;  ///< by what they give
};

}  // namespace

void recognise_rotary(Rewritten& r) {
  Rotary(r).run();
}

}  // namespace dlprim::detail
