// Net::forward: checks the feeds, has a new kind of pass rehearsed, runs the nodes that the outputs depend
// on, and lets go of every value after its last use, counting the backward direction as one in training.
#include <algorithm>

#include <dlprim/copy.hpp>

#include "core/check.hpp"
#include "net/graph.hpp"

namespace dlprim {
namespace {

using detail::Graph;
using detail::Node;
using detail::PassState;
using detail::require;

/// Marks `outputs` and everything they depend on in `pass.ran`.
void mark_needed(PassState& pass, const std::vector<Value>& outputs) {
  const Graph& graph = *pass.graph;
  for (Value output : outputs) {
    const auto id = static_cast<size_t>(graph.id_of("outputs", output));
    pass.ran[id] = pass.is_output[id] = true;
  }
  for (size_t id = graph.nodes.size(); id-- > 0;)
    if (pass.ran[id])
      for (int input : graph.nodes[id]->inputs) pass.ran[static_cast<size_t>(input)] = true;
}

void check_feed(const Node& node, const Tensor& tensor, const Context& context) {
  require(tensor.defined(), "feeds", "'", node.name, "' is undefined");
  require(tensor.context() == context, "feeds", "'", node.name, "' lives in another context");
  require(tensor.dtype() == node.dtype, "feeds", "'", node.name, "' is ", tensor.describe(), ", must be ",
          name_of(node.dtype));
  bool fits = tensor.rank() == node.shape.size();
  for (int i = 1; fits && i < tensor.rank(); i++) fits = tensor.shape()[i] == node.shape[i];
  require(fits, "feeds", "'", node.name, "' is ", tensor.describe(), ", one sample of it is ",
          to_string(node.shape));
  require(tensor.size(0) > 0, "feeds", "'", node.name, "' is ", tensor.describe(), ": the batch is empty");
}

/// Puts the feeds into the pass. Nothing is enqueued yet.
void take_feeds(PassState& pass, const std::vector<Feed>& feeds) {
  const Graph& graph = *pass.graph;
  for (const Feed& feed : feeds) {
    const auto id = static_cast<size_t>(graph.id_of("feeds", feed.input));
    const Node& node = *graph.nodes[id];
    require(dynamic_cast<const detail::InputNode*>(&node) != nullptr, "feeds", "'", node.name,
            "' is not an input");
    require(!pass.values[id].defined(), "feeds", "'", node.name, "' is fed twice");
    check_feed(node, feed.tensor, pass.stream.context());
    pass.values[id] = feed.tensor;
  }
  const Node* first = nullptr;
  int64_t batch = 0;
  for (size_t id = 0; id < graph.nodes.size(); id++) {
    const Node& node = *graph.nodes[id];
    if (!node.inputs.empty()) continue;
    if (!pass.ran[id]) {
      pass.values[id] = Tensor();
      continue;
    }
    require(pass.values[id].defined(), "feeds", "input '", node.name, "' is missing");
    pass.shapes[id] = pass.values[id].shape();
    if (!first) first = &node, batch = pass.shapes[id][0];
    require(pass.shapes[id][0] == batch, "feeds", "'", node.name, "' is a batch of ", pass.shapes[id][0],
            ", '", first->name, "' of ", batch);
  }
}

/// The shape of every value of this pass: all operators' checks, before the first of them runs.
void infer_shapes(PassState& pass) {
  for (size_t id = 0; id < pass.graph->nodes.size(); id++) {
    const Node& node = *pass.graph->nodes[id];
    if (!pass.ran[id] || node.inputs.empty()) continue;
    std::vector<Shape> x;
    for (int input : node.inputs) x.push_back(pass.shapes[static_cast<size_t>(input)]);
    pass.shapes[id] = node.output_shape(x);
    node.check(pass.mode, x);
  }
}

/// How often each value will be read: once by every use of it, and once more for what backward() needs.
std::vector<int> count_uses(const PassState& pass) {
  std::vector<int> uses(pass.graph->nodes.size(), 0);
  for (size_t id = 0; id < uses.size(); id++) {
    if (!pass.ran[id]) continue;
    const Node& node = *pass.graph->nodes[id];
    for (int k = 0; k < static_cast<int>(node.inputs.size()); k++) {
      int& input_uses = uses[static_cast<size_t>(node.inputs[static_cast<size_t>(k)])];
      input_uses += 1;
      if (pass.mode == Mode::training && node.needs_input(k)) input_uses += 1;  // backward's
    }
    if (pass.mode == Mode::training && node.needs_output()) uses[id] += 1;
  }
  return uses;
}

}  // namespace

Pass Net::forward(const Stream& stream, Mode mode, const std::vector<Feed>& feeds,
                  const std::vector<Value>& outputs) const {
  require(stream.context() == graph_->stream.context(), "stream", "belongs to another context than the net");
  require(!outputs.empty(), "outputs", "is empty: nothing to compute");
  auto pass = std::make_shared<PassState>(graph_, stream, mode);
  mark_needed(*pass, outputs);
  take_feeds(*pass, feeds);
  infer_shapes(*pass);
  detail::rehearse_once(*pass);
  detail::run_forward(*pass);
  return Pass(pass);
}

void detail::run_forward(PassState& pass) {
  Graph& graph = *pass.graph;
  std::vector<int> uses = count_uses(pass);
  for (size_t id = 0; id < graph.nodes.size(); id++) {
    if (!pass.ran[id]) continue;
    const Node& node = *graph.nodes[id];
    Tensor& value = pass.values[id];
    if (node.inputs.empty()) {
      value = value.is_contiguous() ? value : contiguous(pass.stream, value);
      continue;
    }
    std::vector<Tensor> x;
    for (int input : node.inputs) x.push_back(pass.values[static_cast<size_t>(input)]);
    value = node.forward({pass.stream, graph, pass.mode, x, pass.shapes[id], pass.saved[id]});
    for (int input : node.inputs) {
      const auto i = static_cast<size_t>(input);
      if (--uses[i] == 0 && !pass.is_output[i]) pass.values[i] = Tensor();
    }
  }
}

}  // namespace dlprim
