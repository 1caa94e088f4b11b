// Model: its ports, the check of what it is fed, and its variants with fed defaults. Runs are in
// model_state.cpp.
#include <dlprim/net_model.hpp>

#include <list>
#include <utility>

#include "net/indices.hpp"
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

/// Slots that say which feed they are, for FedIndices.
std::vector<Slot> numbered_slots(const NetGraph& graph, const Model::Tensors& feeds, const Context& context) {
  std::vector<Slot> slots = feed_slots(graph, feeds, context);
  for (size_t i = 0; i < slots.size(); i++) slots[i].feed = static_cast<int>(i);
  return slots;
}

std::vector<Model::Port> ports(const NetGraph& graph, const std::vector<int>& values) {
  std::vector<Model::Port> ports;
  for (int value : values) {
    const NetGraph::Value& v = graph.values[static_cast<size_t>(value)];
    ports.push_back({v.name, v.dtype, v.shape});
  }
  return ports;
}

}  // namespace

/// Models in which defaults are inputs: one for each set of them that was fed, those used last.
struct FedDefaults {
  static constexpr size_t kMost = 4;
  NetGraph graph;  ///< as it was given
  std::vector<std::string> without;
  DType precision;
  std::list<std::pair<std::vector<int>, std::unique_ptr<ModelState>>> models;  ///< the last one in front

  ModelState& model_of(const std::vector<int>& fed) {
    for (auto at = models.begin(); at != models.end(); ++at)
      if (at->first == fed) {
        models.splice(models.begin(), models, at);
        return *models.front().second;
      }
    NetGraph variant = graph;
    for (int value : fed) {
      variant.constants.erase(value);
      variant.inputs.push_back(value);
    }
    variant.defaults.clear();
    models.emplace_front(fed, std::make_unique<ModelState>(std::move(variant), without, precision));
    if (models.size() > kMost) models.pop_back();
    return *models.front().second;
  }
};

}  // namespace detail

Model::Model(NetGraph graph, std::vector<std::string> without, DType precision) {
  graph.check();
  if (!graph.defaults.empty())
    fed_ = std::make_shared<detail::FedDefaults>(detail::FedDefaults{graph, without, precision, {}});
  graph.defaults.clear();  // in this one they are constants
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

const Tensor& NamedTensors::at(const std::string& name) const {
  const auto found = find(name);
  if (found != end()) return found->second;
  std::string names;
  for (const auto& [known, tensor] : *this) names += (names.empty() ? "'" : ", '") + known + "'";
  throw ValidationError("name",
                        detail::cat("there is no '", name, "'; there are ", names.empty() ? "none" : names));
}
Tensor& NamedTensors::at(const std::string& name) {
  return const_cast<Tensor&>(std::as_const(*this).at(name));
}

std::vector<Model::Port> Model::defaults() const {
  return fed_ ? detail::ports(fed_->graph, fed_->graph.defaults) : std::vector<Port>();
}

detail::ModelState& Model::state_for(const Tensors& feeds) const {
  std::vector<int> fed;
  if (fed_)
    for (int value : fed_->graph.defaults)
      if (feeds.count(fed_->graph.values[static_cast<size_t>(value)].name) != 0) fed.push_back(value);
  return fed.empty() ? *state_ : fed_->model_of(fed);
}

Model::Tensors Model::run(const Stream& stream, const Tensors& feeds, const Options& options,
                          const Watch& watch) const {
  detail::ModelState& state = state_for(feeds);
  const NetGraph& graph = state.graph;
  const std::vector<detail::Slot> slots = detail::numbered_slots(graph, feeds, stream.context());
  const detail::FedIndices indices(stream, graph, slots, state.indices);
  std::vector<Tensor> results = state.run(stream, slots, options, watch);
  Tensors outputs;
  for (size_t i = 0; i < results.size(); i++)
    outputs[graph.values[static_cast<size_t>(graph.outputs[i])].name] = std::move(results[i]);
  return outputs;
}

void Model::keep(const Kept& kept) const {
  state_->keep(kept);
}

Model::Bound::Bound(Recording recording, uint64_t next, uint64_t drawn, Tensors inputs, Tensors outputs)
    : recording_(std::move(recording)),
      next_(next),
      drawn_(drawn),
      inputs_(std::move(inputs)),
      outputs_(std::move(outputs)) {}

std::optional<Model::Bound> Model::bind(const Stream& stream, const Tensors& feeds,
                                        const Options& options) const {
  detail::ModelState& state = state_for(feeds);
  const NetGraph& graph = state.graph;
  const std::vector<detail::Slot> slots = detail::numbered_slots(graph, feeds, stream.context());
  const detail::FedIndices indices(stream, graph, slots, state.indices);
  detail::ModelState::Bound bound = state.bind(stream, slots, options);
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
  detail::ModelState& state = state_for(feeds);
  const std::vector<detail::Slot> slots = detail::numbered_slots(state.graph, feeds, stream.context());
  const detail::FedIndices indices(stream, state.graph, slots, state.indices);
  return state.explain(stream, slots, options);
}

Model::Trace Model::trace(const Stream& stream, const Tensors& feeds, const Options& options) const {
  detail::ModelState& state = state_for(feeds);
  const std::vector<detail::Slot> slots = detail::numbered_slots(state.graph, feeds, stream.context());
  const detail::FedIndices indices(stream, state.graph, slots, state.indices);
  return state.trace(stream, slots, options);
}

}  // namespace dlprim
