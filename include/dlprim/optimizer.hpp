// Optimizers over many tensors in few launches, in place. The formulas are those of PyTorch's torch.optim.
//
// A parameter is a place in several lists: the weights w, their gradients dw, the optimizer's states and,
// where w is f16 or bf16, an f32 master copy that is updated in place of w and rounded into it. Tensors of
// one place have one shape and equal strides, without gaps; tensors of a list have one dtype. Tensors that
// are neighbours in memory in all lists, as views of one large tensor are, go together: then any number takes
// one launch.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <dlprim/export.hpp>
#include <dlprim/plan.hpp>
#include <dlprim/stream.hpp>
#include <dlprim/tensor.hpp>

namespace dlprim {

enum class OptimizerMethod : uint8_t {
  /// g += weight_decay w; with momentum v = momentum v + (1 - dampening) g, in step 1 v = g, then g = v or
  /// with
  /// nesterov g + momentum v; w -= learning_rate g. States: v if there is a momentum.
  sgd,
  /// g += weight_decay w, or decoupled (AdamW) w *= 1 - learning_rate weight_decay; m += (1 - beta1) (g - m);
  /// v =
  /// beta2 v + (1 - beta2) g^2; w -= learning_rate / (1 - beta1^step) m / (sqrt(v / (1 - beta2^step)) +
  /// epsilon), with
  /// amsgrad of the largest v so far. States: m, v, and the largest v.
  adam,
  /// g += weight_decay w; v = alpha v + (1 - alpha) g^2; g /= sqrt(v) + epsilon, centered sqrt(v - a^2) where
  /// a += (1 - alpha) (g - a); with momentum b = momentum b + g, g = b; w -= learning_rate g. States: v, a if
  /// centered, b if there is a momentum.
  rmsprop,
  /// g += weight_decay w; v += g^2; w -= learning_rate / (1 + (step - 1) rate_decay) g / (sqrt(v) + epsilon).
  /// State: v.
  adagrad
};

/// What is compiled in.
struct OptimizerDesc {
  OptimizerMethod method = OptimizerMethod::sgd;
  DType w = DType::f32, dw = DType::f32;  ///< floating; f64 not beside others
  bool master = false;                    ///< w is f16 or bf16 and has f32 master copies
  bool momentum = false;                  ///< sgd, rmsprop
  bool nesterov = false;                  ///< sgd; needs momentum
  bool decoupled = false;                 ///< adam
  bool amsgrad = false;                   ///< adam
  bool centered = false;                  ///< rmsprop
  bool maximize = false;                  ///< steps along the gradient, not against it
};

/// The lists. states[k] is the list of state k; states are f32 (f64 if w is) and zeros before step 1
/// (adagrad's may be another number that is not negative).
struct OptimizerTensors {
  std::vector<Tensor> w, dw, master;
  std::vector<std::vector<Tensor>> states;
};

/// One step's numbers; those that the method does not have are not read.
struct OptimizerStep {
  double learning_rate = 1e-3;
  double weight_decay = 0;
  double momentum = 0, dampening = 0;
  double beta1 = 0.9, beta2 = 0.999;
  double alpha = 0.99;
  double epsilon = 1e-8;
  double rate_decay = 0;
  int64_t step = 1;  ///< counted from 1; steps that were skipped on the device should not count
  // f32[1] on the device, or undefined.
  Tensor factor;     ///< gradients are multiplied by it: what gradient_norm() writes for clipping
  Tensor scale;      ///< and divided by it: the loss's scale
  Tensor found_inf;  ///< where it is not 0, nothing changes
};

class DLPRIM_API Optimizer : public Plan {
 public:
  /// Throws ValidationError (dtypes, a flag that the method does not have), BuildError.
  explicit Optimizer(const Context& context, const OptimizerDesc& desc, const Options& options = {});
  /// How many lists of states the optimizer has, 0 to 3.
  static int states(const OptimizerDesc& desc);
  /// Empty tensors and lists are fine. Throws ValidationError (lists of other lengths, dtypes, shapes, gaps,
  /// memory of what is written that any other shares; numbers that are not finite or out of range: negative
  /// ones, betas, momentum or alpha of 1 and more, step below 1).
  void run(const Stream& stream, const OptimizerStep& step, const OptimizerTensors& tensors,
           const Tensor& workspace = {}) const;

  struct Impl;

 private:
  OptimizerDesc desc_;
  std::shared_ptr<const Impl> impl_;
};

/// The same; the plan is found in the context's cache, or made.
DLPRIM_API void optimize(const Stream& stream, const OptimizerDesc& desc, const OptimizerStep& step,
                         const OptimizerTensors& tensors, const Options& options = {},
                         const Tensor& workspace = {});

struct UpdateAveragesDesc {
  DType w = DType::f32, averages = DType::f32;  ///< as an optimizer's
};

/// average = decay average + (1 - decay) w, for each place of two lists: moving averages of weights.
class DLPRIM_API UpdateAverages : public Plan {
 public:
  /// Throws ValidationError (dtypes), BuildError.
  explicit UpdateAverages(const Context& context, const UpdateAveragesDesc& desc,
                          const Options& options = {});
  /// 0 <= decay <= 1. Throws ValidationError as Optimizer::run.
  void run(const Stream& stream, const std::vector<Tensor>& w, double decay,
           const std::vector<Tensor>& averages, const Tensor& workspace = {}) const;

  struct Impl;

 private:
  std::shared_ptr<const Impl> impl_;
};

/// The same; the plan is found in the context's cache, or made.
DLPRIM_API void update_averages(const Stream& stream, const std::vector<Tensor>& w, double decay,
                                const std::vector<Tensor>& averages, const Options& options = {},
                                const Tensor& workspace = {});

}  // namespace dlprim
