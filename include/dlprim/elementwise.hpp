// Elementwise functions by name, forward and backward: activations, arithmetic, comparisons, rounding.
// docs/elementwise.md lists them; one list in the library is what operators, tests, benchmarks and that page
// are made of.
//
//   elementwise(stream, "gelu", {x}, {}, y);
//   elementwise(stream, "add", {a, b}, {0.5}, y);            // a + 0.5 b; inputs broadcast
//   elementwise_backward(stream, "mul", dy, {a, b}, {}, {da, db});
//
// Quotients, rests, powers and shifts of whole numbers wrap around and never trap: what a division by zero
// gives, what u64 is beside signed integers, and where special values differ from PyTorch's, stands on that
// page.
//
// Expressions of your own: dlprim/pointwise.hpp.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <dlprim/export.hpp>
#include <dlprim/plan.hpp>
#include <dlprim/scalar.hpp>
#include <dlprim/stream.hpp>
#include <dlprim/tensor.hpp>

namespace dlprim {

/// A function of the list. Expressions are C over the names of inputs and parameters; `dy` is the gradient
/// of the result.
struct ElementwiseFunction {
  /// What the inputs may be. f16 and bf16 are computed in f32, bool and integers as integers.
  /// A result is floating where an input is, of `to_floating` always.
  enum class Domain : uint8_t { floating, numbers, integers, to_floating };
  struct Parameter {
    std::string name;
    double standard = 0;  ///< its value if none is given
  };

  std::string name, topic;
  Domain domain = Domain::floating;
  bool truth = false;                 ///< the result is 0 or 1, of any dtype
  std::vector<std::string> inputs;    ///< "x", or "a", "b", ...
  std::vector<Parameter> parameters;  ///< given when it is run: a new value compiles nothing
  std::string let;                    ///< what the expressions have in common
  std::string result;
  std::vector<std::string> gradients;  ///< one for each input, empty where there is none
};

/// All of them, sorted by topic as the page is.
DLPRIM_API const std::vector<ElementwiseFunction>& elementwise_functions();
/// The one of that name. Throws ValidationError.
DLPRIM_API const ElementwiseFunction& elementwise_function(std::string_view name);

/// Any strides; dtypes in any mix that the function's domain allows. Inputs broadcast to y's shape. With a
/// floating input y is floating, or the result a truth.
struct ElementwiseDesc {
  std::string function;
  std::vector<TensorDesc> inputs;
  TensorDesc y;
};

/// y = f(inputs), element by element.
class DLPRIM_API Elementwise : public Plan {
 public:
  /// Throws ValidationError (no such function, number of inputs, dtypes, shapes), BuildError.
  explicit Elementwise(const Context& context, const ElementwiseDesc& desc, const Options& options = {});
  /// y may be an input, element for element; otherwise it shares no memory with one. `parameters`: all of
  /// them, in the list's order, or none.
  void run(const Stream& stream, const std::vector<Tensor>& inputs, const std::vector<Scalar>& parameters,
           const Tensor& y, const Tensor& workspace = {}) const;

  struct Impl;

 private:
  std::shared_ptr<const Impl> impl_;
};

/// As ElementwiseDesc; dy is floating.
struct ElementwiseBackwardDesc {
  std::string function;
  TensorDesc dy;
  std::vector<TensorDesc> inputs;
  std::vector<std::optional<TensorDesc>> gradients;  ///< one for each input, of its shape
};

/// dx = dy df/dx for the inputs whose gradients are wanted, added up where an input was broadcast.
class DLPRIM_API ElementwiseBackward : public Plan {
 public:
  /// Throws as Elementwise, and where a wanted gradient does not exist.
  explicit ElementwiseBackward(const Context& context, const ElementwiseBackwardDesc& desc,
                               const Options& options = {});
  /// `gradients`: a tensor for each input, undefined where the plan has none. One of dy's shape may be dy or
  /// an input, element for element; otherwise they share no memory with another tensor.
  void run(const Stream& stream, const Tensor& dy, const std::vector<Tensor>& inputs,
           const std::vector<Scalar>& parameters, const std::vector<Tensor>& gradients,
           const Tensor& workspace = {}) const;

  struct Impl;

 private:
  std::shared_ptr<const Impl> impl_;
};

/// Finds the plan in the context's cache, or makes it, and runs it.
DLPRIM_API void elementwise(const Stream& stream, std::string_view function,
                            const std::vector<Tensor>& inputs, const std::vector<Scalar>& parameters,
                            const Tensor& y, const Options& options = {}, const Tensor& workspace = {});
DLPRIM_API void elementwise_backward(const Stream& stream, std::string_view function, const Tensor& dy,
                                     const std::vector<Tensor>& inputs, const std::vector<Scalar>& parameters,
                                     const std::vector<Tensor>& gradients, const Options& options = {},
                                     const Tensor& workspace = {});

}  // namespace dlprim
