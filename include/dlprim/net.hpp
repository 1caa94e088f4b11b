// Net: a graph of operators that can be trained. Layers are added once; each forward pass then runs the graph
// on a batch of any size, and Pass::backward differentiates it.
//
//   Net net(stream, seed);
//   const Value images = net.input({1, 28, 28}), labels = net.input({}, DType::u8);
//   Value h = net.relu(net.batch_norm(net.conv(images, ConvLayer(16, 3).pad(1))));
//   h = net.max_pool(h, 2);
//   const Value loss = net.cross_entropy(net.linear(net.flatten(h), 10), labels);
//
//   Adam solver(net);
//   Pass pass = net.forward(stream, Mode::training, {{images, x}, {labels, t}}, {loss});
//   pass.backward(loss);
//   solver.step(stream);
//   const float value = read<float>(stream, pass[loss])[0];  // the only line that waits for the device
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <dlprim/activation.hpp>
#include <dlprim/batch_norm.hpp>
#include <dlprim/export.hpp>
#include <dlprim/net_layers.hpp>
#include <dlprim/pool.hpp>
#include <dlprim/stream.hpp>
#include <dlprim/tensor.hpp>

namespace dlprim {

namespace detail {
struct Graph;
struct PassState;
}  // namespace detail

/// Training: BatchNorm uses and records the batch's statistics, dropout drops, and what backward() needs is
/// kept. Evaluation: BatchNorm uses the running statistics, dropout does nothing, and every value goes after
/// its last use.
enum class Mode : uint8_t { training, evaluation };

/// The result of a layer, or an input: a place in a Net's graph, not data.
class Value {
 public:
  Value() = default;

 private:
  friend struct detail::Graph;
  Value(uint64_t graph, int id) : graph_(graph), id_(id) {}
  uint64_t graph_ = 0;  ///< its number; 0: none
  int id_ = -1;
};

/// The data of an input in one pass: [N, ...], the same N for all inputs.
struct Feed {
  Value input;
  Tensor tensor;
};

/// What a layer learns, or, where `trained` is false, records (BatchNorm's running statistics).
struct Parameter {
  std::string name;  ///< "conv1.weight"
  Tensor value;      ///< f32
  Tensor gradient;   ///< of the last backward pass; undefined if the loss did not depend on the parameter
  bool trained = true;
};

/// One run of the graph. It owns the values that were asked for and, until backward(), those that backward
/// needs. Copies share one state. It may outlive the Net.
class DLPRIM_API Pass {
 public:
  /// One of the outputs that forward() was asked for. Throws ValidationError for another value.
  const Tensor& operator[](Value output) const;

  /// Differentiates `output`, and puts the gradients into the net's parameters. `dy` is the gradient that
  /// flows into it: 1 if undefined, and then `output` must have one element. Gradients of the values `kept`
  /// (inputs, or any other) can be read afterwards. Can be called once, in training mode. Throws
  /// ValidationError; and OutOfMemory, after which the parameters' old gradients are there, but what the pass
  /// kept is not: only another forward() helps.
  void backward(Value output, const std::vector<Value>& kept = {}, const Tensor& dy = {});
  /// The gradient of a value that backward() was told to keep.
  const Tensor& gradient(Value kept) const;

 private:
  friend class Net;
  explicit Pass(std::shared_ptr<detail::PassState> state) : state_(std::move(state)) {}
  std::shared_ptr<detail::PassState> state_;
};

/// Copies share one graph. One thread at a time may use it. Everything is asynchronous but save(). Layers
/// throw ValidationError when their input does not fit; the net has not changed then.
class DLPRIM_API Net {
 public:
  /// Parameters are made, and their first values drawn from `seed`, in `stream` as layers are added. A pass
  /// in another stream must wait for that one (Stream::record and Stream::wait).
  Net(const Stream& stream, uint64_t seed);

  /// `shape` is that of one sample: a batch of N is fed as [N, shape...].
  Value input(const Shape& shape, DType dtype = DType::f32, const std::string& name = "");

  // Layers with parameters. Weights and biases start uniform in +-1/sqrt(fan-in) (He et al., 2015, with slope
  // sqrt(5), the custom of PyTorch), BatchNorm's scale at 1 and shift at 0.

  /// x: [N, C, H, W]. "name.weight": [filters, C/groups, R, S], "name.bias": [filters].
  Value conv(Value x, const ConvLayer& layer);
  /// x: [N, K]. "name.weight": [features, K], "name.bias": [features].
  Value linear(Value x, const LinearLayer& layer);
  /// x: [N, C, ...]. "name.weight", "name.bias", "name.running_mean" and "name.running_var": [C].
  Value batch_norm(Value x, const BatchNormParams& params = {}, const std::string& name = "");

  /// Throws ValidationError unless is_told_from_result(f).
  Value activation(Value x, Activation f);
  Value relu(Value x) { return activation(x, Activation::relu); }
  Value relu6(Value x) { return activation(x, Activation::relu6); }
  Value sigmoid(Value x) { return activation(x, Activation::sigmoid); }
  Value tanh(Value x) { return activation(x, Activation::tanh); }

  /// x: [N, C, ...] with as many more dimensions as the params' lists have.
  Value pool(Value x, const PoolParams& params);
  /// `stride` 0: the kernel's size.
  Value max_pool(Value x, int64_t kernel, int64_t stride = 0, int64_t pad = 0);
  Value avg_pool(Value x, int64_t kernel, int64_t stride = 0, int64_t pad = 0);
  /// [N, C, H, W] to [N, C, 1, 1].
  Value global_avg_pool(Value x);

  /// Drops an element with probability p in training.
  Value dropout(Value x, double p = 0.5);
  /// a + b, of one shape: a residual connection.
  Value add(Value a, Value b);
  /// [N, ...] to [N, K].
  Value flatten(Value x);
  /// Along axis 1.
  Value softmax(Value x);

  /// [1]: the mean over the batch of -log softmax(logits)[label]. logits: [N, C]; labels: [N], i32, i64 or
  /// u8. A label outside [0, C) is left out of the mean; with none inside it is NaN.
  Value cross_entropy(Value logits, Value labels);
  /// [1]: how many rows have their largest logit (the first of equals) where the label says. No gradient.
  Value count_correct(Value logits, Value labels);

  /// The shape of `value` for a batch of one.
  const Shape& shape(Value value) const;

  /// Runs what `outputs` depend on. Before the first pass of a kind (mode, shapes, outputs) all its programs,
  /// and those of backward() from the first output of one element, begin to be compiled side by side. Throws
  /// ValidationError before anything is enqueued (missing feeds, shapes, dtypes, another context).
  Pass forward(const Stream& stream, Mode mode, const std::vector<Feed>& feeds,
               const std::vector<Value>& outputs) const;

  /// In the order of the layers.
  const std::vector<Parameter>& parameters() const;
  /// A table of layers, their output shapes and numbers of parameters.
  std::string summary() const;

  /// Writes all parameters, statistics included, as a safetensors file, whole or not at all. Waits for the
  /// device. Throws Error if the file cannot be written.
  void save(const Stream& stream, const std::string& path) const;
  /// Reads what save() wrote. Throws Error (file cannot be read) or ValidationError (broken file; names,
  /// shapes or dtypes that are not exactly the net's): nothing has changed then.
  void load(const Stream& stream, const std::string& path) const;

 private:
  friend class Solver;
  std::shared_ptr<detail::Graph> graph_;
};

}  // namespace dlprim
