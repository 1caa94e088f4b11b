// Elementwise nodes that feed only one another become one node of kind "pointwise". Its expression has a
// block for each of them, so that names in one are no other's:
//   real t0; { const real a = x0, b = s0; t0 = a + b; } real t1; { const real x = t0; ... } y0 = t1
// Only of floating values of one dtype (and truths, as conditions), and where all results have one shape, so
// that nothing is computed more often than before; or where a smaller result, as a gate of each channel,
// calls no function: what it takes again for each element costs less than a launch and its memory.
//   Whole numbers come in by a cast, a dequantize or an expression of them, and go out by a quantize, the
// last of the nodes.
#include <algorithm>
#include <cctype>
#include <map>
#include <regex>

#include <dlprim/elementwise.hpp>
#include <dlprim/net_host.hpp>

#include "core/integer_range.hpp"
#include "core/text.hpp"
#include "net/passes/pass.hpp"

namespace dlprim::detail {
namespace {

constexpr size_t kMostInputs = 12, kMostNodes = 24;  // of one kernel

const std::string& text_attribute(const NetGraph::Node& node, const char* name) {
  return std::get<std::string>(node.attributes.at(name).value);
}

std::vector<double> numbers_attribute(const NetGraph::Node& node, const char* name) {
  const auto* numbers = attribute<std::vector<double>>(node, name);
  return numbers ? *numbers : std::vector<double>();
}

/// Whether a scale or zero broadcasts to x as it is: one number, or one for each place along the last axis.
bool broadcasts(const Rewritten& r, const NetGraph::Node& node, size_t k) {
  const ValueFacts *x = r.fact(node.inputs[0]), *of = r.fact(node.inputs[k]);
  if (!x || !of || of->shape.size() > x->shape.size()) return false;
  if (element_count(of->shape) == 1) return true;
  const auto* given = attribute<int64_t>(node, "axis");
  const int64_t axis = given ? *given : 1, rank = x->shape.size();
  return of->shape.size() == 1 && of->shape[0] == x->shape.back() && (axis == -1 || axis == rank - 1);
}
/// Whether all of a quantize's or dequantize's scales and zeros do; scales are of `dtype`.
bool all_broadcast(const Rewritten& r, const NetGraph::Node& node, DType dtype) {
  for (size_t k = 1; k < node.inputs.size(); k++) {
    if (node.inputs[k] == NetGraph::kNone) continue;
    if (!broadcasts(r, node, k) || is_floating(r.fact(node.inputs[k])->dtype) != (k == 1)) return false;
    if (k == 1 && r.fact(node.inputs[k])->dtype != dtype) return false;
  }
  return true;
}

/// The dtype that a kernel computes in whose last node this is; none if there is no such kernel.
std::optional<DType> computed_in(const Rewritten& r, const NetGraph::Node& root) {
  const ValueFacts* y = root.outputs.size() == 1 ? r.fact(root.outputs[0]) : nullptr;
  if (!y) return {};
  if (is_floating(y->dtype)) return root.kind == "quantize" ? std::nullopt : std::optional(y->dtype);
  const ValueFacts* x = root.kind == "quantize" ? r.fact(root.inputs[0]) : nullptr;
  if (!x || !is_floating(x->dtype) || !all_broadcast(r, root, x->dtype)) return {};
  return x->dtype;
}

/// Whether the node may be part of such a kernel of `dtype`, but for the last.
bool fits(const Rewritten& r, const NetGraph::Node& node, DType dtype) {
  if (node.outputs.size() != 1) return false;
  const ValueFacts* y = r.fact(node.outputs[0]);
  if (!y) return false;
  const auto is_whole = [&](int value) { return r.fact(value) && !is_floating(r.fact(value)->dtype); };
  if (node.kind == "cast" || node.kind == "dequantize") {  // of constants they are computed once
    const int x = node.inputs[0];
    if (y->dtype != dtype || r.constant(x) || !r.fact(x)) return false;
    return node.kind == "cast" ? is_whole(x)
                               : (is_whole(x) || r.fact(x)->dtype == dtype) && all_broadcast(r, node, dtype);
  }
  if (node.kind != "elementwise" && node.kind != "pointwise") return false;
  const bool truth =
      node.kind == "elementwise" && elementwise_function(text_attribute(node, "function")).truth;
  if (y->dtype != dtype && !(truth && y->dtype == DType::boolean)) return false;
  return std::all_of(node.inputs.begin(), node.inputs.end(), [&](int value) {
    const ValueFacts* x = r.fact(value);
    return x &&
           (x->dtype == dtype || x->dtype == DType::boolean || (node.kind == "pointwise" && is_whole(value)));
  });
}

/// Builds the expression.
class Body {
 public:
  explicit Body(const Rewritten& r) : r_(r) {}

