// NetGraph: building it node by node, and the check that every graph passes before it runs.
#include <dlprim/net_graph.hpp>

#include "core/check.hpp"
#include "net/nodes/node.hpp"

namespace dlprim {

using detail::cat;
using detail::require;

int NetGraph::add_value(const std::string& name) {
  values.push_back({name, std::nullopt, std::nullopt});
  return static_cast<int>(values.size()) - 1;
}

int NetGraph::add_input(const std::string& name, DType dtype, std::vector<Dimension> shape) {
  const int value = add_value(name);
  values.back().dtype = dtype;
  values.back().shape = std::move(shape);
  inputs.push_back(value);
  return value;
}

int NetGraph::add_constant(HostTensor tensor) {
  const int value = add_value(tensor.name);
  constants[value] = std::make_shared<const HostTensor>(std::move(tensor));
  return value;
}

int NetGraph::add(const std::string& kind, std::vector<int> in, Attributes attributes) {
  return add_many(kind, std::move(in), 1, std::move(attributes)).front();
}

std::vector<int> NetGraph::add_many(const std::string& kind, std::vector<int> in, size_t count,
                                    Attributes attributes) {
  Node node;
  node.kind = kind;
  node.attributes = std::move(attributes);
  node.inputs = std::move(in);
  for (size_t i = 0; i < count; i++) node.outputs.push_back(add_value());
  nodes.push_back(std::move(node));
  return nodes.back().outputs;
}

void NetGraph::add_output(const std::string& name, int value) {
  require(value >= 0 && value < static_cast<int>(values.size()), "value", value, " is no value of the graph");
  values[static_cast<size_t>(value)].name = name;
  outputs.push_back(value);
}

namespace {

/// Which values have been written, in the order of the graph.
class Written {
 public:
  explicit Written(const NetGraph& graph) : written_(graph.values.size()) {}

  void write(int value, const std::string& by) {
    require(value >= 0 && value < static_cast<int>(written_.size()), "graph", by, " writes value ", value,
            ", of ", written_.size());
    require(!written_[static_cast<size_t>(value)], "graph", by, " writes value ", value,
            ", which was written before");
    written_[static_cast<size_t>(value)] = true;
  }
  void read(int value, const std::string& by) const {
    require(value >= 0 && value < static_cast<int>(written_.size()) && written_[static_cast<size_t>(value)],
            "graph", by, " reads value ", value, ", which nothing has written");
  }

 private:
  std::vector<bool> written_;
};

void check_node(const NetGraph::Node& node, const std::string& name) {
  const detail::NodeKind* kind = detail::find_kind(node.kind);
  require(kind != nullptr, "graph", name, " is of no kind that there is");
  const int count = static_cast<int>(node.inputs.size());
  require(count >= kind->fewest && count <= kind->most, "graph", name, " has ", count, " inputs, must have ",
          kind->fewest, " to ", kind->most);
  for (int k = 0; k < kind->fewest; k++)
    require(node.inputs[static_cast<size_t>(k)] != NetGraph::kNone, "graph", name, " lacks input ", k);
  for (const auto& body : node.bodies) {
    require(body != nullptr, "graph", name, " has an empty body");
    body->check();
  }
}

}  // namespace

void NetGraph::check() const {
  Written written(*this);
  for (int value : inputs) written.write(value, "the list of inputs");
  for (const auto& [value, constant] : constants) written.write(value, "the list of constants");
  for (int value : defaults)
    require(constants.count(value) != 0, "graph", "the list of defaults has value ", value,
            ", which is no constant");
  for (const Node& node : nodes) {
    const std::string name = cat("node '", node.name, "' (", node.kind, ")");
    check_node(node, name);
    for (int value : node.inputs)
      if (value != kNone) written.read(value, name);
    for (int value : node.outputs)
      if (value != kNone) written.write(value, name);
  }
  for (int value : outputs) written.read(value, "the list of outputs");
}

}  // namespace dlprim
