// Passes: a graph rewritten for the same results in fewer launches. What is known of its values, dtypes and
// shapes, is that of one kind of runs, so that a pass guesses nothing. Values keep their places; new ones
// come behind.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <dlprim/net_graph.hpp>
#include <dlprim/net_host.hpp>

namespace dlprim::detail {

struct ValueFacts {
  DType dtype = DType::f32;
  Shape shape;
  std::shared_ptr<const HostTensor> elements = nullptr;  ///< if they follow from shapes alone
};

/// A graph that is rewritten.
struct Rewritten {
  NetGraph graph;
  std::vector<std::optional<ValueFacts>> facts;  ///< of each value; none where it is not known
  /// What nodes gave from constants alone, by value.
  std::map<int, std::shared_ptr<const HostTensor>> known;
  DType precision = DType::f32;  ///< what products of f32 are to compute in
  /// Constants in that dtype, by what they were: one model's graphs share them. Null: nothing is kept.
  std::map<std::shared_ptr<const HostTensor>, std::shared_ptr<const HostTensor>>* converted = nullptr;
  /// Called after each pass: puts constants that other rewritten graphs have already in place of the same.
  std::function<void(NetGraph&)> share = nullptr;
  bool channels_last = false;     ///< convolutions are faster so
  bool integer_products = false;  ///< products of i8 are faster than those of f32

  const ValueFacts* fact(int value) const {
    const auto at = static_cast<size_t>(value);
    return value != NetGraph::kNone && at < facts.size() && facts[at] ? &*facts[at] : nullptr;
  }
  /// The constant's numbers, or null.
  const HostTensor* constant(int value) const {
    const auto found = graph.constants.find(value);
    return found == graph.constants.end() ? nullptr : found->second.get();
  }
  /// The constant's only number, if it has one.
  std::optional<double> number(int value) const;
  int add_constant(HostTensor tensor);
  /// A new value, of which that is known.
  int add_value(const ValueFacts& known);
};

struct GraphPass {
  const char* name;
  const char* what;                   ///< one line for people
  void (*run)(Rewritten& rewritten);  ///< null: done before facts are known (branches.hpp)
  bool needs_facts;                   ///< otherwise it is done once, when the model is made
};

void multiply_integers(Rewritten& rewritten);
void fold_constants(Rewritten& rewritten);
void remove_no_ops(Rewritten& rewritten);
void remove_repeats(Rewritten& rewritten);
void fold_pads(Rewritten& rewritten);
void fold_affine(Rewritten& rewritten);
void join_products(Rewritten& rewritten);
void recognise_norms(Rewritten& rewritten);
void recognise_attention(Rewritten& rewritten);
void join_splits(Rewritten& rewritten);
void recognise_rotary(Rewritten& rewritten);
void recognise_functions(Rewritten& rewritten);
void lower_precision(Rewritten& rewritten);
void fuse_epilogues(Rewritten& rewritten);
void fuse_pointwise(Rewritten& rewritten);
void choose_layouts(Rewritten& rewritten);
void place_parts(Rewritten& rewritten);
void remove_dead(Rewritten& rewritten);

/// All of them, in their order.
const std::vector<GraphPass>& passes();
/// Which of them run.
enum class Passes : uint8_t { all, without_facts };
/// Runs those that `without` does not name.
void run_passes(Rewritten& rewritten, const std::vector<std::string>& without, Passes which = Passes::all);

/// Who writes a value and who reads it, of the nodes that an output depends on.
class Links {
 public:
  explicit Links(const NetGraph& graph);
  /// The node, or -1: an input or a constant.
  int producer(int value) const {
    return value == NetGraph::kNone ? -1 : producers_[static_cast<size_t>(value)];
  }
  /// The only node that reads the value, or -1: several do, none does, or it is an output.
  int only_reader(int value) const {
    return value == NetGraph::kNone ? -1 : readers_[static_cast<size_t>(value)];
  }

 private:
  std::vector<int> producers_, readers_;
};

/// The node's attribute, or null if it has none of that name and type.
template <class T>
const T* attribute(const NetGraph::Node& node, const char* name) {
  const auto found = node.attributes.find(name);
  return found == node.attributes.end() ? nullptr : std::get_if<T>(&found->second.value);
}
/// The elementwise function that a node is, without parameters of its own; "" if it is none.
std::string plain_function(const NetGraph::Node& node);
/// Whether the node has the attribute, and it is not 0.
bool has_flag(const NetGraph::Node& node, const char* name);
/// The other input of a node with two.
int other_input(const NetGraph::Node& node, int value);
/// A node with one output, y.
NetGraph::Node node_of(const char* kind, std::vector<int> inputs, int y, Attributes attributes = {});
/// Takes nodes without outputs out of the graph.
void drop_emptied(NetGraph& graph);
/// The same, once nodes that were made stand in front of those at these places.
void put_in_front(NetGraph& graph, std::map<size_t, std::vector<NetGraph::Node>> made);

}  // namespace dlprim::detail
