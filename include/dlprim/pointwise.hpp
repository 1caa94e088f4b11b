// The pointwise-broadcast-reduce generator: an expression over tensors becomes a kernel.
//
// Inputs broadcast together by the usual rule (shapes align at the right, size 1 stretches) and may have any
// strides and any mix of dtypes. In the expression they are x0, x1, ..., the outputs y0, y1, ..., the scalars
// s0, s1, ..., all scalars of C (OpenCL C, with its math functions). Inside it f16 and bf16 are `float`, bool
// and the integers below 64 bits are `int`, but u32 is `long`, as i64 is, and u64 is `ulong`. Scalars and
// accumulators have the widest type among the tensors: double if one is f64, else float if one is floating,
// else long; `real` names that type. It is ulong where whole numbers meet an input of u64 (or, without any
// input, an output): sums then wrap around at 2^64, and scalars are taken modulo 2^64. What is signed becomes
// unsigned beside u64, as ever in C: -1 + u64 1 is 0, but -1 > u64 1. Who compares them converts first.
//
//   pointwise(stream, {x}, {y}, {}, "y0 = x0 > 0 ? x0 : 0");
//   pointwise(stream, {a, b}, {sum, product}, {2.0}, "y0 = x0 + x1; y1 = s0 * x0 * x1");
//   reduce(stream, {x}, {mean}, {1.0 / n}, sum_of("x0", "y0 = s0 * a0"));
//
// What an expression takes stands in its own order: inputs, outputs, scalars, the expression. A kernel is
// compiled once for an expression, its dtypes and the form of its strides, never for a shape.
#pragma once

#include <string>
#include <vector>

#include <dlprim/export.hpp>
#include <dlprim/plan.hpp>
#include <dlprim/scalar.hpp>
#include <dlprim/stream.hpp>
#include <dlprim/tensor.hpp>

namespace dlprim {

/// How elements are folded into accumulators a0, a1, ... Elements are taken in an order that depends only on
/// shapes and device, so the same input gives the same bits.
///
/// Accumulators that are floating take at most 128 elements in a row and are then combined in levels, 32 of
/// one to one of the next: a sum of n numbers errs by no more than about (128 + 32 log32(n)) 2^-24 of the sum
/// of their magnitudes (in double 2^-53), and by less than log2(n) 2^-23 of it where all are equal.
struct Reduction {
  int accumulators = 1;
  std::string init;        ///< the identity: "a0 = 0"
  std::string accumulate;  ///< takes in one element: "a0 += x0"
  std::string combine;     ///< folds partial accumulators b0, b1, ... in: "a0 += b0"
  std::string finish;      ///< the outputs: "y0 = a0 * s0"
  int counts = 0;          ///< so many of the last accumulators count elements: whole numbers, 0 and more
  /// `accumulate` uses `index`, which counts the reduced elements of an output row by row in the order of
  /// axes.
  bool indexed = false;
  /// So many of the last inputs broadcast to the outputs' shape, and are there for `finish` in place of
  /// `accumulate`. Not together with `indexed`.
  int finishing = 0;
};

/// Sum, maximum and minimum of `element` over the reduced axes, then `finish`. Maxima and minima pass NaN on.
DLPRIM_API Reduction sum_of(const std::string& element, const std::string& finish = "y0 = a0");
DLPRIM_API Reduction max_of(const std::string& element, const std::string& finish = "y0 = a0");
DLPRIM_API Reduction min_of(const std::string& element, const std::string& finish = "y0 = a0");
/// Mean and sum of squared deviations by Welford's method: a0 the count, a1 the mean, a2 the squares.
DLPRIM_API Reduction welford(const std::string& element, const std::string& finish);

/// A pointwise expression made ready. All outputs have one shape, to which the inputs broadcast.
class DLPRIM_API Pointwise : public Plan {
 public:
  /// Throws ValidationError (ranks, shapes that do not broadcast, output with stride 0), BuildError.
  Pointwise(const Context& context, const std::vector<TensorDesc>& inputs,
            const std::vector<TensorDesc>& outputs, int scalars, const std::string& body,
            const Options& options = {});
  /// Tensors must be as described. An output may be an input (same memory, same strides), not overlap one
  /// otherwise. Throws ValidationError.
  void run(const Stream& stream, const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs,
           const std::vector<Scalar>& scalars, const Tensor& workspace = {}) const;

  struct Impl;

 private:
  std::shared_ptr<const Impl> impl_;
};

/// A reduction made ready. The outputs' shape says which axes are reduced: those where it is 1 and the
/// inputs' common shape is not, and those in front that it lacks. Axes of size 0 give the identity: of maxima
/// and minima the lowest and the highest number of integers as narrow as the narrowest output, or infinities.
class DLPRIM_API Reduce : public Plan {
 public:
  /// Throws ValidationError (no input, shapes that do not broadcast, output with stride 0, accumulators not 1
  /// to 8, finishing inputs with more than an element for an output), BuildError.
  Reduce(const Context& context, const std::vector<TensorDesc>& inputs,
         const std::vector<TensorDesc>& outputs, int scalars, const Reduction& reduction,
         const Options& options = {});
  /// As Pointwise::run, but neither an output nor the workspace may share memory with another tensor, except
  /// an output with an input that only `finish` reads.
  void run(const Stream& stream, const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs,
           const std::vector<Scalar>& scalars, const Tensor& workspace = {}) const;

  struct Impl;

 private:
  std::shared_ptr<const Impl> impl_;
};

/// Finds the plan in the context's cache, or makes it, and runs it.
DLPRIM_API void pointwise(const Stream& stream, const std::vector<Tensor>& inputs,
                          const std::vector<Tensor>& outputs, const std::vector<Scalar>& scalars,
                          const std::string& body, const Options& options = {}, const Tensor& workspace = {});
DLPRIM_API void reduce(const Stream& stream, const std::vector<Tensor>& inputs,
                       const std::vector<Tensor>& outputs, const std::vector<Scalar>& scalars,
                       const Reduction& reduction, const Options& options = {}, const Tensor& workspace = {});

}  // namespace dlprim
