// Losses. Element by element and by name: mean squared error, absolute error, smooth L1, Huber, binary
// cross-entropy, Kullback-Leibler divergence. Of classes: the negative log-likelihood, and cross-entropy from
// logits. Each as PyTorch's of that name.
//
//   loss(stream, "huber", x, target, y, {LossReduction::mean, {2.0}});    // y: [1]; delta is 2
//   loss_backward(stream, "huber", dy, x, target, dx, {}, {LossReduction::mean, {2.0}});
//   cross_entropy(stream, logits, labels, y);
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <dlprim/elementwise.hpp>
#include <dlprim/export.hpp>
#include <dlprim/plan.hpp>
#include <dlprim/scalar.hpp>
#include <dlprim/stream.hpp>
#include <dlprim/tensor.hpp>

namespace dlprim {

/// What becomes of the terms. A reduced loss has shape [1]; of no terms the sum is 0 and the mean NaN.
enum class LossReduction : uint8_t {
  none,
  sum,
  mean,       ///< divided by how many there are; of classes, by the sum of the weights of those that count
  batch_mean  ///< the sum divided by the size of the first dimension; not of classes
};

/// A line of the list of losses that go element by element. Expressions are C over x, target, and the names
/// of weights and parameters; `dy` is the gradient of the element's term.
struct LossFunction {
  std::string name;
  std::vector<std::string> weights;  ///< tensors that broadcast to x's shape, 1 where not given
  std::vector<ElementwiseFunction::Parameter> parameters;
  std::string let;  ///< what the expressions have in common
  std::string result, dx, dtarget;
};
/// mse, l1, smooth_l1 (beta), huber (delta), bce (weight), bce_with_logits (weight, pos_weight), kl_div,
/// kl_div_log (whose target is a logarithm), poisson_nll (x is a logarithm), soft_margin.
DLPRIM_API const std::vector<LossFunction>& loss_functions();
/// The one of that name. Throws ValidationError.
DLPRIM_API const LossFunction& loss_function(std::string_view name);

/// Any strides; f32, f16, bf16, f64 in any mix.
struct LossDesc {
  std::string function;
  TensorDesc x, target;  ///< one shape
  TensorDesc y;          ///< the loss, [1], or x's shape if nothing is reduced; backward: of dy
  LossReduction reduction = LossReduction::mean;
  std::vector<std::optional<TensorDesc>> weights = {};  ///< one for each of the function's, or none
  std::optional<TensorDesc> dx = {}, dtarget = {};      ///< backward: those that are wanted
};

class DLPRIM_API Loss : public Plan {
 public:
  /// Throws ValidationError (no such function, dtypes, shapes), BuildError.
  explicit Loss(const Context& context, const LossDesc& desc, const Options& options = {});
  /// `parameters`: all of them in the list's order, or none. y shares no memory with the others.
  void run(const Stream& stream, const Tensor& x, const Tensor& target, const std::vector<Tensor>& weights,
           const Tensor& y, const std::vector<Scalar>& parameters = {}, const Tensor& workspace = {}) const;

  struct Impl;

 private:
  std::shared_ptr<const Impl> impl_;
};

class DLPRIM_API LossBackward : public Plan {
 public:
  /// Throws as Loss.
  explicit LossBackward(const Context& context, const LossDesc& desc, const Options& options = {});
  /// dx and dtarget are undefined where the plan has none. They may be x, target, or an unreduced dy, element
  /// for element; otherwise they share no memory with another tensor.
  void run(const Stream& stream, const Tensor& dy, const Tensor& x, const Tensor& target,
           const std::vector<Tensor>& weights, const Tensor& dx, const Tensor& dtarget,
           const std::vector<Scalar>& parameters = {}) const;

  struct Impl;

