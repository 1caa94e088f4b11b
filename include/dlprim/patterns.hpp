// Tensors that only their elements' places make, wholly or in part: triangles, diagonals, numbers in a row,
// one-hot vectors. Any dtypes, any strides. Tensors of one run share no memory, unless it says so.
// Constructors throw ValidationError and BuildError.
#pragma once

#include <dlprim/export.hpp>
#include <dlprim/plan.hpp>
#include <dlprim/scalar.hpp>
#include <dlprim/stream.hpp>
#include <dlprim/tensor.hpp>

namespace dlprim {

/// x, y: [..., R, C], of one dtype.
struct TriangleDesc {
  TensorDesc x, y;
  int64_t k = 0;       ///< the diagonal, 0 is the main one; above it k is positive
  bool upper = false;  ///< what is on the diagonal and above it stays, not what is below
};

/// x's last two axes, zero above, or below, the diagonal. It is its own gradient.
class DLPRIM_API Triangle : public Plan {
 public:
  /// Its engine is `generated`.
  explicit Triangle(const Context& context, const TriangleDesc& desc, const Options& options = {});
  /// y may be x.
  void run(const Stream& stream, const Tensor& x, const Tensor& y, const Tensor& workspace = {}) const;

  struct Impl;

 private:
  std::shared_ptr<const Impl> impl_;
};

/// y: [..., R, C].
struct EyeDesc {
  TensorDesc y;
  int64_t k = 0;  ///< the diagonal
};

/// y: 1 on the diagonal k and 0 elsewhere.
class DLPRIM_API Eye : public Plan {
 public:
  /// Its engine is `fills`.
  explicit Eye(const Context& context, const EyeDesc& desc, const Options& options = {});
  void run(const Stream& stream, const Tensor& y, const Tensor& workspace = {}) const;

  struct Impl;

 private:
  std::shared_ptr<const Impl> impl_;
};

/// y: a vector.
struct ArangeDesc {
  TensorDesc y;
};

/// y[i] = start + i step, computed in f64, or f32 where the device has none; in i64 if y holds integers.
class DLPRIM_API Arange : public Plan {
 public:
  /// Its engine is `direct`.
  explicit Arange(const Context& context, const ArangeDesc& desc, const Options& options = {});
  /// If y holds integers both are whole numbers, or ValidationError is thrown.
  void run(const Stream& stream, Scalar start, Scalar step, const Tensor& y,
           const Tensor& workspace = {}) const;

  struct Impl;

 private:
  std::shared_ptr<const Impl> impl_;
};

/// y: a vector, not of bool.
struct LinspaceDesc {
  TensorDesc y;
};

/// From start to end, both included; symmetric about the middle, as PyTorch's.
class DLPRIM_API Linspace : public Plan {
 public:
  /// Its engine is `direct`.
  explicit Linspace(const Context& context, const LinspaceDesc& desc, const Options& options = {});
  /// If y holds integers start and end are whole numbers, or ValidationError is thrown; and so is each
  /// element: without what is behind the point, of an exact quotient (PyTorch's is rounded to f64 first,
  /// which can leave one less).
  void run(const Stream& stream, Scalar start, Scalar end, const Tensor& y,
           const Tensor& workspace = {}) const;

  struct Impl;

 private:
  std::shared_ptr<const Impl> impl_;
};

/// index: i32 or i64. y: index's shape and C.
struct OneHotDesc {
  TensorDesc index, y;
};

/// 1 where the last coordinate is the index, which counts from the end if negative; 0 elsewhere.
class DLPRIM_API OneHot : public Plan {
 public:
  /// Its engine is `generated`.
  explicit OneHot(const Context& context, const OneHotDesc& desc, const Options& options = {});
  void run(const Stream& stream, const Tensor& index, const Tensor& y, const Tensor& workspace = {}) const;

  struct Impl;

 private:
  std::shared_ptr<const Impl> impl_;
};

/// Finds the plan in the context's cache, or makes it, and runs it. tril and triu are of Triangle.
DLPRIM_API void tril(const Stream& stream, const Tensor& x, int64_t k, const Tensor& y,
                     const Options& options = {}, const Tensor& workspace = {});
DLPRIM_API void triu(const Stream& stream, const Tensor& x, int64_t k, const Tensor& y,
                     const Options& options = {}, const Tensor& workspace = {});
DLPRIM_API void eye(const Stream& stream, int64_t k, const Tensor& y, const Options& options = {},
                    const Tensor& workspace = {});
DLPRIM_API void arange(const Stream& stream, Scalar start, Scalar step, const Tensor& y,
                       const Options& options = {}, const Tensor& workspace = {});
DLPRIM_API void linspace(const Stream& stream, Scalar start, Scalar end, const Tensor& y,
                         const Options& options = {}, const Tensor& workspace = {});
DLPRIM_API void one_hot(const Stream& stream, const Tensor& index, const Tensor& y,
                        const Options& options = {}, const Tensor& workspace = {});

}  // namespace dlprim
