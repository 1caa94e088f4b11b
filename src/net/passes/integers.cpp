// Products of quantised tensors multiply their integers: matmul(dequantize(x), dequantize(w)), where x and w
// are i8 or u8, becomes a product of i8 with sums in i32, and what zeros add to it:
//   sum (x - zx)(w - zw) = sum x w - zx sum (w - zw) - zw sum x
// Each term is left out where its zero is known to be 0. What is u8 becomes i8, its zero with it, by taking
// 128 off. Scales come last: one for all of x, and for w one for all or for each column.
//   Of whole numbers (ONNX's MatMulInteger and QLinearMatMul) this is done everywhere, for they would be
// multiplied in f64, and the result is the same. Of floating ones where the device multiplies i8 by matrix
// hardware (Rewritten::integer_products): on CPUs f32 is faster. Sums are exact then, and rounded three
// times, as f32 and by each scale: the result errs by 3 * 2^-24 of itself, where the product of what was
// dequantised errs by (K + 2) 2^-24 of the sum of magnitudes. If it is quantised, that may be another number,
// a neighbour.
//   Other products stay as they are: with zeros or scales for each row or block, or so deep that sums could
// pass what i32 holds.
#include <algorithm>
#include <limits>

#include <dlprim/net_host.hpp>

#include "core/text.hpp"
#include "net/passes/pass.hpp"

namespace dlprim::detail {
namespace {

constexpr int64_t kMiddle = 128;  // what is taken off u8

/// An operand as it was before it was dequantised, and turned.
struct Quantised {
  int numbers = NetGraph::kNone, scale = NetGraph::kNone, zero = NetGraph::kNone;
  DType dtype = DType::i8;    ///< of numbers and zero
  bool zero_is_zero = false;  ///< of the i8 that it becomes
  std::vector<int64_t> axes;  ///< of the transpose behind it, if there is one
};

/// Inputs of an expression, by the names that they have there.
class Expression {
 public:
  std::string operator()(int value) {
    inputs.push_back(value);
    return cat("x", inputs.size() - 1);
  }
  /// The zero of the i8 that the operand becomes.
  std::string zero_of(const Quantised& x) {
    if (x.zero == NetGraph::kNone) return cat("(-", kMiddle, ")");
    const std::string zero = (*this)(x.zero);
    return x.dtype == DType::u8 ? cat("(", zero, " - ", kMiddle, ")") : zero;
  }
  std::vector<int> inputs;
};

class Products {
 public:
  explicit Products(Rewritten& r) : r_(r), links_(r.graph) {}

  void run() {
    for (size_t n = 0; n < r_.graph.nodes.size(); n++) take(n);
    put_in_front(r_.graph, std::move(in_front_));
  }

 private:
  void take(size_t n) {
    const NetGraph::Node node = r_.graph.nodes[n];
    const ValueFacts* known = node.outputs.size() == 1 ? r_.fact(node.outputs[0]) : nullptr;
    if (node.kind != "matmul" || node.inputs.size() != 2 || !known || element_count(known->shape) == 0)
      return;
    const ValueFacts y = *known;  // new values move the list
    const auto* alpha = attribute<double>(node, "alpha");
    if (node.attributes.size() > (alpha ? 1 : 0) || (alpha && *alpha != 1)) return;
    if (y.dtype != DType::i32 && !(is_floating(y.dtype) && r_.integer_products)) return;
    const auto a = operand(node.inputs[0], y.dtype, false), b = operand(node.inputs[1], y.dtype, true);
    if (!a || !b || !sums_fit(*a, *b, shape(node.inputs[0]).back())) return;
    nodes_ = &in_front_[n];
    name_ = node.name;
    rewrite(*a, *b, node, y);
    r_.graph.nodes[n].outputs.clear();
  }

  Shape shape(int value) const { return r_.fact(value)->shape; }

