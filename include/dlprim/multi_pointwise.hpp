// Expressions over lists of tensors in few launches: Pointwise for many tensors at once.
//
// A place is an index into the lists. What stands there in all of them belongs together, as a weight, its
// gradient and an optimizer's states do, and has one shape and equal strides, without gaps. Places differ in
// what they like. The expression is computed for each element of each place:
//
//   MultiPointwiseTensors tensors;
//   tensors.changed = {w};   // x0 and y0
//   tensors.inputs = {dw};   // x1
//   multi_pointwise(stream, tensors, {0.1}, {}, "y0 = x0 - s0 * x1");
//
// It is written as one of pointwise.hpp, but all of its x, y and s are `real`: double if a tensor is f64,
// else float. A kernel is compiled once for an expression and dtypes, never for shapes or a number of places.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <dlprim/export.hpp>
#include <dlprim/plan.hpp>
#include <dlprim/stream.hpp>
#include <dlprim/tensor.hpp>

namespace dlprim {

/// Dtypes, floating in any mix: of each list one. x0, x1, ... are the elements of `changed`, `inputs`,
/// `singles` and `numbers`, in this order; y0, y1, ... those of `changed` and `outputs`; s0, s1, ... the
/// scalars, then the places' own.
struct MultiPointwiseDesc {
  std::vector<DType> changed;  ///< lists that are read and then written
  std::vector<DType> inputs;   ///< that are read
  std::vector<DType> singles;  ///< that are read, of tensors with one element, which serves the whole place
  std::vector<DType> numbers;  ///< tensors of one element, which serves all places
  std::vector<DType> outputs;  ///< lists that are written
  int scalars = 0;             ///< numbers by value, for all places
  int place_scalars = 0;       ///< the same, one for each place
  std::string body;
};

/// As described. All lists have a tensor for each place.
struct MultiPointwiseTensors {
  std::vector<std::vector<Tensor>> changed, inputs, singles;
  std::vector<Tensor> numbers;
  std::vector<std::vector<Tensor>> outputs;
};

class DLPRIM_API MultiPointwise : public Plan {
 public:
  /// Throws ValidationError (dtypes; no list that is written; more than 16 lists, 16 numbers, 16 scalars or 4
  /// scalars of places), BuildError.
  MultiPointwise(const Context& context, const MultiPointwiseDesc& desc, const Options& options = {});
  /// Tensors of `inputs` may be, element for element, what is written at their place; otherwise what is
  /// written shares no memory with anything. Empty tensors are fine. place_scalars[k] has scalar k of each
  /// place. Throws ValidationError (lists of other lengths, dtypes, shapes, gaps, memory).
  void run(const Stream& stream, const MultiPointwiseTensors& tensors, const std::vector<double>& scalars,
           const std::vector<std::vector<double>>& place_scalars, const Tensor& workspace = {}) const;

  struct Impl;

 private:
  std::shared_ptr<const Impl> impl_;
};

/// Finds the plan in the context's cache, or makes it, and runs it. Lists that are empty count as f32.
DLPRIM_API void multi_pointwise(const Stream& stream, const MultiPointwiseTensors& tensors,
                                const std::vector<double>& scalars,
                                const std::vector<std::vector<double>>& place_scalars,
                                const std::string& body, const Options& options = {},
                                const Tensor& workspace = {});

}  // namespace dlprim
