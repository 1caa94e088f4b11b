// Losses by name, element by element: mean squared error, absolute error, smooth L1, Huber, binary
// cross-entropy, Kullback-Leibler divergence. Each as PyTorch's of that name. Losses of classes:
// dlprim/class_loss.hpp.
//
//   loss(stream, "huber", x, target, {}, {LossReduction::mean, {2.0}}, y);    // y: [1]; delta is 2
//   loss_backward(stream, "huber", dy, x, target, {}, {LossReduction::mean, {2.0}}, dx);
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
  TensorDesc y;          ///< the loss, [1], or x's shape if nothing is reduced
  LossReduction reduction = LossReduction::mean;
  std::vector<std::optional<TensorDesc>> weights = {};  ///< one for each of the function's, or none
};

class DLPRIM_API Loss : public Plan {
 public:
  /// Throws ValidationError (no such function, dtypes, shapes), BuildError.
  explicit Loss(const Context& context, const LossDesc& desc, const Options& options = {});
  /// `parameters`: all of them in the list's order, or none. y shares no memory with the others.
  void run(const Stream& stream, const Tensor& x, const Tensor& target, const std::vector<Tensor>& weights,
           const std::vector<Scalar>& parameters, const Tensor& y, const Tensor& workspace = {}) const;

  struct Impl;

 private:
  std::shared_ptr<const Impl> impl_;
};

/// As LossDesc; dy is of y's shape.
struct LossBackwardDesc {
  std::string function;
  TensorDesc dy, x, target;
  LossReduction reduction = LossReduction::mean;
  std::vector<std::optional<TensorDesc>> weights = {};
  std::optional<TensorDesc> dx = {}, dtarget = {};  ///< those that are wanted, of x's shape
};

class DLPRIM_API LossBackward : public Plan {
 public:
  /// Throws as Loss.
  explicit LossBackward(const Context& context, const LossBackwardDesc& desc, const Options& options = {});
  /// dx and dtarget are undefined where the plan has none. They may be x, target, or an unreduced dy, element
  /// for element; otherwise they share no memory with another tensor.
  void run(const Stream& stream, const Tensor& dy, const Tensor& x, const Tensor& target,
           const std::vector<Tensor>& weights, const std::vector<Scalar>& parameters, const Tensor& dx,
           const Tensor& dtarget, const Tensor& workspace = {}) const;

  struct Impl;

 private:
  std::shared_ptr<const Impl> impl_;
};

struct LossParams {
  LossReduction reduction = LossReduction::mean;
  std::vector<Scalar> parameters = {};
};
/// The same as calls: the plan is found in the context's cache, or made.
DLPRIM_API void loss(const Stream& stream, std::string_view function, const Tensor& x, const Tensor& target,
                     const std::vector<Tensor>& weights, const LossParams& params, const Tensor& y,
                     const Options& options = {}, const Tensor& workspace = {});
/// dx or dtarget may be undefined: that one is not wanted.
DLPRIM_API void loss_backward(const Stream& stream, std::string_view function, const Tensor& dy,
                              const Tensor& x, const Tensor& target, const std::vector<Tensor>& weights,
                              const LossParams& params, const Tensor& dx, const Tensor& dtarget = {},
                              const Options& options = {}, const Tensor& workspace = {});

}  // namespace dlprim
