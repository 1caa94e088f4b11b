// Bias, residual and activation behind a matrix product or a convolution become its epilogue, in this order;
// behind a convolution's backward data a residual, which is another gradient of the same value; behind a
// BatchNorm in training a residual.
// The node moves to where the last of them was: what it adds is there by then.
#include <dlprim/activation.hpp>
#include <dlprim/net_host.hpp>

#include "net/passes/pass.hpp"

namespace dlprim::detail {
namespace {

/// ReLU6 as it was written once.
bool clips_to_six(const NetGraph::Node& node) {
  const auto* function = attribute<std::string>(node, "function");
  const auto* bounds = attribute<std::vector<double>>(node, "parameters");
  return node.kind == "elementwise" && function && *function == "clip" && bounds &&
         *bounds == std::vector<double>{0, 6};
}

/// Places of a node's further inputs.
constexpr size_t kBias = 2, kResidual = 3;

class Epilogue {
 public:
  Epilogue(Rewritten& r, NetGraph::Node& node) : r_(r), node_(node), y_(*r.fact(node.outputs[0])) {}

  /// Takes what `next` does to the node's output, if the epilogue can.
  bool take(const NetGraph::Node& next) {
    const int value = node_.outputs[0];
    if (next.outputs.size() != 1 || !r_.fact(next.outputs[0]) || r_.fact(next.outputs[0])->dtype != y_.dtype)
      return false;
    const std::string function = clips_to_six(next) ? "relu6" : plain_function(next);
    if (next.inputs.size() == 1) return activate(function);
    if (next.inputs.size() != 2 || next.inputs[0] == next.inputs[1]) return false;
    const int other = other_input(next, value);
    if (function == "maximum" && r_.number(other) == 0.0) return activate("relu");
    if (function == "minimum" && r_.number(other) == 6.0 && activation_ == "relu") {
      activation_ = "relu6";
      return true;
    }
    return function == "add" && activation_.empty() && (add_bias(other) || add_residual(other));
  }

  void finish() {
    if (!activation_.empty()) node_.attributes.emplace("activation", activation_);
  }

 private:
  bool activate(const std::string& function) {
    if (node_.kind == "conv_backward_data" || !activation_.empty() || !activation_named(function))
      return false;
    activation_ = function;
    return true;
  }

  bool has(size_t k) const { return k < node_.inputs.size() && node_.inputs[k] != NetGraph::kNone; }
  void put(size_t k, int value) {
    node_.inputs.resize(std::max(node_.inputs.size(), k + 1), NetGraph::kNone);
    node_.inputs[k] = value;
  }

  /// A constant with one number for each column of a product, or each channel of a convolution.
  bool add_bias(int value) {
    const HostTensor* constant = r_.constant(value);
    if (has(kBias) || has(kResidual) || !constant || constant->dtype != y_.dtype) return false;
    const bool product = node_.kind == "matmul";
    const int rank = y_.shape.size(), channel = product ? rank - 1 : 1,
              axis = constant->shape.size() - (rank - channel);
    const int64_t channels = y_.shape[channel];
    if (axis < 0 || constant->shape.size() > rank || constant->shape[axis] != channels ||
        element_count(constant->shape) != channels)
      return false;
    HostTensor bias = *constant;
    bias.shape = {channels};
    put(kBias, r_.add_constant(std::move(bias)));
    return true;
  }

  bool add_residual(int value) {
    const ValueFacts* fact = r_.fact(value);
    if (has(kResidual) || !fact || fact->dtype != y_.dtype || fact->shape != y_.shape) return false;
    put(kResidual, value);
    return true;
  }

  Rewritten& r_;
  NetGraph::Node& node_;
  const ValueFacts y_;
  std::string activation_;
};

bool has_epilogue(const Rewritten& r, const NetGraph::Node& node) {
  const bool known = node.kind == "conv" || node.kind == "matmul" || node.kind == "conv_backward_data";
  if (!known || node.outputs.size() != 1 || node.inputs.size() > 3) return false;
  const ValueFacts* y = r.fact(node.outputs[0]);
  if (!y || !is_floating(y->dtype) || node.attributes.count("activation")) return false;
  if (node.kind == "conv") return !has_flag(node, "transposed");
  if (node.kind == "conv_backward_data") return true;
  const ValueFacts *a = r.fact(node.inputs[0]), *b = r.fact(node.inputs[1]);
  return a && b && a->shape.size() >= 2 && b->shape.size() >= 2;
}

/// A BatchNorm in training takes a residual that is there by then, and stays where it is, as others read its
/// statistics.
void take_residual(Rewritten& r, const Links& links, size_t n) {
  constexpr size_t kInputs = 5;
  NetGraph::Node& node = r.graph.nodes[n];
  if (node.kind != "batch_norm" || !has_flag(node, "training") || node.inputs.size() != kInputs ||
      node.attributes.count("activation"))
    return;
  const int reader = links.only_reader(node.outputs[0]);
  if (reader < 0) return;
  NetGraph::Node& next = r.graph.nodes[static_cast<size_t>(reader)];
  if (plain_function(next) != "add" || next.inputs[0] == next.inputs[1]) return;
  const int other = other_input(next, node.outputs[0]);
  const ValueFacts *y = r.fact(node.outputs[0]), *residual = r.fact(other), *sum = r.fact(next.outputs[0]);
  if (!y || !residual || !sum || residual->dtype != y->dtype || residual->shape != y->shape ||
      sum->dtype != y->dtype || links.producer(other) > static_cast<int>(n))
    return;
  node.inputs.push_back(other);
  node.outputs[0] = next.outputs[0];
  next.outputs.clear();
}

}  // namespace

void fuse_epilogues(Rewritten& r) {
  const Links links(r.graph);
  for (size_t n = 0; n < r.graph.nodes.size(); n++) take_residual(r, links, n);
  for (size_t n = 0; n < r.graph.nodes.size(); n++) {
    if (r.graph.nodes[n].outputs.empty() || !has_epilogue(r, r.graph.nodes[n])) continue;
    NetGraph::Node node = r.graph.nodes[n];
    Epilogue epilogue(r, node);
    size_t last = n;
    for (int reader; (reader = links.only_reader(node.outputs[0])) >= 0;) {
      NetGraph::Node& next = r.graph.nodes[static_cast<size_t>(reader)];
      if (!epilogue.take(next)) break;
      node.outputs = std::move(next.outputs);
      next.outputs.clear();
      last = static_cast<size_t>(reader);
    }
    epilogue.finish();
    r.graph.nodes[n].outputs.clear();
    r.graph.nodes[last] = std::move(node);
  }
  drop_emptied(r.graph);
}

}  // namespace dlprim::detail