  void add(const NetGraph::Node& node) {
    const std::string t = cat("t", blocks_.size());
    const std::string block = node.kind == "elementwise" ? elementwise_block(node, t)
                              : node.kind == "pointwise" ? expression_block(node, t)
                              : node.kind == "quantize"  ? quantize_block(node, t)
                                                         : whole_block(node, t);
    blocks_.push_back(cat("real ", t, "; { ", block, " } "));
    names_[node.outputs[0]] = t;
  }
  std::string text() const {
    std::string text;
    for (const std::string& block : blocks_) text += block;
    return text + cat("y0 = t", blocks_.size() - 1);
  }

  std::vector<int> inputs;
  std::vector<double> scalars;

 private:
  std::string scalar(double number) {
    scalars.push_back(number);
    return cat("s", scalars.size() - 1);
  }

  /// What a value is called in the kernel: a result, a scalar if it is one constant number, an input.
  std::string source(int value) {
    if (const auto found = names_.find(value); found != names_.end()) return found->second;
    const HostTensor* constant = r_.constant(value);
    if (constant && is_floating(constant->dtype) && element_count(constant->shape) == 1)
      return names_[value] = scalar(numbers_of(*constant)[0]);
    inputs.push_back(value);
    return names_[value] = cat("x", inputs.size() - 1);
  }

  std::string elementwise_block(const NetGraph::Node& node, const std::string& t) {
    const ElementwiseFunction& f = elementwise_function(text_attribute(node, "function"));
    std::string block;
    for (size_t i = 0; i < f.inputs.size(); i++)
      block += cat("const real ", f.inputs[i], " = ", source(node.inputs[i]), "; ");
    const std::vector<double> given = numbers_attribute(node, "parameters");
    for (size_t i = 0; i < f.parameters.size(); i++)
      block += cat("const real ", f.parameters[i].name, " = ",
                   scalar(given.empty() ? f.parameters[i].standard : given[i]), "; ");
    return block + (f.let.empty() ? "" : with_types(f.let) + "; ") + t + " = " + with_types(f.result) + ";";
  }
  bool has(const NetGraph::Node& node, size_t k) const {
    return k < node.inputs.size() && node.inputs[k] != NetGraph::kNone;
  }
  /// A cast's or dequantize's, as the nodes compute it.
  std::string whole_block(const NetGraph::Node& node, const std::string& t) {
    const bool dequantizes = node.kind == "dequantize";
    std::string x = source(node.inputs[0]);
    if (dequantizes && has(node, 2)) x = cat("(", x, " - ", source(node.inputs[2]), ")");
    x = cat(t, " = (real)", x);
    return dequantizes && has(node, 1) ? cat(x, " * ", source(node.inputs[1]), ";") : x + ";";
  }
  /// The scale stays a tensor: it makes `real` floating where all others are whole.
  std::string quantize_block(const NetGraph::Node& node, const std::string& t) {
    const DType dtype = r_.fact(node.outputs[0])->dtype;
    const auto* bits = attribute<int64_t>(node, "bits");
    const IntegerRange range = integer_range(dtype, bits ? *bits : static_cast<int64_t>(size_of(dtype)) * 8);
    const std::string x = source(node.inputs[0]), zero = has(node, 2) ? source(node.inputs[2]) : "0",
                      least = scalar(static_cast<double>(range.least)),
                      most = scalar(static_cast<double>(range.most));
    inputs.push_back(node.inputs[1]);
    return cat("const real v = rint(", x, " / x", inputs.size() - 1, ") + ", zero, "; ", t, " = v < ", least,
               " ? ", least, " : v > ", most, " ? ", most, " : v;");
  }
  /// The list's constants with a point in the type that is computed in: as they stand they are doubles, and
  /// what they meet is.
  static std::string with_types(const std::string& expression) {
    static const std::regex constant("\\b[0-9]+[.][0-9]+");
    return std::regex_replace(expression, constant, "(real)$&");
  }

