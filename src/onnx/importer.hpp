// From an ONNX file's messages to a NetGraph. Each operator has a function that says it in the net's kinds;
// it reads inputs and attributes through NodeImport, which refuses a node with an input or attribute that
// nobody looked at: what is not understood is an error, never left out.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include <dlprim/net_graph.hpp>

#include "onnx/constant.hpp"
#include "onnx/external.hpp"
#include "onnx/narrow.hpp"
#include "onnx/proto.hpp"

namespace dlprim::onnx {

class NodeImport;

/// How one operator is imported, from this version of its domain's opset on.
struct OperatorEntry {
  const char* name;
  void (*import)(NodeImport& node);
  const char* argument = nullptr;  ///< what `import` finds as node.argument
  int since = 1;
  const char* domain = "";
};
/// The newest entry that serves `opset`; null if there is none.
const OperatorEntry* find_operator(const std::string& domain, const std::string& name, int64_t opset);

/// What all graphs of a file share.
struct FileImport {
  const ModelMessage& model;
  ExternalFiles& files;
  int64_t nodes = 0;  ///< imported so far, functions written out: there is a limit
};

/// Names of one graph, or of one function that is written out in it.
struct Names {
  std::unordered_map<std::string, int> values;
  std::unordered_map<std::string, const TensorMessage*>
      initializers;  ///< those that nobody has asked for yet
  std::unordered_map<std::string, const SparseTensorMessage*> sparse_initializers;
  std::unordered_map<std::string, const TypeMessage*> types;  ///< as the graph declares them, unchecked
  std::map<std::string, const AttributeMessage*> attributes;  ///< of the function's call
  const std::vector<OpsetMessage>* opsets = nullptr;
  bool is_function = false;  ///< sees no names but its own
};

/// One graph while it is built.
class GraphImport {
 public:
  GraphImport(FileImport& file, GraphImport* outer, int depth) : file_(file), outer_(outer), depth_(depth) {}

  /// Imports the whole message. Inputs of a body have no types.
  void import(const GraphMessage& message);
  NetGraph& graph() { return graph_; }
  /// Values of the outer graph that this one uses, in the order of the inputs that it has for them.
  const std::vector<int>& captured() const { return captured_; }

  /// The value of that name. Throws ValidationError if there is none.
  int value(const std::string& name);
  /// A graph in an attribute, with what it captures of this one.
  std::shared_ptr<const NetGraph> body(const GraphMessage& message, std::vector<int>& captured);
  void define(const std::string& name, int value);
  /// A value that stands for several, whose number is known: a sequence. Null if it is none.
  const std::vector<int>* sequence(int value) const;
  int add_sequence(std::vector<int> members);
  /// Null if the value's type is a dtype.
  const Narrow* narrow(int value) const;
  void set_narrow(int value, const Narrow* type);
  Names& names() { return *names_; }
  FileImport& file() { return file_; }

 private:
  friend class NodeImport;
  int find(const std::string& name);
  void import_node(const NodeMessage& node);
  void write_out(const NodeMessage& node, const FunctionMessage& function);

  FileImport& file_;
  GraphImport* const outer_;
  const int depth_;  ///< graphs and functions around this one
  NetGraph graph_;
  Names own_;
  Names* names_ = &own_;
  int functions_ = 0;  ///< written out one in the other
  std::unordered_map<int, const Narrow*> narrow_;
  std::unordered_map<int, std::vector<int>> sequences_;
  std::unordered_map<int, int> captures_;  ///< outer value: own
  std::vector<int> captured_;
};

/// One node while it is imported.
class NodeImport {
 public:
  NodeImport(GraphImport& graph, const NodeMessage& message, int64_t opset);

  const NodeMessage& message;
  const int64_t opset;             ///< the version of its domain
  const char* argument = nullptr;  ///< the entry's

  // Inputs: values of the graph, NetGraph::kNone where one is left out. in() refuses narrow types where
  // the operator does more than move numbers.
  int input_count() const { return static_cast<int>(message.inputs.size()); }
  bool has(int k) const;
  int in(int k);
  /// An input of a type that is a dtype, or is not.
  struct Typed {
    int value;
    const Narrow* narrow;
  };
  Typed typed_in(int k);
  std::vector<int> all_inputs();
  /// The members of an input that is a sequence.
  const std::vector<int>& sequence_in(int k);
  /// The input if it is a constant of the file; null otherwise.
  const HostTensor* constant_in(int k);
  /// The shape that the file declares for the input, which nothing has checked; null if it declares none.
  const std::vector<DimensionMessage>* declared_shape(int k) const;

  // Attributes.
  bool has(const char* name);
  int64_t integer(const char* name, int64_t standard);
  double number(const char* name, double standard);
  std::string text(const char* name, const std::string& standard = {});
  std::vector<int64_t> integers(const char* name);
  std::vector<double> numbers(const char* name);
  std::vector<std::string> texts(const char* name);
  const TensorMessage* tensor(const char* name);
  const SparseTensorMessage* sparse_tensor(const char* name);
  /// An ElementType as a dtype. Throws ValidationError if dlprim lacks it.
  std::string dtype(const char* name, ElementType standard);
  /// The type that it is, if it is no dtype; null otherwise.
  const Narrow* narrow(const char* name);
  /// A graph; values that it captures are added to `captured`.
  std::shared_ptr<const NetGraph> body(const char* name, std::vector<int>& captured);
  /// Reads an attribute that says nothing to inference.
  void ignore(const char* name) { find(name); }

  // The net's nodes.
  int emit(const std::string& kind, std::vector<int> inputs, Attributes attributes = {});
  std::vector<int> emit_many(const std::string& kind, std::vector<int> inputs, size_t outputs,
                             Attributes attributes = {});
  int apply(const char* function, std::vector<int> inputs, std::vector<double> parameters = {});
  int constant(const std::vector<int64_t>& elements);  ///< i64, one axis
  int constant(HostTensor tensor) { return graph_.graph().add_constant(std::move(tensor)); }
  int constant_of(const TensorMessage& tensor);
  int constant_of(const SparseTensorMessage& tensor);
  int output_count() const { return static_cast<int>(message.outputs.size()); }
  bool wants(int k) const;
  /// Output `k` of the node is this value.
  void result(int value, int k = 0);
  void result(const Typed& typed);
  void result_sequence(std::vector<int> members);
  /// The outputs are these values of the node made last; what nobody wants of it is not computed. An output
  /// of the file beyond them is refused, by finish().
  void results(const std::vector<int>& values);
  /// The last node made, to add bodies to it.
  NetGraph::Node& last() { return graph_.graph().nodes.back(); }

  /// Refuses the node.
  [[noreturn]] void refuse(const std::string& why) const;
  /// Throws if an input or an attribute was not read, or an output not made.
  void finish();
  std::string place() const;

 private:
  const AttributeMessage* find(const char* name);

  GraphImport& graph_;
  std::set<std::string> read_attributes_;
  std::vector<bool> read_inputs_;
  const Narrow* moved_ = nullptr;  ///< the type of what is moved
  std::vector<bool> made_;
};

}  // namespace dlprim::onnx