  /// What the value was dequantised from, if it was as products here take it.
  std::optional<Quantised> operand(int value, DType dtype, bool columns) const {
    if (!r_.fact(value) || shape(value).size() < 2) return {};
    Quantised x;
    const NetGraph::Node* node = producer(value);
    if (node && node->kind == "transpose") {
      const auto* axes = attribute<std::vector<int64_t>>(*node, "axes");
      const int rank = shape(value).size();
      for (int i = 0; i < rank; i++) {
        const int64_t axis = axes ? (*axes)[static_cast<size_t>(i)] : rank - 1 - i;
        x.axes.push_back(axis < 0 ? axis + rank : axis);
      }
      node = producer(node->inputs[0]);
    }
    if (!node || node->kind != "dequantize" || !r_.fact(node->inputs[0])) return {};
    const auto input = [&](size_t k) { return k < node->inputs.size() ? node->inputs[k] : NetGraph::kNone; };
    x.numbers = input(0), x.scale = input(1), x.zero = input(2);
    x.dtype = r_.fact(x.numbers)->dtype;
    if (x.dtype != DType::i8 && x.dtype != DType::u8) return {};
    if (x.scale != NetGraph::kNone && (!r_.fact(x.scale) || r_.fact(x.scale)->dtype != dtype)) return {};
    if (x.zero != NetGraph::kNone && (!r_.fact(x.zero) || r_.fact(x.zero)->dtype != x.dtype)) return {};
    if (dtype == DType::i32 && x.scale != NetGraph::kNone) return {};
    for (int of : {x.scale, x.zero})
      if (of != NetGraph::kNone && !goes_along(of, *node, x.axes, columns)) return {};
    const double none = x.dtype == DType::u8 ? kMiddle : 0;
    x.zero_is_zero = x.zero == NetGraph::kNone ? none == 0 : is_full_of(x.zero, none);
    return x;
  }

  /// Whether a scale or zero of `node` is one number, or if `columns` may be so, one for each column.
  bool goes_along(int value, const NetGraph::Node& node, const std::vector<int64_t>& axes,
                  bool columns) const {
    const Shape own = shape(value);
    if (own.size() > 1) return false;
    if (element_count(own) == 1) return true;
    const int rank = shape(node.inputs[0]).size();
    const auto* given = attribute<int64_t>(node, "axis");
    const int64_t axis = given ? *given : 1;
    return columns && (axis < 0 ? axis + rank : axis) == (axes.empty() ? rank - 1 : axes.back());
  }

  /// Whether nothing that is summed up can pass what i32 holds: products of i8, and what zeros add.
  static bool sums_fit(const Quantised& a, const Quantised& b, int64_t depth) {
    const int64_t terms = a.zero_is_zero ? (b.zero_is_zero ? 1 : 2) : (b.zero_is_zero ? 2 : 4);
    return depth > 0 && depth <= std::numeric_limits<int32_t>::max() / (terms * kMiddle * kMiddle);
  }

  const NetGraph::Node* producer(int value) const {
    const int at = links_.producer(value);
    return at < 0 ? nullptr : &r_.graph.nodes[static_cast<size_t>(at)];
  }
  bool is_full_of(int value, double number) const {
    const HostTensor* numbers = r_.constant(value);
    if (const auto known = r_.known.find(value); !numbers && known != r_.known.end())
      numbers = known->second.get();
    if (!numbers) return false;
    const std::vector<double> all = numbers_of(*numbers);
    return std::all_of(all.begin(), all.end(), [&](double n) { return n == number; });
  }

  int add(const char* kind, std::vector<int> inputs, const ValueFacts& y, Attributes attributes) {
    const int value = r_.add_value(y);
    add(kind, std::move(inputs), value, std::move(attributes));
    return value;
  }
  void add(const char* kind, std::vector<int> inputs, int y, Attributes attributes) {
    nodes_->push_back(node_of(kind, std::move(inputs), y, std::move(attributes)));
    nodes_->back().name = name_;
  }

