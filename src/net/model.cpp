// Model: its ports, and the check of what it is fed. Runs are in model_state.cpp.
#include <dlprim/net_model.hpp>

#include "net/model_state.hpp"

namespace dlprim {
namespace detail {
namespace {

/// Sizes that names of dimensions stand for in one run.
using Symbols = std::map<std::string, int64_t>;

void check_feed(const NetGraph::Value& input, const Tensor& feed, const Context& context, Symbols& symbols) {
  const std::string& name = input.name;
  require(feed.defined(), "feeds", "'", name, "' is undefined");
  require(feed.context() == context, "feeds", "'", name, "' lives in another context than the stream");
  require(!input.dtype || feed.dtype() == *input.dtype, "feeds", "'", name, "' is ", feed.describe(),
          ", must be ", input.dtype ? name_of(*input.dtype) : "");
  if (!input.shape) return;
  require(feed.rank() == static_cast<int>(input.shape->size()), "feeds", "'", name, "' is ", feed.describe(),
          ", must have rank ", input.shape->size());
  for (int i = 0; i < feed.rank(); i++) {
    const Dimension& dimension = (*input.shape)[static_cast<size_t>(i)];
    const int64_t size = feed.shape()[i];
    require(dimension.size < 0 || dimension.size == size, "feeds", "'", name, "' is ", feed.describe(),
            ", its dimension ", i, " must be ", dimension.size);
    if (dimension.symbol.empty()) continue;
    const int64_t known = symbols.emplace(dimension.symbol, size).first->second;
    require(known == size, "feeds", "'", name, "' is ", feed.describe(), ", its dimension ", i, ", '",
            dimension.symbol, "', is ", known, " elsewhere");
  }
}

}  // namespace

std::vector<Slot> feed_slots(const NetGraph& graph, const Model::Tensors& feeds, const Context& context) {
  std::vector<Slot> slots;
  Symbols symbols;
  for (int value : graph.inputs) {
    const NetGraph::Value& input = graph.values[static_cast<size_t>(value)];
    const auto feed = feeds.find(input.name);
    require(feed != feeds.end(), "feeds", "input '", input.name, "' is missing");
    check_feed(input, feed->second, context, symbols);
    slots.push_back({feed->second.dtype(), feed->second.shape(), nullptr, feed->second});
  }
  for (const auto& [name, tensor] : feeds) {
    bool known = false;
    for (int value : graph.inputs) known = known || graph.values[static_cast<size_t>(value)].name == name;
    require(known, "feeds", "'", name, "' is no input of the model");
  }
  return slots;
}

namespace {

std::vector<Model::Port> ports(const NetGraph& graph, const std::vector<int>& values) {
  std::vector<Model::Port> ports;
  for (int value : values) {
    const NetGraph::Value& v = graph.values[static_cast<size_t>(value)];
    ports.push_back({v.name, v.dtype, v.shape});
  }
  return ports;
}

}  // namespace
}  // namespace detail

Model::Model(NetGraph graph, std::vector<std::string> without, DType precision) {
  graph.check();
  state_ = std::make_shared<detail::ModelState>(std::move(graph), std::move(without), precision);
}

const NetGraph& Model::graph() const noexcept {
  return state_->graph;
}
std::vector<Model::Port> Model::inputs() const {
  return detail::ports(state_->graph, state_->graph.inputs);
}
std::vector<Model::Port> Model::outputs() const {
  return detail::ports(state_->graph, state_->graph.outputs);
}

Model::Tensors Model::run(const Stream& stream, const Tensors& feeds, const Options& options,
                          const Watch& watch) const {
  const NetGraph& graph = state_->graph;
  std::vector<Tensor> results =
      state_->run(stream, detail::feed_slots(graph, feeds, stream.context()), options, watch);
  Tensors outputs;
  for (size_t i = 0; i < results.size(); i++)
    outputs[graph.values[static_cast<size_t>(graph.outputs[i])].name] = std::move(results[i]);
  return outputs;
}

Model::Bound::Bound(Recording recording, uint64_t next, uint64_t drawn, Tensors inputs, Tensors outputs)
    : recording_(std::move(recording)),
      next_(next),
      drawn_(drawn),
      inputs_(std::move(inputs)),
      outputs_(std::move(outputs)) {}

std::optional<Model::Bound> Model::bind(const Stream& stream, const Tensors& feeds,
                                        const Options& options) const {
  const NetGraph& graph = state_->graph;
  detail::ModelState::Bound bound =
      state_->bind(stream, detail::feed_slots(graph, feeds, stream.context()), options);
  if (!bound.recording) return std::nullopt;
  const auto named = [&](const std::vector<int>& values, const std::vector<Tensor>& tensors) {
    Tensors by_name;
    for (size_t i = 0; i < tensors.size(); i++)
      if (tensors[i].defined()) by_name[graph.values[static_cast<size_t>(values[i])].name] = tensors[i];
    return by_name;
  };
  return Bound(std::move(bound.recording), bound.next, bound.drawn, named(graph.inputs, bound.inputs),
               named(graph.outputs, bound.outputs));
}

Model::Plan Model::explain(const Stream& stream, const Tensors& feeds, const Options& options) const {
  return state_->explain(stream, detail::feed_slots(state_->graph, feeds, stream.context()), options);
}

Model::Trace Model::trace(const Stream& stream, const Tensors& feeds, const Options& options) const {
  return state_->trace(stream, detail::feed_slots(state_->graph, feeds, stream.context()), options);
}

}  // namespace dlprim
