// Layers without parameters whose output is again a feature map or a vector: activations, pooling, dropout,
// addition, flattening.
#include <dlprim/dropout.hpp>
#include <dlprim/pointwise.hpp>

#include "core/check.hpp"
#include "net/graph.hpp"

namespace dlprim {
namespace {

using detail::BackwardStep;
using detail::ForwardStep;
using detail::Node;
using detail::require;

/// Where dx may be written: over dy if that harms nobody.
Tensor dx_over_dy(const BackwardStep& step) {
  return detail::is_sole_owner(step.dy) ? step.dy : Tensor(step.stream, step.dy.shape());
}

class ActivationNode : public Node {
 public:
  Activation f = Activation::identity;

  const char* kind() const override { return name_of(f); }
  bool needs_output() const override { return true; }
  Shape output_shape(const std::vector<Shape>& x) const override { return x[0]; }
  Tensor forward(const ForwardStep& step) const override {
    Tensor y(step.stream, step.y_shape);
    activation(step.stream, step.x[0], f, y);
    return y;
  }
  void backward(BackwardStep& step) const override {
    step.dx[0] = dx_over_dy(step);
    activation_backward(step.stream, step.dy, step.y, f, step.dx[0]);
  }
};

class PoolNode : public Node {
 public:
  PoolParams params;

  const char* kind() const override {
    return params.mode == PoolMode::max       ? "max_pool"
           : params.mode == PoolMode::average ? "avg_pool"
                                              : "lp_pool";
  }
  Shape output_shape(const std::vector<Shape>& x) const override { return pool_output_shape(x[0], params); }
  Tensor forward(const ForwardStep& step) const override {
    Tensor y(step.stream, step.y_shape), indices;
    if (step.mode == Mode::training && params.mode == PoolMode::max) {
      indices = Tensor(step.stream, step.y_shape, DType::i32);
      step.saved.tensors = {indices};
    }
    dlprim::pool(step.stream, step.x[0], params, y, indices);
    return y;
  }
  void backward(BackwardStep& step) const override {
    step.dx[0] = Tensor(step.stream, step.x_shapes[0]);
    PoolSaved saved;
    if (params.mode == PoolMode::max) saved.indices = step.saved.tensors[0];
    if (params.mode == PoolMode::lp) saved.x = step.x[0], saved.y = step.y;
    pool_backward(step.stream, step.dy, saved, params, step.dx[0]);
  }
  bool needs_input(int /*k*/) const override { return params.mode == PoolMode::lp; }
  bool needs_output() const override { return params.mode == PoolMode::lp; }
};

class DropoutNode : public Node {
 public:
  double p = 0;

  const char* kind() const override { return "dropout"; }
  Shape output_shape(const std::vector<Shape>& x) const override { return x[0]; }
  Tensor forward(const ForwardStep& step) const override {
    if (step.mode == Mode::evaluation) return step.x[0];
    Tensor y(step.stream, step.y_shape);
    step.saved.random = step.graph.random.take(y.numel());
    dropout(step.stream, step.x[0], p, step.saved.random, y);
    return y;
  }
  void backward(BackwardStep& step) const override {
    step.dx[0] = dx_over_dy(step);
    dropout(step.stream, step.dy, p, step.saved.random, step.dx[0]);
  }
};

class AddNode : public Node {
 public:
  const char* kind() const override { return "add"; }
  Shape output_shape(const std::vector<Shape>& x) const override {
    require(x[0] == x[1], "b", "shape ", to_string(x[1]), " must be that of a, ", to_string(x[0]));
    return x[0];
  }
  Tensor forward(const ForwardStep& step) const override {
    Tensor y(step.stream, step.y_shape);
    pointwise(step.stream, {step.x[0], step.x[1]}, {y}, {}, "y0 = x0 + x1");
    return y;
  }
  void backward(BackwardStep& step) const override {
    step.dx[0] = step.dy;  // one memory, two handles: nobody writes over it any more
    step.dx[1] = step.dy;
  }
};

class FlattenNode : public Node {
 public:
  const char* kind() const override { return "flatten"; }
  Shape output_shape(const std::vector<Shape>& x) const override {
    return {x[0][0], element_count(x[0]) / x[0][0]};
  }
  Tensor forward(const ForwardStep& step) const override { return step.x[0].reshape(step.y_shape); }
  void backward(BackwardStep& step) const override { step.dx[0] = step.dy.reshape(step.x_shapes[0]); }
};

}  // namespace

Value Net::activation(Value x, Activation f) {
  graph_->layer_input("x", x);
  require(is_told_from_result(f), "f", "the gradient of ", name_of(f), " cannot be told from its result");
  auto node = std::make_unique<ActivationNode>();
  node->f = f;
  return graph_->add(std::move(node), {x}, "");
}

Value Net::pool(Value x, const PoolParams& params) {
  const int spatial = params.output.empty() ? params.kernel.size() : params.output.size();
  graph_->layer_input("x", x, 2 + spatial);
  auto node = std::make_unique<PoolNode>();
  node->params = params;
  return graph_->add(std::move(node), {x}, "");
}

namespace {

PoolParams square_pool(PoolMode mode, int64_t kernel, int64_t stride, int64_t pad) {
  PoolParams params;
  params.mode = mode;
  params.kernel = {kernel, kernel};
  if (stride != 0) params.stride = {stride, stride};
  params.pad_begin = params.pad_end = {pad, pad};
  return params;
}

}  // namespace

Value Net::max_pool(Value x, int64_t kernel, int64_t stride, int64_t pad) {
  return pool(x, square_pool(PoolMode::max, kernel, stride, pad));
}

Value Net::avg_pool(Value x, int64_t kernel, int64_t stride, int64_t pad) {
  return pool(x, square_pool(PoolMode::average, kernel, stride, pad));
}

Value Net::global_avg_pool(Value x) {
  return pool(x, global_pool(PoolMode::average, 2));
}

Value Net::dropout(Value x, double p) {
  graph_->layer_input("x", x);
  require(p >= 0 && p <= 1, "p", p, " must be in [0, 1]");
  auto node = std::make_unique<DropoutNode>();
  node->p = p;
  return graph_->add(std::move(node), {x}, "");
}

Value Net::add(Value a, Value b) {
  graph_->layer_input("a", a);
  graph_->layer_input("b", b);
  return graph_->add(std::make_unique<AddNode>(), {a, b}, "");
}

Value Net::flatten(Value x) {
  graph_->layer_input("x", x);
  return graph_->add(std::make_unique<FlattenNode>(), {x}, "");
}

}  // namespace dlprim
