// Solvers: they change a net's parameters by the gradients of its last backward pass, all of them in few
// launches, in place. State lives on the device. The formulas are optimizer.hpp's.
#pragma once

#include <memory>
#include <vector>

#include <dlprim/export.hpp>
#include <dlprim/net.hpp>
#include <dlprim/optimizer.hpp>

namespace dlprim {

class DLPRIM_API Solver {
 public:
  virtual ~Solver();
  /// Updates every trained parameter that has a gradient. Throws ValidationError if none has.
  void step(const Stream& stream);

  double learning_rate() const noexcept { return numbers_.learning_rate; }
  /// Takes effect in the next step. Throws ValidationError unless finite and >= 0.
  void set_learning_rate(double rate);

  Solver(const Solver&) = delete;
  Solver& operator=(const Solver&) = delete;

 protected:
  /// Throws ValidationError as Optimizer's constructor and run do.
  Solver(const Net& net, const OptimizerDesc& desc, const OptimizerStep& numbers);

 private:
  /// The optimizer's memory of one parameter: made, as zeros, before the parameter's first update.
  struct State {
    std::vector<Tensor> tensors;
    int64_t steps = 0;  ///< updates so far
  };
  std::shared_ptr<detail::Graph> graph_;
  OptimizerDesc desc_;
  OptimizerStep numbers_;
  std::vector<State> states_;  ///< as the net's parameters
};

struct SgdOptions {
  double learning_rate = 0.01;
  double momentum = 0;      ///< in [0, 1)
  double weight_decay = 0;  ///< adds weight_decay * w to the gradient
  bool nesterov = false;    ///< needs momentum > 0
  double dampening = 0;
};

/// Sutskever et al., 2013, in the form that PyTorch has.
class DLPRIM_API Sgd : public Solver {
 public:
  explicit Sgd(const Net& net, const SgdOptions& options = {});
};

struct AdamOptions {
  double learning_rate = 1e-3;
  double beta1 = 0.9, beta2 = 0.999;  ///< in [0, 1)
  double epsilon = 1e-8;
  double weight_decay = 0;
  bool decoupled = false;  ///< AdamW: the decay shrinks w itself, and is not part of the gradient
  bool amsgrad = false;
};

/// Adam with bias correction (Kingma and Ba, 2015), and AdamW (Loshchilov and Hutter, 2019).
class DLPRIM_API Adam : public Solver {
 public:
  explicit Adam(const Net& net, const AdamOptions& options = {});
};

struct RmsPropOptions {
  double learning_rate = 0.01;
  double alpha = 0.99;  ///< in [0, 1]
  double epsilon = 1e-8;
  double momentum = 0;  ///< in [0, 1)
  double weight_decay = 0;
  bool centered = false;
};

/// RMSprop as PyTorch has it.
class DLPRIM_API RmsProp : public Solver {
 public:
  explicit RmsProp(const Net& net, const RmsPropOptions& options = {});
};

struct AdagradOptions {
  double learning_rate = 0.01;
  double epsilon = 1e-10;
  double rate_decay = 0;
  double weight_decay = 0;
};

/// Duchi, Hazan and Singer, 2011.
class DLPRIM_API Adagrad : public Solver {
 public:
  explicit Adagrad(const Net& net, const AdagradOptions& options = {});
};

}  // namespace dlprim