  /// The operand's i8, turned as it was.
  int as_i8(const Quantised& x) {
    const Shape own = shape(x.numbers);
    const int value = x.dtype == DType::i8 ? x.numbers
                                           : add("pointwise", {x.numbers}, {DType::i8, own},
                                                 {{"body", cat("y0 = x0 - ", kMiddle)}, {"dtype", "i8"}});
    if (x.axes.empty()) return value;
    Shape turned;
    for (int64_t axis : x.axes) turned.push_back(own[static_cast<int>(axis)]);
    return add("transpose", {value}, {DType::i8, turned}, {{"axes", x.axes}});
  }

  /// Sums along an axis, which stays with size 1 or goes.
  int sums(int x, int axis, bool keep) {
    Shape y;
    for (int i = 0; i < shape(x).size(); i++)
      if (keep || i != axis) y.push_back(i == axis ? 1 : shape(x)[i]);
    return add(
        "reduce", {x}, {DType::i32, y},
        {{"function", "sum"}, {"axes", std::vector<int64_t>{axis}}, {"keep_dims", keep}, {"dtype", "i32"}});
  }

  /// -zx sum (w - zw) for each column.
  int term_of_columns(const Quantised& a, const Quantised& b, int w, int64_t depth) {
    const int rank = shape(w).size(), of_columns = sums(w, rank - 2, rank > 2);
    Expression x;
    std::string sum = x(of_columns);
    std::vector<double> scalars;
    if (!b.zero_is_zero) {
      sum = cat("(", sum, " - s0 * ", x.zero_of(b), ")");
      scalars.push_back(static_cast<double>(depth));
    }
    Attributes attributes{{"body", cat("y0 = ", sum, " * -", x.zero_of(a))}, {"dtype", "i32"}};
    if (!scalars.empty()) attributes.emplace("scalars", scalars);
    return add("pointwise", std::move(x.inputs), {DType::i32, shape(of_columns)}, std::move(attributes));
  }

  void rewrite(const Quantised& a, const Quantised& b, const NetGraph::Node& node, const ValueFacts& y) {
    const int x8 = as_i8(a), w8 = as_i8(b);
    const int columns =
        a.zero_is_zero ? NetGraph::kNone : term_of_columns(a, b, w8, shape(node.inputs[0]).back());
    // A matrix' columns have a bias; of several matrices they are added behind.
    const bool has_bias = columns != NetGraph::kNone && shape(w8).size() == 2;
    std::vector<int> operands{x8, w8};
    if (has_bias) operands.push_back(columns);
    const bool ends = y.dtype == DType::i32 && b.zero_is_zero && (has_bias || columns == NetGraph::kNone);
    const int products = ends ? node.outputs[0] : r_.add_value({DType::i32, y.shape});
    add("matmul", std::move(operands), products, {{"dtype", "i32"}});
    if (ends) return;
    Expression x;
    std::string whole = x(products);
    if (columns != NetGraph::kNone && !has_bias) whole += cat(" + ", x(columns));
    if (!b.zero_is_zero) {
      const int rows = sums(x8, shape(x8).size() - 1, true);
      whole += cat(" - ", x.zero_of(b), " * ", x(rows));
    }
    if (y.dtype != DType::i32) whole = cat("(real)(", whole, ")");
    for (int scale : {a.scale, b.scale})
      if (scale != NetGraph::kNone) whole += cat(" * ", x(scale));
    add("pointwise", std::move(x.inputs), node.outputs[0],
        {{"body", "y0 = " + whole}, {"dtype", dlprim::name_of(y.dtype)}});
  }

  Rewritten& r_;
  const Links links_;
  std::map<size_t, std::vector<NetGraph::Node>> in_front_;
  std::vector<NetGraph::Node>* nodes_ = nullptr;  ///< where the product's go
  std::string name_;
};

}  // namespace

void multiply_integers(Rewritten& r) {
  Products(r).run();
}

}  // namespace dlprim::detail
