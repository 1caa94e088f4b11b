// NetGraph: a network as data. Nodes name what they compute by a kind ("conv", "elementwise"; docs/nodes.md
// lists them), read values and write values; constants lie on the host. It knows no device: Model runs it.
//
//   NetGraph g;
//   const int x = g.add_input("x", DType::f32, {{-1, "batch"}, {3}, {-1}, {-1}});
//   const int h = g.add("conv", {x, g.add_constant(weights)}, {{"stride", std::vector<int64_t>{2, 2}}});
//   g.add_output("y", g.add("elementwise", {h}, {{"function", "relu"}}));
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include <dlprim/dims.hpp>
#include <dlprim/dtype.hpp>
#include <dlprim/export.hpp>
#include <dlprim/safetensors.hpp>

namespace dlprim {

/// A size of an input or output.
struct Dimension {
  Dimension(int64_t size_ = -1, std::string symbol_ = {})  // NOLINT(google-explicit-constructor)
      : size(size_), symbol(std::move(symbol_)) {}
  int64_t size;        ///< -1: any
  std::string symbol;  ///< "batch": one size wherever this name stands; empty: none
};

/// What a node is told beside its inputs.
class Attribute {
 public:
  using Integers = std::vector<int64_t>;
  using Numbers = std::vector<double>;
  using Strings = std::vector<std::string>;
  using Any = std::variant<int64_t, double, std::string, Integers, Numbers, Strings>;

  Attribute(int64_t v) : value(v) {}                   // NOLINT(google-explicit-constructor)
  Attribute(int v) : value(int64_t{v}) {}              // NOLINT(google-explicit-constructor)
  Attribute(bool v) : value(int64_t{v}) {}             // NOLINT(google-explicit-constructor)
  Attribute(double v) : value(v) {}                    // NOLINT(google-explicit-constructor)
  Attribute(const char* v) : value(std::string(v)) {}  // NOLINT(google-explicit-constructor)
  Attribute(std::string v) : value(std::move(v)) {}    // NOLINT(google-explicit-constructor)
  Attribute(Integers v) : value(std::move(v)) {}       // NOLINT(google-explicit-constructor)
  Attribute(Numbers v) : value(std::move(v)) {}        // NOLINT(google-explicit-constructor)
  Attribute(Strings v) : value(std::move(v)) {}        // NOLINT(google-explicit-constructor)

  Any value;
};
using Attributes = std::map<std::string, Attribute>;

struct DLPRIM_API NetGraph {
  static constexpr int kNone = -1;  ///< an input or output of a node that is left out

  struct Value {
    std::string name;
    std::optional<DType> dtype;                   ///< if it is known before shapes are
    std::optional<std::vector<Dimension>> shape;  ///< the same
  };
  struct Node {
    std::string kind, name;
    Attributes attributes;
    std::vector<int> inputs, outputs;  ///< places in `values`
    /// Graphs that the node runs (branches of "if", what "loop" repeats). Values of this graph that they use
    /// are inputs of the node, and of the body after its own.
    std::vector<std::shared_ptr<const NetGraph>> bodies;
  };

  std::vector<Value> values;
  std::vector<Node> nodes;  ///< each after those whose outputs it reads
  std::vector<int> inputs, outputs;
  std::map<int, std::shared_ptr<const HostTensor>> constants;  ///< values that no node writes
  std::vector<int> defaults;                    ///< constants that a run may be fed in place of
  std::map<std::string, std::string> metadata;  ///< what the model's makers wrote into it: labels, alphabets

  int add_value(const std::string& name = {});
  int add_input(const std::string& name, DType dtype, std::vector<Dimension> shape);
  int add_constant(HostTensor tensor);
  /// A node with one output, whose value it gives.
  int add(const std::string& kind, std::vector<int> inputs, Attributes attributes = {});
  /// A node with `count` outputs.
  std::vector<int> add_many(const std::string& kind, std::vector<int> inputs, size_t count,
                            Attributes attributes = {});
  void add_output(const std::string& name, int value);

  /// Throws ValidationError if a value is read before it is written, is written twice, or is out of range,
  /// or if a kind is unknown or has the wrong number of inputs; the message names the node.
  void check() const;
};

/// The kinds of nodes there are, sorted.
DLPRIM_API const std::vector<std::string>& node_kinds();

}  // namespace dlprim
