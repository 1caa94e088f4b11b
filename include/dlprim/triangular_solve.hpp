// Triangular systems of equations, batches of them.
#pragma once

#include <memory>

#include <dlprim/export.hpp>
#include <dlprim/plan.hpp>
#include <dlprim/stream.hpp>
#include <dlprim/tensor.hpp>

namespace dlprim {

/// a: [..., N, N], b and x: [..., N, M]; dimensions in front are the same in all three, at most 6. Any
/// strides, expanded ones of a and b too; a transposed system is a view. f32 or f64, one dtype.
struct TriangularSolveDesc {
  TensorDesc a, b, x;
  bool upper = false;  ///< a's elements below the diagonal are not read, else those above it
  bool unit = false;   ///< the diagonal is not read: it is 1
};

/// a x = b, solved for x row after row. Zeros on the diagonal give infinities and NaNs.
class DLPRIM_API TriangularSolve : public Plan {
 public:
  /// Engine: rows, a work-item for each column of b, made for N up to a few hundred. Throws ValidationError
  /// (ranks, shapes, dtypes), BuildError.
  explicit TriangularSolve(const Context& context, const TriangularSolveDesc& desc,
                           const Options& options = {});
  /// x may be b; otherwise it shares no memory with the others.
  void run(const Stream& stream, const Tensor& a, const Tensor& b, const Tensor& x,
           const Tensor& workspace = {}) const;

  struct Impl;

 private:
  TriangularSolveDesc desc_;
  std::shared_ptr<const Impl> impl_;
};

/// The same; the plan is found in the context's cache, or made.
DLPRIM_API void triangular_solve(const Stream& stream, const Tensor& a, const Tensor& b, bool upper,
                                 bool unit, const Tensor& x, const Options& options = {},
                                 const Tensor& workspace = {});

}  // namespace dlprim
