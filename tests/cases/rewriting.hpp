// A graph that is built, run, rewritten by the passes and run again.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <variant>
#include <vector>

#include <dlprim/net_host.hpp>

#include "cases/graph.hpp"
#include "catch.hpp"
#include "net/executor.hpp"
#include "net/passes/pass.hpp"
#include "support.hpp"

namespace dlprim::test {

inline HostTensor whole_numbers(const Shape& shape, uint64_t seed, DType dtype = DType::f32) {
  Rng rng(seed);
  const std::vector<float> values = integers(element_count(shape), rng);
  return host_tensor(dtype, shape, std::vector<double>(values.begin(), values.end()));
}
inline HostTensor sizes(const std::vector<double>& values) {
  return host_tensor(DType::i64, {static_cast<int64_t>(values.size())}, values);
}

/// A graph's outputs. `noted` becomes what the passes are told of it.
inline std::vector<detail::Slot> run_by_nodes(const NetGraph& graph, const std::vector<HostTensor>& inputs,
                                              detail::Rewritten* noted = nullptr,
                                              const Model::Watch& watch = {}) {
  detail::DeviceConstants constants;
  detail::NodeMemory nodes;
  RandomState random;
  const Options options;
  detail::RunScope scope{stream(), options, constants, nodes, watch, random};
  if (noted) {
    noted->graph = graph;
    noted->facts.resize(graph.values.size());
    scope.facts = &noted->facts, scope.facts_of = &graph;
  }
  std::vector<detail::Slot> slots;
  for (const HostTensor& host : inputs)
    slots.push_back({host.dtype, host.shape, nullptr, to_device(stream(), host)});
  std::vector<detail::Slot> outputs = detail::run_graph(scope, graph, slots);
  if (noted)
    for (const auto& [value, constant] : graph.constants)
      noted->facts[static_cast<size_t>(value)] = detail::ValueFacts{constant->dtype, constant->shape};
  return outputs;
}

inline std::string kinds_of(const NetGraph& graph) {
  std::string kinds;
  for (const NetGraph::Node& node : graph.nodes) kinds += (kinds.empty() ? "" : " ") + node.kind;
  return kinds;
}

/// A graph that is built, run, rewritten and run again.
struct RewriteCase {
  NetGraph g;
  std::vector<HostTensor> fed;
  bool channels_last = false;  ///< as on devices that prefer it
  Model::Watch watch;          ///< of the rewritten graph's run

  int input(const Shape& shape, DType dtype = DType::f32) {
    fed.push_back(whole_numbers(shape, 10 + fed.size(), dtype));
    std::vector<Dimension> sizes(shape.begin(), shape.end());
    return g.add_input("x" + std::to_string(fed.size()), dtype, sizes);
  }
  int constant(HostTensor tensor) { return g.add_constant(std::move(tensor)); }
  int apply(const char* function, std::vector<int> inputs) {
    return g.add("elementwise", std::move(inputs), {{"function", function}});
  }
  int conv(int x, const Shape& w, bool bias = false) {
    std::vector<int> inputs{x, constant(whole_numbers(w, 3))};
    if (bias) inputs.push_back(constant(whole_numbers({w[0]}, 4)));
    return g.add("conv", inputs, {{"pad_begin", std::vector<int64_t>{1, 1}}});
  }
  int batch_norm(int x, int64_t channels) {
    // Variances whose roots are whole, with the epsilon.
    const auto numbers = [&](double value) {
      return constant(
          host_tensor(DType::f32, {channels}, std::vector<double>(static_cast<size_t>(channels), value)));
    };
    return g.add("batch_norm", {x, numbers(2), numbers(3), numbers(-1), numbers(0.75)},
                 {{"epsilon", 0.25}, {"momentum", 0.9}, {"training", 0}});
  }

  using Outputs = std::vector<std::vector<float>>;
  static Outputs run(const NetGraph& graph, const std::vector<HostTensor>& inputs,
                     detail::Rewritten* noted = nullptr, const Model::Watch& watch = {}) {
    Outputs outputs;
    for (detail::Slot& slot : run_by_nodes(graph, inputs, noted, watch))
      outputs.push_back(host_values(detail::to_device(stream(), slot)));
    return outputs;
  }

  /// The kinds that are left. What is computed must be equal, or differ by `bound` of the largest number.
  std::string rewritten(double bound = 0, const std::vector<std::string>& without = {}) {
    g.check();
    detail::Rewritten r;
    r.channels_last = channels_last;
    const Outputs before = run(g, fed, &r);
    detail::run_passes(r, without);
    r.graph.check();
    const Outputs after = run(r.graph, fed, nullptr, watch);
    REQUIRE(before.size() == after.size());
    for (size_t k = 0; k < before.size(); k++) {
      REQUIRE(before[k].size() == after[k].size());
      float largest = 0, apart = 0;
      for (size_t i = 0; i < before[k].size(); i++) {
        largest = std::max(largest, std::fabs(before[k][i]));
        apart = std::max(apart, std::fabs(before[k][i] - after[k][i]));
      }
      CHECK(apart <= bound * largest);
      CHECK(largest > 0);
    }
    graph = r.graph;
    return kinds_of(graph);
  }
  NetGraph graph;  ///< after rewritten()

  std::string attribute(size_t node, const char* name) const {
    const auto found = graph.nodes.at(node).attributes.find(name);
    return found == graph.nodes[node].attributes.end() ? "" : std::get<std::string>(found->second.value);
  }
};

}  // namespace dlprim::test
