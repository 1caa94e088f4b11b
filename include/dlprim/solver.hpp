// Solvers: they change a net's parameters by the gradients of its last backward pass. State lives on the
// device, an update is one kernel per parameter, in place.
#pragma once

#include <memory>
#include <vector>

#include <dlprim/export.hpp>
#include <dlprim/net.hpp>

namespace dlprim {

class DLPRIM_API Solver {
 public:
  virtual ~Solver();
  /// Updates every trained parameter that has a gradient. Throws ValidationError if none has.
  void step(const Stream& stream);

  double learning_rate() const noexcept { return learning_rate_; }
  /// Takes effect in the next step. Throws ValidationError unless finite and >= 0.
  void set_learning_rate(double rate);

  Solver(const Solver&) = delete;
  Solver& operator=(const Solver&) = delete;

 protected:
  /// The solver's memory of one parameter: made, as zeros, before the parameter's first update.
  struct State {
    std::vector<Tensor> tensors;
    int64_t steps = 0;  ///< updates so far, this one included
  };
  /// `state_tensors`: how many tensors of a parameter's shape the solver keeps for it.
  Solver(const Net& net, double learning_rate, int state_tensors);
  virtual void update(const Stream& stream, const Tensor& w, const Tensor& dw, const State& state) = 0;

 private:
  std::shared_ptr<detail::Graph> graph_;
  double learning_rate_ = 0;
  int state_tensors_;
  std::vector<State> states_;  ///< as the net's parameters
};

struct SgdOptions {
  double learning_rate = 0.01;
  double momentum = 0;      ///< in [0, 1)
  double weight_decay = 0;  ///< adds weight_decay * w to the gradient
  bool nesterov = false;    ///< needs momentum > 0
};

/// v = momentum * v + g; w -= learning_rate * v, or with nesterov w -= learning_rate * (g + momentum * v), as
/// Sutskever et al., 2013, in the form that PyTorch has.
class DLPRIM_API Sgd : public Solver {
 public:
  explicit Sgd(const Net& net, const SgdOptions& options = {});

 private:
  void update(const Stream& stream, const Tensor& w, const Tensor& dw, const State& state) override;
  SgdOptions options_;
};

struct AdamOptions {
  double learning_rate = 1e-3;
  double beta1 = 0.9, beta2 = 0.999;  ///< in [0, 1)
  double epsilon = 1e-8;
  double weight_decay = 0;  ///< adds weight_decay * w to the gradient
};

/// Adam with bias correction (Kingma and Ba, 2015).
class DLPRIM_API Adam : public Solver {
 public:
  explicit Adam(const Net& net, const AdamOptions& options = {});

 private:
  void update(const Stream& stream, const Tensor& w, const Tensor& dw, const State& state) override;
  AdamOptions options_;
};

}  // namespace dlprim
