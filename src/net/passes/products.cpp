// Products of one tensor with several constant matrices, as those for q, k and v, become one product with all
// of them side by side, where all or none have a bias. What each gave is a part of its result.
#include <dlprim/net_host.hpp>

#include "net/passes/pass.hpp"

namespace dlprim::detail {
namespace {

/// A product with a constant, and its bias.
struct Product {
  size_t node = 0, last = 0;            ///< matmul; that or the node that adds the bias
  const HostTensor* weights = nullptr;  ///< [K, N]; [N, K] if a node turns them
  bool turned = false;
  const HostTensor* bias = nullptr;  ///< [N]

  int columns_axis() const { return turned ? 0 : 1; }
  int64_t columns() const { return weights->shape[columns_axis()]; }
  bool goes_with(const Product& other) const {
    return turned == other.turned && weights->shape[turned ? 1 : 0] == other.weights->shape[turned ? 1 : 0] &&
           weights->dtype == other.weights->dtype && (bias != nullptr) == (other.bias != nullptr) &&
           (!bias || bias->dtype == other.bias->dtype);
  }
};

/// The constants side by side along an axis, 0 or 1, in which alone they differ.
HostTensor side_by_side(const std::vector<const HostTensor*>& parts, int axis) {
  HostTensor all;
  all.dtype = parts[0]->dtype;
  all.shape = parts[0]->shape;
  all.shape[axis] = 0;
  for (const HostTensor* part : parts) all.shape[axis] += part->shape[axis];
  const int64_t rows = axis == 0 ? 1 : all.shape[0];
  for (int64_t row = 0; row < rows; row++)
    for (const HostTensor* part : parts) {
      const auto size = static_cast<std::ptrdiff_t>(part->data.size()) / rows;
      const auto from = part->data.begin() + size * row;
      all.data.insert(all.data.end(), from, from + size);
    }
  return all;
}

class Joining {
 public:
  explicit Joining(Rewritten& r) : r_(r), links_(r.graph) {}

  void run() {
    std::map<int, std::vector<Product>> of;  // by what is multiplied
    for (size_t n = 0; n < r_.graph.nodes.size(); n++)
      if (const auto product = product_at(n)) of[r_.graph.nodes[n].inputs[0]].push_back(*product);
    for (auto& [value, products] : of)
      while (products.size() > 1) {
        std::vector<Product> together, others;
        for (const Product& product : products)
          (product.goes_with(products[0]) ? together : others).push_back(product);
        if (together.size() > 1) join(value, together);
        products = std::move(others);
      }
    put_in_front(r_.graph, std::move(in_place_of_));
  }

 private:
  std::optional<Product> product_at(size_t n) const {
    const NetGraph::Node& node = r_.graph.nodes[n];
    if (node.kind != "matmul" || !node.attributes.empty() || node.inputs.size() > 3 ||
        node.outputs.size() != 1)
      return {};
    Product product;
    product.node = product.last = n;
    product.weights = r_.constant(node.inputs[1]);
    if (!product.weights) product.weights = turned_constant(node.inputs[1], product.turned);
    if (!product.weights || product.weights->shape.size() != 2 || product.columns() == 0) return {};
    if (node.inputs.size() == 3) {
      product.bias = r_.constant(node.inputs[2]);
      if (!product.bias) return {};
    } else if (const int reader = links_.only_reader(node.outputs[0]); reader >= 0) {
      const NetGraph::Node& next = r_.graph.nodes[static_cast<size_t>(reader)];
      if (plain_function(next) == "add" && next.outputs.size() == 1 && next.inputs[0] != next.inputs[1])
        product.bias = r_.constant(other_input(next, node.outputs[0]));
      if (product.bias && product.bias->shape != Shape{product.columns()}) product.bias = nullptr;
      if (product.bias) product.last = static_cast<size_t>(reader);
    }
    return product.bias && product.bias->dtype != product.weights->dtype ? std::nullopt
                                                                         : std::optional(product);
  }

  const HostTensor* turned_constant(int value, bool& turned) const {
    const int producer = links_.producer(value);
    if (producer < 0) return nullptr;
    const NetGraph::Node& node = r_.graph.nodes[static_cast<size_t>(producer)];
    const auto* axes = attribute<std::vector<int64_t>>(node, "axes");
    turned = node.kind == "transpose" && (!axes || *axes == std::vector<int64_t>{1, 0});
    return turned ? r_.constant(node.inputs[0]) : nullptr;
  }

  void join(int a, const std::vector<Product>& products) {
    std::vector<const HostTensor*> weights, biases;
    std::vector<int64_t> sizes;
    NetGraph::Node split;
    for (const Product& product : products) {
      weights.push_back(product.weights);
      biases.push_back(product.bias);
      sizes.push_back(product.columns());
      split.outputs.push_back(r_.graph.nodes[product.last].outputs[0]);
    }
    int b = r_.add_constant(side_by_side(weights, products[0].columns_axis()));
    const int bias = biases[0] ? r_.add_constant(side_by_side(biases, 0)) : NetGraph::kNone;

    const size_t first = products[0].node;
    const std::string name = r_.graph.nodes[first].name;
    for (const Product& product : products)
      r_.graph.nodes[product.node].outputs.clear(), r_.graph.nodes[product.last].outputs.clear();
    std::vector<NetGraph::Node>& nodes = in_place_of_[first];
    if (products[0].turned) {
      const int across = r_.graph.add_value();
      nodes.push_back(node_of("transpose", {b}, across, {{"axes", std::vector<int64_t>{1, 0}}}));
      b = across;
    }
    const int whole = r_.graph.add_value();
    std::vector<int> inputs{a, b};
    if (bias != NetGraph::kNone) inputs.push_back(bias);
    nodes.push_back(node_of("matmul", std::move(inputs), whole));
    nodes.back().name = name;
    split.inputs = {whole};
    split.kind = "split";
    split.attributes = {{"axis", -1}, {"sizes", sizes}};
    nodes.push_back(std::move(split));
    note_facts(nodes);
  }

  /// Where something is known of the parts, it is known of the whole.
  void note_facts(const std::vector<NetGraph::Node>& nodes) {
    if (r_.facts.empty()) return;
    r_.facts.resize(r_.graph.values.size());
    const NetGraph::Node& split = nodes.back();
    const NetGraph::Node& product = nodes[nodes.size() - 2];
    const HostTensor& b = *r_.constant(nodes[0].inputs[nodes.size() == 3 ? 0 : 1]);
    if (nodes.size() == 3)
      r_.facts[static_cast<size_t>(product.inputs[1])] = ValueFacts{b.dtype, {b.shape[1], b.shape[0]}};
    const ValueFacts* part = r_.fact(split.outputs[0]);
    if (!part) return;
    ValueFacts whole = *part;
    whole.shape[whole.shape.size() - 1] = b.shape[nodes.size() == 3 ? 0 : 1];
    r_.facts[static_cast<size_t>(product.outputs[0])] = whole;
  }

  Rewritten& r_;
  const Links links_;
  std::map<size_t, std::vector<NetGraph::Node>> in_place_of_;
};

}  // namespace

void join_products(Rewritten& r) {
  Joining(r).run();
}

}  // namespace dlprim::detail
