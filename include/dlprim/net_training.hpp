// Training networks that are data: a NetGraph's gradients as nodes, and Trainer, which runs them with an
// optimizer.
//
//   NetGraph graph = networks::make("resnet18");
//   add_class_loss(graph, "output", "labels");         // an input more, and the output "loss"
//   Trainer::Config config;
//   config.optimizer.method = OptimizerMethod::adam;
//   config.rate = LearningRate::cosine(1e-3, 500, 20000);
//   Trainer trainer(stream, graph, config);
//   const Tensor loss = trainer.step({{"input", x}, {"labels", t}}).at("loss");
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <dlprim/export.hpp>
#include <dlprim/gradients.hpp>
#include <dlprim/net_graph.hpp>
#include <dlprim/net_model.hpp>
#include <dlprim/optimizer.hpp>
#include <dlprim/stream.hpp>
#include <dlprim/tensor.hpp>

namespace dlprim {

/// Adds nodes that compute the gradients of the value `loss` by each of `of`, and gives their values: kNone
/// where the loss does not depend on it. `seed`: the gradient that flows into the loss, broadcast to it;
/// kNone: 1. A value that several nodes read has the sum. Throws ValidationError that names the node: its
/// kind, or what it does, has no gradient; nothing has changed then. docs/nodes.md lists the kinds that have
/// one.
DLPRIM_API std::vector<int> add_gradients(NetGraph& graph, int loss, const std::vector<int>& of,
                                          int seed = NetGraph::kNone);

struct ClassLoss {
  std::string loss = "loss";   ///< the output's name
  double label_smoothing = 0;  ///< in [0, 1]
};
/// Adds the input `labels`, i64: classes, and an output: the mean cross-entropy of the output `logits`, [N,
/// C] with labels [N], or [N, L, C] with labels [N, L], as of a language model. A label below 0 has no loss.
/// Throws ValidationError if there is no such output, or an input or output of that name already.
DLPRIM_API void add_class_loss(NetGraph& graph, const std::string& logits, const std::string& labels,
                               const ClassLoss& params = {});

/// The learning rate of each update. Throws ValidationError (negative, not finite).
struct DLPRIM_API LearningRate {
  enum class Shape : uint8_t {
    constant,
    cosine,  ///< half a cosine from `rate` to `last`, at update `updates` (Loshchilov and Hutter, 2017)
    linear,  ///< a line between the same
    steps    ///< times `factor` at each of `milestones`
  };
  Shape shape = Shape::constant;
  double rate = 1e-3, last = 0;
  int64_t warm_up = 0;  ///< a line from 0 in the first updates; the shape counts them, too
  int64_t updates = 0;
  std::vector<int64_t> milestones;  ///< ascending
  double factor = 0.1;

  static LearningRate cosine(double rate, int64_t warm_up, int64_t updates);
  /// Of update `k`, from 0 on.
  double at(int64_t k) const;
};

/// Trains a graph. Constants with a name, of f32 and more than one element, to which the loss has a gradient,
/// are its parameters, or those of f64 if there are none; BatchNorm works by the batch and records its
/// statistics, dropout drops. One thread at a time may use it; everything is asynchronous but save(), load(),
/// graph() and the first step, which compiles.
class DLPRIM_API Trainer {
 public:
  struct Config {
    std::string loss = "loss";  ///< the graph's output that is to be small, of one element
    OptimizerDesc optimizer;    ///< its dtypes are not read: they are the parameters'
    OptimizerStep numbers;      ///< its learning rate, step and tensors are not read
    LearningRate rate;
    DType precision = DType::f32;        ///< of products and what follows them, as Model has it
    std::optional<LossScaling> scaling;  ///< of the loss, for f16; it begins at `first_scale`
    double first_scale = 65536;
    double clip_norm = 0;              ///< gradients' norm is at most so much; 0: any
    int64_t accumulate = 1;            ///< steps whose gradients' mean makes one update
    bool recompute = false;            ///< most of the forward direction twice, for less memory
    std::vector<std::string> frozen;   ///< constants that are no parameters
    std::vector<std::string> without;  ///< passes that do not rewrite the graph
    Options options;
  };
  struct Parameter {
    std::string name;
    Tensor value;
  };

  /// Puts parameters on the stream's device; they stay there. Throws ValidationError (see add_gradients; an
  /// output that there is not, numbers out of range; no parameter), OutOfMemory.
  Trainer(const Stream& stream, const NetGraph& graph, Config config);
  ~Trainer();
  Trainer(Trainer&&) noexcept;
  Trainer& operator=(Trainer&&) noexcept;

  /// Runs the graph and its gradients on a batch, and with each `accumulate`-th call updates the parameters.
  /// Gives the graph's outputs, the loss among them; the next step overwrites their memory. Throws as
  /// Model::run.
  Model::Tensors step(const Model::Tensors& feeds);

  /// Runs the graph as it was given, with the parameters and statistics as they are. Inputs may be left out,
  /// as labels; then outputs that depend on them are, too. Throws as Model::run.
  Model::Tensors predict(const Model::Tensors& feeds) const;

  /// Runs the graph and its gradients until they are recorded, updates nothing, and tells what a step does:
  /// see Model::explain.
  Model::Plan explain(const Model::Tensors& feeds);
  /// Runs the graph and its gradients as explain() does, and once more with device times measured, without
  /// the optimizer's: see Model::trace. Throws as that.
  Model::Trace trace(const Model::Tensors& feeds);

  /// Kernels that the last step launched for the graph and its gradients, without the optimizer's; 0 where it
  /// ran node by node.
  int64_t launches() const noexcept;
  int64_t updates() const noexcept;
  const std::vector<Parameter>& parameters() const noexcept;
  /// What BatchNorm recorded: running means and variances.
  const std::vector<Parameter>& statistics() const noexcept;
  /// The graph as it was given, with the parameters and statistics as they are.
  NetGraph graph() const;

  /// Writes all that training depends on but its data, as a safetensors file, whole or not at all: training
  /// that loads it goes on with the same bits. Throws Error; ValidationError between the steps of one update.
  void save(const std::string& path) const;
  /// Reads what save() wrote of the same graph and optimizer. Throws Error, ValidationError (a broken file;
  /// names, shapes or numbers that are not the trainer's): nothing has changed then.
  void load(const std::string& path);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace dlprim
