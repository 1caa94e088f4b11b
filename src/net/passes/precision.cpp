// Matrix products and convolutions of f32 compute in another dtype, as the model was asked to, and what
// follows them stays in it as long as nothing is lost by that: functions that grow or need all bits, sums and
// model outputs are f32. Sums inside a kernel are f32 in any case.
#include <algorithm>
#include <set>

#include <dlprim/net_host.hpp>

#include "net/passes/pass.hpp"

namespace dlprim::detail {
namespace {

/// Which inputs of a node are converted.
enum class Converts : uint8_t { none, first, all };

Converts product(const std::string& kind) {
  return kind == "matmul" || kind == "conv" ? Converts::all : Converts::none;
}

/// Kinds that take what they are given. Parameters of norms, sizes and scales stay as they are.
Converts follower(const NetGraph::Node& node) {
  static const auto* functions = new std::set<std::string>{
      "add",  "sub",       "mul",  "neg",  "abs", "relu", "relu6",   "leaky_relu", "sigmoid", "hardsigmoid",
      "tanh", "hardswish", "silu", "gelu", "elu", "clip", "maximum", "minimum",    "where",   "softplus"};
  static const auto* any = new std::set<std::string>{"concat",    "reshape",   "flatten", "squeeze",
                                                     "unsqueeze", "transpose", "expand",  "identity"};
  static const auto* by_x = new std::set<std::string>{
      "batch_norm", "layer_norm", "group_norm",     "softmax",        "pool",   "global_pool",
      "slice",      "split",      "depth_to_space", "space_to_depth", "gather", "resize"};
  if (node.attributes.count("dtype") || !node.bodies.empty()) return Converts::none;
  if (node.kind == "elementwise") {
    const auto* name = attribute<std::string>(node, "function");
    return name && functions->count(*name) ? Converts::all : Converts::none;
  }
  if (node.kind != "split" && node.outputs.size() > 1) return Converts::none;
  return any->count(node.kind) ? Converts::all : by_x->count(node.kind) ? Converts::first : Converts::none;
}

class Lowering {
 public:
  explicit Lowering(Rewritten& r) : r_(r) {}

  void run() {
    std::vector<NetGraph::Node> nodes = std::move(r_.graph.nodes);
    for (NetGraph::Node& node : nodes) visit(std::move(node));
    for (int value : r_.graph.outputs) restore(value);
    r_.graph.nodes = std::move(nodes_);
  }

 private:
  bool is_f32(int value) const {
    const ValueFacts* fact = r_.fact(value);
    return fact && fact->dtype == DType::f32;
  }

  /// Whether the node computes in the other dtype, and what that converts.
  Converts lowers(const NetGraph::Node& node) const {
    const bool all_f32 = std::all_of(node.outputs.begin(), node.outputs.end(),
                                     [&](int value) { return value == NetGraph::kNone || is_f32(value); });
    if (!all_f32 || node.inputs.empty() || !is_f32(node.inputs[0])) return Converts::none;
    const Converts converts = product(node.kind);
    if (converts != Converts::none) return converts;
    const bool follows = std::any_of(node.inputs.begin(), node.inputs.end(),
                                     [&](int value) { return only_low_.count(value) != 0; });
    return follows ? follower(node) : Converts::none;
  }

  void visit(NetGraph::Node node) {
    const Converts converts = lowers(node);
    for (size_t k = 0; k < node.inputs.size(); k++) {
      int& value = node.inputs[k];
      if (value == NetGraph::kNone) continue;
      const bool converted = converts == Converts::all || (converts == Converts::first && k == 0);
      if (converted && is_f32(value))
        value = low(value);
      else
        restore(value);
    }
    if (converts != Converts::none)
      for (int& value : node.outputs)
        if (value != NetGraph::kNone) {
          only_low_.insert(value);
          value = twin(value);
        }
    nodes_.push_back(std::move(node));
  }

  /// A new value for the same numbers.
  int twin(int value) {
    const int made = r_.graph.add_value(r_.graph.values[static_cast<size_t>(value)].name);
    r_.facts.resize(r_.graph.values.size());
    r_.facts[static_cast<size_t>(made)] = ValueFacts{r_.precision, r_.fact(value)->shape};
    return low_[value] = made;
  }

  int low(int value) {
    if (const auto found = low_.find(value); found != low_.end()) return found->second;
    const int made = twin(value);
    const auto constant = r_.graph.constants.find(value);
    if (constant == r_.graph.constants.end())
      cast(value, made, r_.precision);
    else
      r_.graph.constants[made] = converted(constant->second);
    return made;
  }

  std::shared_ptr<const HostTensor> converted(const std::shared_ptr<const HostTensor>& constant) {
    std::shared_ptr<const HostTensor> own;
    std::shared_ptr<const HostTensor>& kept = r_.converted ? (*r_.converted)[constant] : own;
    if (!kept)
      kept = std::make_shared<const HostTensor>(
          host_tensor(r_.precision, constant->shape, numbers_of(*constant)));
    return kept;
  }

  /// The value in f32, for who needs it so.
  void restore(int value) {
    if (only_low_.erase(value) != 0) cast(low_.at(value), value, DType::f32);
  }

  void cast(int from, int to, DType dtype) {
    NetGraph::Node node;
    node.kind = "cast";
    node.attributes = {{"dtype", name_of(dtype)}};
    node.inputs = {from};
    node.outputs = {to};
    nodes_.push_back(std::move(node));
  }

  Rewritten& r_;
  std::vector<NetGraph::Node> nodes_;
  std::map<int, int> low_;  ///< of f32 values: the same in the other dtype
  std::set<int> only_low_;  ///< those that are not there in f32
};

}  // namespace

void lower_precision(Rewritten& r) {
  if (r.precision != DType::f32) Lowering(r).run();
}

}  // namespace dlprim::detail
