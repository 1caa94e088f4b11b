// Model: the graph with its constants on devices; feeds checked, programs begun side by side, one run.
#include <dlprim/net_model.hpp>

#include <set>

#include <dlprim/rehearsal.hpp>

#include "core/plan_cache.hpp"
#include "net/executor.hpp"

namespace dlprim {
namespace detail {

struct ModelState {
  NetGraph graph;
  std::vector<std::pair<Context, DeviceConstants>> constants;
  std::set<std::string> rehearsed;  ///< kinds of runs: the feeds' descriptions
  RandomState random;               ///< as in RunScope

  DeviceConstants& constants_of(const Context& context) {
    for (auto& [known, kept] : constants)
      if (known == context) return kept;
    constants.emplace_back(context, DeviceConstants());
    return constants.back().second;
  }
};

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

std::vector<Slot> slots_of(const NetGraph& graph, const Model::Tensors& feeds, const Context& context) {
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

std::vector<Model::Port> ports(const NetGraph& graph, const std::vector<int>& values) {
  std::vector<Model::Port> ports;
  for (int value : values) {
    const NetGraph::Value& v = graph.values[static_cast<size_t>(value)];
    ports.push_back({v.name, v.dtype, v.shape});
  }
  return ports;
}

/// Has the programs of such a run compiled side by side, where there was none yet. Up to where a shape
/// depends on elements.
void rehearse_once(ModelState& state, const RunScope& scope, const std::vector<Slot>& inputs) {
  constexpr size_t kMostKinds = 64;
  PlanKey kind("model");
  for (const Slot& slot : inputs) kind.add(TensorDesc(slot.tensor));
  if (state.rehearsed.size() >= kMostKinds) state.rehearsed.clear();
  if (!state.rehearsed.insert(kind.bytes()).second) return;
  const Rehearsal rehearsal;
  try {
    DeviceConstants none;
    const Model::Watch nobody;
    RandomState random;
    run_graph({scope.stream, scope.options, none, nobody, random}, state.graph, inputs);
  } catch (const Error&) {  // the run itself will say it
  }
}

}  // namespace
}  // namespace detail

Model::Model(NetGraph graph) : state_(std::make_shared<detail::ModelState>()) {
  graph.check();
  state_->graph = std::move(graph);
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
  const std::vector<detail::Slot> inputs = detail::slots_of(graph, feeds, stream.context());
  const detail::RunScope scope{stream, options, state_->constants_of(stream.context()), watch,
                               state_->random};
  detail::rehearse_once(*state_, scope, inputs);
  std::vector<detail::Slot> results = detail::run_graph(scope, graph, inputs);
  Tensors outputs;
  static const NetGraph::Node none;
  for (size_t i = 0; i < results.size(); i++) {
    detail::NodeStep step(none, scope, {&results[i]});
    outputs[graph.values[static_cast<size_t>(graph.outputs[i])].name] = step.dense(0);
  }
  return outputs;
}

}  // namespace dlprim