  /// An expression with its x0, s0, y0 called otherwise.
  std::string expression_block(const NetGraph::Node& node, const std::string& t) {
    const std::string& body = text_attribute(node, "body");
    const std::vector<double> own = numbers_attribute(node, "scalars");
    std::vector<std::string> x, s;
    for (int value : node.inputs) x.push_back(source(value));
    for (double number : own) s.push_back(scalar(number));
    std::string out;
    for (size_t at = 0; at < body.size();) {
      if (!std::isalpha(static_cast<unsigned char>(body[at])) && body[at] != '_') {
        const bool number = std::isdigit(static_cast<unsigned char>(body[at])) != 0;
        do out += body[at++];
        while (number && at < body.size() &&
               (std::isalnum(static_cast<unsigned char>(body[at])) || body[at] == '.'));
        continue;
      }
      size_t end = at;
      while (end < body.size() && (std::isalnum(static_cast<unsigned char>(body[end])) || body[end] == '_'))
        end++;
      out += renamed(body.substr(at, end - at), x, s, t);
      at = end;
    }
    return out + ";";
  }
  static std::string renamed(const std::string& word, const std::vector<std::string>& x,
                             const std::vector<std::string>& s, const std::string& t) {
    const bool numbered =
        word.size() >= 2 && word.size() <= 3 &&
        std::all_of(word.begin() + 1, word.end(), [](unsigned char c) { return std::isdigit(c); });
    if (!numbered) return word;
    const auto place = static_cast<size_t>(std::stoi(word.substr(1)));
    if (word[0] == 'x' && place < x.size()) return x[place];
    if (word[0] == 's' && place < s.size()) return s[place];
    return word == "y0" ? t : word;
  }

  const Rewritten& r_;
  std::map<int, std::string> names_;
  std::vector<std::string> blocks_;
};

/// Whether the node's expression has a call, as of exp().
bool calls(const NetGraph::Node& node) {
  if (node.kind == "cast" || node.kind == "dequantize") return false;
  std::string text;
  if (node.kind == "pointwise") {
    text = text_attribute(node, "body");
  } else {
    const ElementwiseFunction& f = elementwise_function(text_attribute(node, "function"));
    text = f.let + ";" + f.result;
  }
  for (size_t i = 1; i < text.size(); i++)
    if (text[i] == '(' && (std::isalnum(static_cast<unsigned char>(text[i - 1])) || text[i - 1] == '_'))
      return true;
  return false;
}

/// The nodes that would be one kernel with node `last`, in the graph's order.
std::vector<size_t> members_of(const Rewritten& r, const Links& links, size_t last, DType dtype) {
  const NetGraph::Node& root = r.graph.nodes[last];
  const ValueFacts& y = *r.fact(root.outputs[0]);
  std::vector<size_t> members{last};
  for (size_t i = 0; i < members.size() && members.size() < kMostNodes; i++) {
    for (int value : r.graph.nodes[members[i]].inputs) {
      const int producer = links.producer(value);
      const auto at = static_cast<size_t>(producer);
      if (producer < 0 || links.only_reader(value) != static_cast<int>(members[i])) continue;
      if (std::find(members.begin(), members.end(), at) != members.end() || members.size() == kMostNodes)
        continue;
      const NetGraph::Node& node = r.graph.nodes[at];
      if (fits(r, node, dtype) && (r.fact(value)->shape == y.shape || !calls(node))) members.push_back(at);
    }
  }
  std::sort(members.begin(), members.end());
  return members;
}

/// What the inputs broadcast to: without the constants that became scalars.
Shape common_shape(const Rewritten& r, const std::vector<int>& inputs) {
  Shape shape;
  for (int value : inputs) shape = broadcast_shapes(shape, r.fact(value)->shape);
  return shape;
}

}  // namespace

void fuse_pointwise(Rewritten& r) {
  const Links links(r.graph);
  std::vector<bool> taken(r.graph.nodes.size());
  for (size_t n = r.graph.nodes.size(); n-- > 0;) {
    const NetGraph::Node& root = r.graph.nodes[n];
    const std::optional<DType> dtype = computed_in(r, root);
    if (taken[n] || !dtype || (root.kind != "quantize" && !fits(r, root, *dtype))) continue;
    const ValueFacts* y = r.fact(root.outputs[0]);
    const std::vector<size_t> members = members_of(r, links, n, *dtype);
    Body body(r);
    for (size_t member : members) body.add(r.graph.nodes[member]);
    if (members.size() < 2 || body.inputs.empty() || body.inputs.size() > kMostInputs ||
        common_shape(r, body.inputs) != y->shape)
      continue;
    NetGraph::Node fused;
    fused.kind = "pointwise";
    fused.name = root.name;
    fused.attributes = {{"body", body.text()}, {"scalars", body.scalars}, {"dtype", name_of(y->dtype)}};
    fused.inputs = body.inputs;
    fused.outputs = root.outputs;
    for (size_t member : members) {
      taken[member] = true;
      r.graph.nodes[member].outputs.clear();
    }
    r.graph.nodes[n] = std::move(fused);
  }
  drop_emptied(r.graph);
}

}  // namespace dlprim::detail
