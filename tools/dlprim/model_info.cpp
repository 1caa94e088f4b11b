// `dlprim info`: what a model takes, gives and is made of. Needs no device.
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>

#include "format.hpp"
#include "model_commands.hpp"
#include "model_input.hpp"
#include "node_text.hpp"

namespace dlprim::cli {
namespace {

/// A graph's nodes with those of the graphs in them.
struct Contents {
  std::map<std::string, int64_t> kinds;
  int64_t nodes = 0, constants = 0, constant_bytes = 0;

  void add(const NetGraph& graph) {
    for (const auto& [value, constant] : graph.constants) {
      constants++;
      constant_bytes += static_cast<int64_t>(constant->data.size());
    }
    for (const NetGraph::Node& node : graph.nodes) {
      nodes++;
      kinds[kind_of(node)]++;
      for (const auto& body : node.bodies) add(*body);
    }
  }
};

void print_ports(const char* title, const std::vector<Model::Port>& ports) {
  std::cout << title << "\n";
  for (const Model::Port& port : ports) std::cout << "  " << port.name << "  " << describe(port) << "\n";
}

nlohmann::json ports_json(const std::vector<Model::Port>& ports) {
  nlohmann::json list = nlohmann::json::array();
  for (const Model::Port& port : ports) list.push_back({{"name", port.name}, {"type", describe(port)}});
  return list;
}

}  // namespace

int run_info(const ModelOptions& options) {
  const Model model(load_graph(options));
  Contents contents;
  contents.add(model.graph());
  if (options.json) {
    std::cout << nlohmann::json{{"model", options.model},
                                {"inputs", ports_json(model.inputs())},
                                {"outputs", ports_json(model.outputs())},
                                {"nodes", contents.nodes},
                                {"kinds", contents.kinds},
                                {"constants", contents.constants},
                                {"constant_bytes", contents.constant_bytes}}
                     .dump()
              << std::endl;
    return 0;
  }
  print_ports("inputs", model.inputs());
  print_ports("outputs", model.outputs());
  std::cout << "constants\n  " << contents.constants << " tensors, "
            << format("%.2f MB\n", static_cast<double>(contents.constant_bytes) / 1e6);
  std::cout << "nodes\n  " << contents.nodes << " in all\n";
  for (const auto& [kind, count] : contents.kinds)
    std::cout << format("  %5lld  ", static_cast<long long>(count)) << kind << "\n";
  return 0;
}

}  // namespace dlprim::cli
