// Matrix products and convolutions of f32 compute in another dtype, as the model was asked to, and what
// follows them stays in it as long as nothing is lost by that: functions that grow or need all bits, sums and
// model outputs are f32. Sums inside a kernel are f32 in any case.
#include <algorithm>
#include <initializer_list>
#include <set>

#include <dlprim/net_host.hpp>

#include "net/passes/pass.hpp"

namespace dlprim::detail {
namespace {

/// Which of a node's inputs are converted, and which of its outputs are in the other dtype: a bit for each.
struct Low {
  uint32_t inputs = 0, outputs = 1;
};
constexpr uint32_t kAll = ~0U;
constexpr uint32_t bits(std::initializer_list<int> places) {
  uint32_t all = 0;
  for (int place : places) all |= 1U << place;
  return all;
}

using LowKinds = std::map<std::string, Low>;

Low find_low(const LowKinds& kinds, const std::string& kind) {
  const auto found = kinds.find(kind);
  return found == kinds.end() ? Low() : found->second;
}

Low product(const std::string& kind) {
  static const auto* kinds = new LowKinds{{"matmul", {kAll}},
                                          {"conv", {kAll}},
                                          {"matmul_backward", {kAll}},
                                          {"conv_backward_data", {kAll}},
                                          {"conv_backward_filter", {kAll}}};
  return find_low(*kinds, kind);
}

/// Kinds that take what they are given. Parameters of norms, sizes and scales stay as they are, and so do
/// statistics.
Low follower(const NetGraph::Node& node) {
  static const auto* functions = new std::set<std::string>{
      "add",        "sub",     "mul",         "neg",     "abs",       "relu",     "relu6",
      "leaky_relu", "sigmoid", "hardsigmoid", "tanh",    "hardswish", "silu",     "gelu",
      "elu",        "clip",    "maximum",     "minimum", "where",     "softplus", "gelu_tanh"};
  static const auto* kinds = new LowKinds{
      {"concat", {kAll}},
      {"reshape", {kAll}},
      {"flatten", {kAll}},
      {"squeeze", {kAll}},
      {"unsqueeze", {kAll}},
      {"transpose", {kAll}},
      {"expand", {kAll}},
      {"identity", {kAll}},
      {"group_norm", {1}},
      {"softmax", {1}},
      {"pool", {1}},
      {"global_pool", {1}},
      {"rotary", {1}},
      {"slice", {1}},
      {"split", {1, kAll}},
      {"depth_to_space", {1}},
      {"space_to_depth", {1}},
      {"gather", {1}},
      {"resize", {1}},
      {"layer_norm", {1}},
      {"batch_norm", {bits({0, 5})}},
      {"attention", {bits({0, 1, 2})}},
      {"attention_backward", {bits({0, 1, 2, 7}), bits({0, 1, 2})}},
      {"batch_norm_backward", {bits({0, 1, 5}), bits({0, 3})}},
      {"layer_norm_backward", {bits({0, 1})}},
      {"softmax_backward", {bits({0, 1})}},
      {"pool_backward", {bits({0, 3, 4})}},
      {"slice_backward", {1}},
      {"reduce_backward", {1}},
      {"channel_sums", {1}},
      {"sum_to", {1}},
      {"shape", {1, 0}},
      {"size", {1, 0}},
  };
  if (node.attributes.count("dtype") || !node.bodies.empty()) return {};
  const bool elementwise = node.kind == "elementwise";
  if (elementwise || node.kind == "pointwise") {
    const auto* name = attribute<std::string>(node, elementwise ? "function" : "gradient_of");
    return name && functions->count(*name) ? Low{kAll} : Low();
  }
  // RMSNorm's result has the dtype of its weight.
  if (node.kind == "layer_norm" && has_flag(node, "rms")) return {bits({0, 1})};
  return find_low(*kinds, node.kind);
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

  /// What the node converts, if it computes in the other dtype.
  Low lowers(const NetGraph::Node& node) const {
    if (node.inputs.empty() || !is_f32(node.inputs[0])) return {};
    Low low = product(node.kind);
    if (low.inputs == 0) {
      bool follows = false;
      const Low other = follower(node);
      for (size_t k = 0; k < node.inputs.size(); k++)
        follows = follows || (has(other.inputs, k) && only_low_.count(node.inputs[k]) != 0);
      if (follows) low = other;
    }
    for (size_t k = 0; k < node.outputs.size(); k++)
      if (has(low.outputs, k) && node.outputs[k] != NetGraph::kNone && !is_f32(node.outputs[k])) return {};
    return low;
  }
  static bool has(uint32_t bits, size_t place) {
    return bits == kAll || (place < 32 && (bits >> place & 1U) != 0);
  }

  void visit(NetGraph::Node node) {
    const Low asked = lowers(node);
    for (size_t k = 0; k < node.inputs.size(); k++) {
      int& value = node.inputs[k];
      if (value == NetGraph::kNone) continue;
      if (has(asked.inputs, k) && is_f32(value))
        value = low(value);
      else
        restore(value);
    }
    for (size_t k = 0; asked.inputs != 0 && k < node.outputs.size(); k++) {
      int& value = node.outputs[k];
      if (!has(asked.outputs, k) || value == NetGraph::kNone) continue;
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
