// Reductions by name, forward and backward: sums, means, extremes and where they are, norms, variances,
// truths. docs/reductions.md lists them; one list in the library is what operators, tests, benchmarks and
// that page are made of.
//
//   reduction(stream, "mean", x, {}, {y});                    // over the axes where y has size 1
//   reduction(stream, "max", x, {}, {y, index});
//   reduction_backward(stream, "amax", {dy}, x, {y}, {}, dx);
//
// The results' shape says which axes are reduced: those where it is 1 and x's is not, and those in front that
// it lacks. Reductions of expressions of your own: dlprim/pointwise.hpp.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <dlprim/elementwise.hpp>
#include <dlprim/export.hpp>
#include <dlprim/plan.hpp>
#include <dlprim/pointwise.hpp>
#include <dlprim/stream.hpp>
#include <dlprim/tensor.hpp>

namespace dlprim {

/// A function of the list. Expressions are C over x, n (how many elements are reduced to one), parameters and
/// results; those of the gradient also over dy (the gradient of the result y; of `mean`, dmean) and
/// statistics.
struct ReductionFunction {
  /// What a result is. A number is floating, or an integer (not bool) if x is no floating one: integers are
  /// added up in 64 bits. An extreme is one of x's numbers: of x's dtype, or of a wider floating one, and
  /// there is none of no elements. A truth is 0 or 1, of any dtype. A count, or an index (of the first
  /// extreme, row by row among the reduced elements in the order of axes) is i32 or i64.
  enum class Result : uint8_t { number, extreme, truth, count };

  std::string name, topic;
  Result result = Result::number;    ///< what the first one is
  bool floating = false;             ///< its result is floating, of integers too
  std::vector<std::string> results;  ///< "y", or "y" and another
  std::vector<ElementwiseFunction::Parameter> parameters;
  Reduction reduction;
  std::vector<std::string> statistics;  ///< what backward first reduces x to
  Reduction statistics_reduction;
  std::string gradient;  ///< empty where there is none
  bool selects = false;  ///< the gradient is dy where `index` says and 0 elsewhere
  bool has_gradient() const { return selects || !gradient.empty(); }
};

/// All of them, sorted by topic as the page is.
DLPRIM_API const std::vector<ReductionFunction>& reduction_functions();
/// The one of that name. Throws ValidationError.
DLPRIM_API const ReductionFunction& reduction_function(std::string_view name);
/// The name of the norm (sum |x|^p)^(1/p): "l0" (counts what is not 0), "l1", "l2", "linf", "lminf"; else
/// "lp", whose parameter p is.
DLPRIM_API std::string norm_function(double p);

/// Any strides. NaN is the largest and the smallest number, as in PyTorch.
struct ReductionDesc {
  std::string function;
  TensorDesc x;
  std::vector<TensorDesc> results;  ///< of one shape
};

/// y = f(x).
class DLPRIM_API ReductionForward : public Plan {
 public:
  /// Throws ValidationError (no such function, dtypes, shapes, an extreme of nothing), BuildError.
  explicit ReductionForward(const Context& context, const ReductionDesc& desc, const Options& options = {});
  /// Tensors share no memory. `parameters`: all of them, in the list's order, or none.
  void run(const Stream& stream, const Tensor& x, const std::vector<Scalar>& parameters,
           const std::vector<Tensor>& results, const Tensor& workspace = {}) const;

  struct Impl;

 private:
  std::shared_ptr<const Impl> impl_;
};

/// x and results are only needed where the list's expressions name them. Gradients are floating.
struct ReductionBackwardDesc {
  std::string function;
  std::vector<TensorDesc> dy;  ///< of the results; of a function that gives an index, of y alone
  std::optional<TensorDesc> x;
  std::vector<std::optional<TensorDesc>> results;  ///< as in forward, or none at all
  TensorDesc dx;                                   ///< of x's shape
};

/// dx = dy df/dx. Extremes that are equal share their gradient evenly, but where an index tells them apart;
/// that of "prod" is right with zeros too.
class DLPRIM_API ReductionBackward : public Plan {
 public:
  /// Throws as ReductionForward, and where there is no gradient.
  explicit ReductionBackward(const Context& context, const ReductionBackwardDesc& desc,
                             const Options& options = {});
  /// dx may be x, element for element; otherwise it shares no memory with another tensor.
  void run(const Stream& stream, const std::vector<Tensor>& dy, const Tensor& x,
           const std::vector<Tensor>& results, const std::vector<Scalar>& parameters, const Tensor& dx,
           const Tensor& workspace = {}) const;

  struct Impl;

 private:
  std::shared_ptr<const Impl> impl_;
};

/// Finds the plan in the context's cache, or makes it, and runs it.
DLPRIM_API void reduction(const Stream& stream, std::string_view function, const Tensor& x,
                          const std::vector<Scalar>& parameters, const std::vector<Tensor>& results,
                          const Options& options = {}, const Tensor& workspace = {});
DLPRIM_API void reduction_backward(const Stream& stream, std::string_view function,
                                   const std::vector<Tensor>& dy, const Tensor& x,
                                   const std::vector<Tensor>& results, const std::vector<Scalar>& parameters,
                                   const Tensor& dx, const Options& options = {},
                                   const Tensor& workspace = {});

}  // namespace dlprim
