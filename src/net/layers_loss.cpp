// Layers at a classifier's end: softmax, the cross-entropy loss, and the number of right answers.
#include <dlprim/class_loss.hpp>
#include <dlprim/copy.hpp>
#include <dlprim/pointwise.hpp>
#include <dlprim/softmax.hpp>

#include <numeric>

#include "core/check.hpp"
#include "net/graph.hpp"

namespace dlprim {
namespace {

using detail::BackwardStep;
using detail::ForwardStep;
using detail::Graph;
using detail::Node;
using detail::require;

class SoftmaxNode : public Node {
 public:
  const char* kind() const override { return "softmax"; }
  bool needs_output() const override { return true; }
  Shape output_shape(const std::vector<Shape>& x) const override { return x[0]; }
  Tensor forward(const ForwardStep& step) const override {
    Tensor y(step.stream, step.y_shape);
    softmax(step.stream, step.x[0], {}, 1, y);
    return y;
  }
  void backward(BackwardStep& step) const override {
    step.dx[0] = Tensor(step.stream, step.x_shapes[0]);
    softmax_backward(step.stream, step.dy, step.y, {}, 1, step.dx[0]);
  }
};

class CrossEntropyNode : public Node {
 public:
  const char* kind() const override { return "cross_entropy"; }
  bool needs_input(int /*k*/) const override { return true; }
  Shape output_shape(const std::vector<Shape>& /*x*/) const override { return {1}; }
  Tensor forward(const ForwardStep& step) const override {
    Tensor y(step.stream, {1});
    cross_entropy(step.stream, step.x[0], step.x[1], {}, {}, y);
    return y;
  }
  void backward(BackwardStep& step) const override {
    if (!step.wanted[0]) return;
    step.dx[0] = Tensor(step.stream, step.x[0].shape());
    cross_entropy_backward(step.stream, step.dy, step.x[0], step.x[1], {}, {}, step.dx[0]);
  }
};

class CountCorrectNode : public Node {
 public:
  Tensor numbers;  ///< 0, 1, ..., C-1 as f32

  const char* kind() const override { return "count_correct"; }
  bool has_gradient() const override { return false; }
  Shape output_shape(const std::vector<Shape>& /*x*/) const override { return {1}; }
  Tensor forward(const ForwardStep& step) const override {
    const int64_t rows = step.x[0].size(0);
    // a0: the largest so far, a1: its place. NaN is larger than nothing, so a row of NaN is never right.
    const Reduction largest{2, "a0 = -INFINITY; a1 = -1", "if (x0 > a0) { a0 = x0; a1 = x1; }",
                            "if (b0 > a0 || (b0 == a0 && b1 < a1)) { a0 = b0; a1 = b1; }", "y0 = a1"};
    Tensor place(step.stream, {rows, 1}), count(step.stream, {1});
    reduce(step.stream, {step.x[0], numbers}, {place}, {}, largest);
    reduce(step.stream, {place.reshape({rows}), step.x[1]}, {count}, {}, sum_of("x0 == x1 ? 1 : 0"));
    return count;
  }
};

/// Checks what cross_entropy and count_correct are given, and gives the number of classes.
int64_t check_classifier(const Graph& graph, Value logits, Value labels) {
  const Shape& shape = graph.layer_input("logits", logits, 2);
  const Node& label = graph.node("labels", labels);
  require(label.dtype == DType::u8 || label.dtype == DType::i32 || label.dtype == DType::i64, "labels", "'",
          label.name, "' is ", name_of(label.dtype), ", must be u8, i32 or i64");
  require(label.shape.size() == 1, "labels", "'", label.name, "' has rank ", label.shape.size(),
          " with its batch axis, must have 1");
  return shape[1];
}

}  // namespace

Value Net::softmax(Value x) {
  const Shape& in = graph_->layer_input("x", x);
  require(in.size() >= 2, "x", "has shape ", to_string(in), ": there is no axis 1");
  return graph_->add(std::make_unique<SoftmaxNode>(), {x}, "");
}

Value Net::cross_entropy(Value logits, Value labels) {
  check_classifier(*graph_, logits, labels);
  return graph_->add(std::make_unique<CrossEntropyNode>(), {logits, labels}, "");
}

Value Net::count_correct(Value logits, Value labels) {
  const int64_t classes = check_classifier(*graph_, logits, labels);
  std::vector<float> numbers(static_cast<size_t>(classes));
  std::iota(numbers.begin(), numbers.end(), 0.0f);
  auto node = std::make_unique<CountCorrectNode>();
  node->numbers = Tensor(graph_->stream, {classes});
  write(graph_->stream, node->numbers, numbers);
  return graph_->add(std::move(node), {logits, labels}, "");
}

}  // namespace dlprim
