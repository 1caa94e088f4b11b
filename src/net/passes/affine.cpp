// What is multiplied with, or added to, each channel of a convolution's result by constants goes into its
// weights and bias: BatchNorm of inference, and what exporters make of it.
#include <cmath>

#include <dlprim/net_host.hpp>

#include "net/passes/pass.hpp"

namespace dlprim::detail {
namespace {

/// One number for each channel: y = scale x + shift.
struct Affine {
  std::vector<double> scale, shift;
};

/// A constant's numbers for each of `channels` channels of a tensor of that rank, if it has one for each or
/// one for all.
std::optional<std::vector<double>> per_channel(const HostTensor* constant, DType dtype, int64_t channels,
                                               int rank) {
  if (!constant || constant->dtype != dtype || constant->shape.size() > rank) return std::nullopt;
  const std::vector<double> numbers = numbers_of(*constant);
  if (numbers.size() == 1) return std::vector<double>(static_cast<size_t>(channels), numbers[0]);
  const int axis = constant->shape.size() - (rank - 1);
  if (axis < 0 || static_cast<int64_t>(numbers.size()) != channels || constant->shape[axis] != channels)
    return std::nullopt;
  return numbers;
}

/// What the node does to each channel of `value`, if it is such a one.
std::optional<Affine> affine_of(const Rewritten& r, const NetGraph::Node& node, int value, DType dtype,
                                int64_t channels, int rank) {
  const auto numbers = [&](int input) { return per_channel(r.constant(input), dtype, channels, rank); };
  const std::vector<double> ones(static_cast<size_t>(channels), 1), zeros(static_cast<size_t>(channels), 0);
  if (node.kind == "batch_norm" && node.inputs[0] == value) {
    if (has_flag(node, "training") || has_flag(node, "per_element")) return std::nullopt;
    std::vector<double> part[4];
    for (size_t k = 0; k < 4; k++) {
      const HostTensor* constant = r.constant(node.inputs[k + 1]);
      if (!constant || constant->dtype != dtype || constant->shape != Shape{channels}) return std::nullopt;
      part[k] = numbers_of(*constant);
    }
    const auto* epsilon = attribute<double>(node, "epsilon");
    Affine affine{ones, zeros};
    for (size_t k = 0; k < ones.size(); k++) {
      affine.scale[k] = part[0][k] / std::sqrt(part[3][k] + (epsilon ? *epsilon : 1e-5));
      affine.shift[k] = part[1][k] - part[2][k] * affine.scale[k];
    }
    return affine;
  }
  const std::string function = plain_function(node);
  if (node.inputs.size() != 2) return std::nullopt;
  const auto constant = numbers(other_input(node, value));
  if (!constant) return std::nullopt;
  if (function == "add") return Affine{ones, *constant};
  if (function == "mul") return Affine{*constant, zeros};
  return std::nullopt;
}

/// w with its first axis scaled.
HostTensor scaled(const HostTensor& w, const std::vector<double>& scale) {
  std::vector<double> numbers = numbers_of(w);
  const size_t each = numbers.size() / scale.size();
  for (size_t i = 0; i < numbers.size(); i++) numbers[i] *= scale[i / each];
  return host_tensor(w.dtype, w.shape, numbers);
}

bool plain_convolution(const Rewritten& r, const NetGraph::Node& node) {
  if (node.kind != "conv" || has_flag(node, "transposed") || node.attributes.count("activation") ||
      node.inputs.size() > 3)
    return false;
  const HostTensor* w = r.constant(node.inputs[1]);
  const bool bias = node.inputs.size() == 3 && node.inputs[2] != NetGraph::kNone;
  return w && is_floating(w->dtype) && w->shape.size() >= 3 && w->shape[0] > 0 && !w->data.empty() &&
         (!bias || r.constant(node.inputs[2]));
}

}  // namespace

void fold_affine(Rewritten& r) {
  const Links links(r.graph);
  for (NetGraph::Node& node : r.graph.nodes) {
    while (plain_convolution(r, node)) {
      const int value = node.outputs[0], reader = links.only_reader(value);
      if (reader < 0) break;
      NetGraph::Node& next = r.graph.nodes[static_cast<size_t>(reader)];
      const HostTensor& w = *r.constant(node.inputs[1]);
      const int64_t channels = w.shape[0];
      if (next.outputs.size() != 1 || next.inputs.empty()) break;
      const auto affine = affine_of(r, next, value, w.dtype, channels, w.shape.size());
      if (!affine) break;
      std::vector<double> bias(static_cast<size_t>(channels), 0);
      if (node.inputs.size() == 3 && node.inputs[2] != NetGraph::kNone)
        bias = numbers_of(*r.constant(node.inputs[2]));
      for (size_t k = 0; k < bias.size(); k++) bias[k] = bias[k] * affine->scale[k] + affine->shift[k];
      const int new_w = r.add_constant(scaled(w, affine->scale));
      const int new_bias = r.add_constant(host_tensor(w.dtype, {channels}, bias));
      node.inputs = {node.inputs[0], new_w, new_bias};
      node.outputs = std::move(next.outputs);
      next.outputs.clear();
    }
  }
  drop_emptied(r.graph);
}

}  // namespace dlprim::detail
