// What the commands on models work on: files, or networks by name; and the list of those.
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>

#include <dlprim/net_json.hpp>
#include <dlprim/net_networks.hpp>
#include <dlprim/onnx.hpp>

#include "commands.hpp"
#include "format.hpp"
#include "model_commands.hpp"
#include "model_input.hpp"
#include "suggestion.hpp"

namespace dlprim::cli {
namespace {

/// Gives open sizes of that name the size.
void fix(NetGraph& graph, const char* symbol, int64_t size) {
  for (int value : graph.inputs)
    for (Dimension& d : graph.values[static_cast<size_t>(value)].shape.value())
      if (d.size < 0 && d.symbol == symbol) d = {size, ""};
}

void fix_made_for(NetGraph& graph, const networks::Network& network) {
  constexpr int64_t kTokens = 128;
  for (const char* side : {"height", "width"}) fix(graph, side, network.image);
  fix(graph, "tokens", kTokens);
}

/// As torchvision trained them.
void describe_images(NetGraph& graph, const networks::Network& network) {
  const PixelRule rule(Pixels::imagenet, 3);
  set_image_input(graph, {3, network.image, network.image, rule.mean(), rule.deviation(), {}});
}

void fix_batch(NetGraph& graph, int64_t batch) {
  for (int value : graph.inputs) {
    auto& shape = graph.values[static_cast<size_t>(value)].shape;
    if (shape && !shape->empty() && shape->front().size < 0) shape->front() = {batch, ""};
  }
}

NetGraph by_name(const std::string& name, const std::string& weights, int64_t classes) {
  networks::Config config;
  config.weights = weights;
  config.classes = classes;
  return networks::make(name, config);
}

std::vector<std::string> names() {
  std::vector<std::string> all;
  for (const networks::Network& network : networks::list()) all.push_back(network.name);
  return all;
}

NetGraph from_file(const std::string& path) {
  if (!std::filesystem::exists(path))
    throw Error("there is no file '" + path + "', and no network of that name" + did_you_mean(path, names()) +
                " ('dlprim networks' lists them)");
  return std::filesystem::path(path).extension() == ".json" ? load_json(path) : onnx::load_graph(path);
}

}  // namespace

NetGraph load_graph(const ModelOptions& options, bool fixed, int64_t classes) {
  const std::vector<networks::Network>& named = networks::list();
  const auto found = std::find_if(named.begin(), named.end(),
                                  [&](const networks::Network& n) { return n.name == options.model; });
  const bool by_its_name = found != named.end() && !std::filesystem::exists(options.model);
  if (!by_its_name && !options.weights.empty())
    throw BadInput("--weights is for networks by name; '" + options.model + "' is none" +
                   did_you_mean(options.model, names()) + " ('dlprim networks' lists them)");
  NetGraph graph = by_its_name ? by_name(options.model, options.weights, classes) : from_file(options.model);
  if (!fixed) return graph;
  if (by_its_name && found->image > 0) describe_images(graph, *found);
  if (by_its_name && options.inputs.empty() && options.shapes.empty()) fix_made_for(graph, *found);
  if (options.batch > 0) fix_batch(graph, options.batch);
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
