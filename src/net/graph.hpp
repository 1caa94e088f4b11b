// The insides of Net and Pass: the graph of nodes, their parameters, and what one pass keeps. Nodes stand in
// an order in which every node comes after its inputs.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include <dlprim/net.hpp>
#include <dlprim/random.hpp>

namespace dlprim::detail {

/// What a node's forward direction leaves for its backward direction, beside its inputs and output.
struct Saved {
  std::vector<Tensor> tensors;
  RandomState random;
};

struct ForwardStep {
  const Stream& stream;
  Graph& graph;
  Mode mode;
  const std::vector<Tensor>& x;
  const Shape& y_shape;
  Saved& saved;  ///< to be filled in training mode only
};

struct BackwardStep {
  const Stream& stream;
  const Graph& graph;
  std::vector<Tensor> x;  ///< the inputs, where needs_input()
  std::vector<Shape> x_shapes;
  Tensor y;   ///< the output, if needs_output()
  Tensor dy;  ///< row-major; its memory may be reused if nobody else has a handle on it
  Saved saved;
  std::vector<bool> wanted;                  ///< the inputs whose gradient leads somewhere
  std::vector<Tensor> dx;                    ///< the answer; left undefined where no gradient flows
  std::vector<Tensor>& parameter_gradients;  ///< as Graph::parameters

  /// Fresh memory for the gradient of a parameter.
  const Tensor& new_gradient(int parameter);
};

/// An operator of the graph. It has no state of its own but its parameters' places.
class Node {
 public:
  virtual ~Node() = default;
  /// "conv", for names and messages.
  virtual const char* kind() const = 0;
  /// Throws ValidationError if the inputs' shapes do not fit.
  virtual Shape output_shape(const std::vector<Shape>& x) const = 0;
  /// Throws ValidationError if a pass in this mode cannot have inputs of these shapes.
  virtual void check(Mode /*mode*/, const std::vector<Shape>& /*x*/) const {}
  virtual Tensor forward(const ForwardStep& step) const = 0;
  virtual bool has_gradient() const { return true; }
  /// Not called if there is no gradient.
  virtual void backward(BackwardStep& /*step*/) const {}
  /// True if backward() reads input `k`, or the output.
  virtual bool needs_input(int /*k*/) const { return false; }
  virtual bool needs_output() const { return false; }
  /// Places of the node's parameters in Graph::parameters.
  virtual std::vector<int> parameters() const { return {}; }

  std::string name;
  std::vector<int> inputs;
  Shape shape;  ///< of the output for a batch of one
  DType dtype = DType::f32;
};

/// Where data enters. `shape` without its first size is that of a sample.
class InputNode : public Node {
 public:
  const char* kind() const override { return "input"; }
  Shape output_shape(const std::vector<Shape>& /*x*/) const override { return shape; }
  Tensor forward(const ForwardStep& step) const override;
};

struct Graph {
  Graph(const Stream& stream_, uint64_t seed);

  const uint64_t number;  ///< no other graph of this process has it, not even a later one
  Stream stream;          ///< where parameters are made
  RandomState random;
  std::vector<std::unique_ptr<const Node>> nodes;
  std::vector<Parameter> parameters;
  std::set<std::string> rehearsed;  ///< kinds of passes, see rehearse_once()

  /// Adds a node, whose output is the new value. Throws ValidationError before anything has changed.
  Value add(std::unique_ptr<Node> node, const std::vector<Value>& inputs, const std::string& name);
  /// The place of `value` in `nodes`. Throws ValidationError if it is another graph's.
  int id_of(const char* argument, Value value) const;
  const Node& node(const char* argument, Value value) const {
    return *nodes[static_cast<size_t>(id_of(argument, value))];
  }
  /// The input of a layer that computes: f32, of this rank unless -1. Gives its shape for a batch of one.
  const Shape& layer_input(const char* argument, Value value, int rank = -1) const;

  /// "conv2" for the second unnamed conv, or `given`. Throws ValidationError if the name is taken.
  std::string name_for(const char* kind, const std::string& given) const;
  /// New parameters; they give their place.
  int add_uniform(const std::string& name, const Shape& shape, double bound);
  int add_constant(const std::string& name, const Shape& shape, double value, bool trained);
  const Tensor& value(int parameter) const { return parameters[static_cast<size_t>(parameter)].value; }

 private:
  Parameter& new_parameter(const std::string& name, const Shape& shape, bool trained);
};

/// Takes back the parameters made, and the random numbers drawn, in its life, unless they are to be kept.
class Rollback {
 public:
  explicit Rollback(Graph& graph)
      : graph_(graph), parameters_(graph.parameters.size()), random_(graph.random) {}
  ~Rollback() {
    if (kept_) return;
    graph_.parameters.erase(graph_.parameters.begin() + static_cast<std::ptrdiff_t>(parameters_),
                            graph_.parameters.end());
    graph_.random = random_;
  }
  Rollback(const Rollback&) = delete;
  Rollback& operator=(const Rollback&) = delete;
  void keep() { kept_ = true; }

 private:
  Graph& graph_;
  const size_t parameters_;
  const RandomState random_;
  bool kept_ = false;
};

struct PassState {
  PassState(std::shared_ptr<Graph> graph_, const Stream& stream_, Mode mode_)
      : graph(std::move(graph_)), stream(stream_), mode(mode_) {
    const size_t count = graph->nodes.size();
    shapes.resize(count);
    values.resize(count);
    gradients.resize(count);
    saved.resize(count);
    ran.resize(count);
    is_output.resize(count);
  }

  std::shared_ptr<Graph> graph;
  Stream stream;
  Mode mode;
  bool spent = false;  ///< backward() has run
  // One each for every node.
  std::vector<Shape> shapes;
  std::vector<Tensor> values, gradients;
  std::vector<Saved> saved;
  std::vector<bool> ran, is_output;
};

/// What one backward() makes.
struct Gradients {
  std::vector<Tensor> values, parameters;  ///< as the graph's nodes and parameters
};

/// Runs the nodes marked in `ran`; feeds and shapes are there.
void run_forward(PassState& pass);
/// Where the graph has not seen such a pass yet (mode, shapes, outputs): has its programs compiled side by
/// side, those of backward() too if there is a loss to begin at.
void rehearse_once(const PassState& pass);
/// What backward() calls from the value at `top`; parameters' gradients stay.
void rehearse_backward(PassState& pass, size_t top);

/// True if `t` is the only handle on its memory: writing into it changes nothing that anybody sees.
inline bool is_sole_owner(const Tensor& t) {
  return t.storage().use_count() == 1;
}

}  // namespace dlprim::detail
