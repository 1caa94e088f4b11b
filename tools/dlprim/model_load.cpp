// What the commands on models work on: files, or networks by name; and the list of those.
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>

#include <dlprim/net_networks.hpp>
#include <dlprim/onnx.hpp>

#include "commands.hpp"
#include "format.hpp"
#include "model_commands.hpp"
#include "model_input.hpp"

namespace dlprim::cli {
namespace {

/// Gives open sizes of that name the size.
void fix(NetGraph& graph, const char* symbol, int64_t size) {
  for (int value : graph.inputs)
    for (Dimension& d : graph.values[static_cast<size_t>(value)].shape.value())
      if (d.size < 0 && d.symbol == symbol) d = {size, ""};
}

NetGraph by_name(const networks::Network& network, const ModelOptions& options) {
  networks::Config config;
  config.weights = options.weights;
  NetGraph graph = networks::make(network.name, config);
  if (!options.inputs.empty() || !options.shapes.empty()) return graph;
  constexpr int64_t kTokens = 128;
  for (const char* side : {"height", "width"}) fix(graph, side, network.image);
  fix(graph, "tokens", kTokens);
  return graph;
}

}  // namespace

NetGraph load_graph(const ModelOptions& options) {
  const std::vector<networks::Network>& named = networks::list();
  const auto found = std::find_if(named.begin(), named.end(),
                                  [&](const networks::Network& n) { return n.name == options.model; });
  const bool by_its_name = found != named.end() && !std::filesystem::exists(options.model);
  if (!by_its_name && !options.weights.empty())
    throw BadInput("--weights is for networks by name; '" + options.model +
                   "' is none ('dlprim networks' lists them)");
  NetGraph graph = by_its_name ? by_name(*found, options) : onnx::load_graph(options.model);
  if (options.batch > 0)
    for (int value : graph.inputs) {
      auto& shape = graph.values[static_cast<size_t>(value)].shape;
      if (shape && !shape->empty() && shape->front().size < 0) shape->front() = {options.batch, ""};
    }
  return graph;
}

int run_networks(const ModelOptions& options) {
  for (const networks::Network& n : networks::list())
    if (options.json)
      std::cout << nlohmann::json{{"name", n.name}, {"paper", n.paper}, {"image", n.image}}.dump()
                << std::endl;
    else
      std::cout << format("%-20s %-14s %s\n", n.name.c_str(),
                          n.image == 0 ? "tokens"
                                       : format("%lld x %lld", static_cast<long long>(n.image),
                                                static_cast<long long>(n.image))
                                             .c_str(),
                          n.paper.c_str());
  return 0;
}

}  // namespace dlprim::cli