 private:
  std::shared_ptr<const Impl> impl_;
};

struct LossParams {
  LossReduction reduction = LossReduction::mean;
  std::vector<Scalar> parameters = {};
  std::vector<Tensor> weights = {};
};
/// The same as calls: the plan is found in the context's cache, or made.
DLPRIM_API void loss(const Stream& stream, std::string_view function, const Tensor& x, const Tensor& target,
                     const Tensor& y, const LossParams& params = {});
/// dx or dtarget may be undefined: that one is not wanted.
DLPRIM_API void loss_backward(const Stream& stream, std::string_view function, const Tensor& dy,
                              const Tensor& x, const Tensor& target, const Tensor& dx,
                              const Tensor& dtarget = {}, const LossParams& params = {});

/// A target that is no class, outside [0, C), counts as one to be ignored does: it gives nothing to sums and
/// no gradient.
struct ClassLossParams {
  LossReduction reduction = LossReduction::mean;
  int64_t ignore_index = -100;
  double label_smoothing =
      0;  ///< of cross-entropy: the part of each target that all classes share, in [0, 1]
};

/// x: [N, C, ...], f32, f16, bf16 or f64, any strides; the class axis is 1.
struct ClassLossDesc {
  TensorDesc x;       ///< logarithms of probabilities, or logits of cross-entropy; backward of NLL: of dx
  TensorDesc target;  ///< [N, ...], i32, i64 or u8: classes. Of cross-entropy also x's shape, floating:
                      ///< probabilities
  TensorDesc loss;    ///< [1], or [N, ...] if nothing is reduced; floating; backward: of dloss
  std::optional<TensorDesc> weight = {};  ///< [C], floating
  ClassLossParams params = {};
  TensorDesc dx = {};  ///< backward of cross-entropy only; x's shape
};

/// A row's term is -weight[target] x[target].
class DLPRIM_API NllLoss : public Plan {
 public:
  /// Throws ValidationError (shapes, dtypes, parameters), BuildError.
  explicit NllLoss(const Context& context, const ClassLossDesc& desc, const Options& options = {});
  /// loss shares no memory with the others.
  void run(const Stream& stream, const Tensor& x, const Tensor& target, const Tensor& weight,
           const Tensor& loss, const Tensor& workspace = {}) const;

  struct Impl;

 private:
  std::shared_ptr<const Impl> impl_;
};

class DLPRIM_API NllLossBackward : public Plan {
 public:
  explicit NllLossBackward(const Context& context, const ClassLossDesc& desc, const Options& options = {});
  /// dx is written whole and shares no memory with the others.
  void run(const Stream& stream, const Tensor& dloss, const Tensor& target, const Tensor& weight,
           const Tensor& dx, const Tensor& workspace = {}) const;

  struct Impl;

 private:
  std::shared_ptr<const Impl> impl_;
};

/// A row's term is -sum(weight q log_softmax(x)), q the target's probabilities (1 of its class), smoothed.
class DLPRIM_API CrossEntropy : public Plan {
 public:
  explicit CrossEntropy(const Context& context, const ClassLossDesc& desc, const Options& options = {});
  void run(const Stream& stream, const Tensor& x, const Tensor& target, const Tensor& weight,
           const Tensor& loss, const Tensor& workspace = {}) const;

  struct Impl;

 private:
  std::shared_ptr<const Impl> impl_;
};

/// From x again, so that nothing but x has to be kept: dx = dloss (sum(weight q) softmax(x) - weight q).
class DLPRIM_API CrossEntropyBackward : public Plan {
 public:
  explicit CrossEntropyBackward(const Context& context, const ClassLossDesc& desc,
                                const Options& options = {});
  /// dx may be x; otherwise it shares no memory with the others.
  void run(const Stream& stream, const Tensor& dloss, const Tensor& x, const Tensor& target,
           const Tensor& weight, const Tensor& dx, const Tensor& workspace = {}) const;

  struct Impl;

 private:
  std::shared_ptr<const Impl> impl_;
};

// As calls; `weight` may be undefined.
DLPRIM_API void nll_loss(const Stream& stream, const Tensor& x, const Tensor& target, const Tensor& loss,
                         const ClassLossParams& params = {}, const Tensor& weight = {});
DLPRIM_API void nll_loss_backward(const Stream& stream, const Tensor& dloss, const Tensor& target,
                                  const Tensor& dx, const ClassLossParams& params = {},
                                  const Tensor& weight = {});
DLPRIM_API void cross_entropy(const Stream& stream, const Tensor& x, const Tensor& target, const Tensor& loss,
                              const ClassLossParams& params = {}, const Tensor& weight = {});
DLPRIM_API void cross_entropy_backward(const Stream& stream, const Tensor& dloss, const Tensor& x,
                                       const Tensor& target, const Tensor& dx,
                                       const ClassLossParams& params = {}, const Tensor& weight = {});

}  // namespace dlprim
