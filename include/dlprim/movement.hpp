// Moving elements without arithmetic. permute, transpose, slice and expand are views of Tensor; copy() makes
// memory of them.
//
// Any dtypes; where x and y differ in it, elements are converted as copy() does. Any strides. Tensors of one
// run share no memory. Constructors throw ValidationError and BuildError.
#pragma once

#include <vector>

#include <dlprim/export.hpp>
#include <dlprim/plan.hpp>
#include <dlprim/stream.hpp>
#include <dlprim/tensor.hpp>

namespace dlprim {

/// Views of x along `axis`, of the given sizes, which add up to x's; or of `size` each, the last one of what
/// is left: PyTorch's split.
DLPRIM_API std::vector<Tensor> split(const Tensor& x, const std::vector<int64_t>& sizes, int axis);
DLPRIM_API std::vector<Tensor> split(const Tensor& x, int64_t size, int axis);

/// The inputs have y's shape but along the axis, where their sizes add up to y's.
struct ConcatDesc {
  std::vector<TensorDesc> inputs;
  TensorDesc y;
  int axis = 0;
};

/// y holds the inputs one behind the other along `axis`. Its gradient: views of dy, by split().
class DLPRIM_API Concat : public Plan {
 public:
  /// Engines: words, on GPUs, for tensors of one dtype that are dense in one order; copies.
  explicit Concat(const Context& context, const ConcatDesc& desc, const Options& options = {});
  void run(const Stream& stream, const std::vector<Tensor>& inputs, const Tensor& y,
           const Tensor& workspace = {}) const;

  struct Impl;

 private:
  std::shared_ptr<const Impl> impl_;
};

/// dy: of the shape of dx.slice(axis, start, end, step).
struct SliceBackwardDesc {
  TensorDesc dy, dx;
  int axis = 0;
  int64_t start = 0, end = 0, step = 1;
};

/// dx is zero but in that view, where it is dy.
class DLPRIM_API SliceBackward : public Plan {
 public:
  /// Engines: direct, on GPUs, one pass over a dx of fewer than 2^29 elements; copies.
  explicit SliceBackward(const Context& context, const SliceBackwardDesc& desc, const Options& options = {});
  void run(const Stream& stream, const Tensor& dy, const Tensor& dx, const Tensor& workspace = {}) const;

  struct Impl;

 private:
  std::shared_ptr<const Impl> impl_;
};

/// Each size of y is a multiple of x's; y may have more dimensions in front. y's rank and the number of
/// dimensions that are repeated are together at most 8.
struct TileDesc {
  TensorDesc x, y;
};

/// x over and over: PyTorch's repeat.
class DLPRIM_API Tile : public Plan {
 public:
  /// Its engine is `copy`.
  explicit Tile(const Context& context, const TileDesc& desc, const Options& options = {});
  void run(const Stream& stream, const Tensor& x, const Tensor& y, const Tensor& workspace = {}) const;

  struct Impl;

 private:
  std::shared_ptr<const Impl> impl_;
};

/// dy, dx: as y and x are forward; floating.
struct TileBackwardDesc {
  TensorDesc dy, dx;
};

/// dx: the sum of all of dy's parts.
class DLPRIM_API TileBackward : public Plan {
 public:
  /// Its engine is `generated`.
  explicit TileBackward(const Context& context, const TileBackwardDesc& desc, const Options& options = {});
  void run(const Stream& stream, const Tensor& dy, const Tensor& dx, const Tensor& workspace = {}) const;

  struct Impl;

 private:
  std::shared_ptr<const Impl> impl_;
};

/// x, y: one shape and dtype. axes: different ones.
struct FlipDesc {
  TensorDesc x, y;
  std::vector<int> axes;
};

/// Elements of the named axes in reverse. It is its own gradient.
class DLPRIM_API Flip : public Plan {
 public:
  /// Engines: cpu, direct.
  explicit Flip(const Context& context, const FlipDesc& desc, const Options& options = {});
  void run(const Stream& stream, const Tensor& x, const Tensor& y, const Tensor& workspace = {}) const;

  struct Impl;

 private:
  std::shared_ptr<const Impl> impl_;
};

/// x, y: one shape. A shift for each axis; axes are different ones.
struct RollDesc {
  TensorDesc x, y;
  std::vector<int64_t> shifts;
  std::vector<int> axes;
};

/// Elements moved by shifts[i] along axes[i]; those that pass the end come in at the front. Its gradient is
/// the roll by the shifts negated.
class DLPRIM_API Roll : public Plan {
 public:
  /// Its engine is `copies`.
  explicit Roll(const Context& context, const RollDesc& desc, const Options& options = {});
  void run(const Stream& stream, const Tensor& x, const Tensor& y, const Tensor& workspace = {}) const;

  struct Impl;

 private:
  std::shared_ptr<const Impl> impl_;
};

/// Finds the plan in the context's cache, or makes it, and runs it.
DLPRIM_API void concat(const Stream& stream, const std::vector<Tensor>& inputs, int axis, const Tensor& y,
                       const Options& options = {}, const Tensor& workspace = {});
DLPRIM_API void slice_backward(const Stream& stream, const Tensor& dy, int axis, int64_t start, int64_t end,
                               int64_t step, const Tensor& dx, const Options& options = {},
                               const Tensor& workspace = {});
DLPRIM_API void tile(const Stream& stream, const Tensor& x, const Tensor& y, const Options& options = {},
                     const Tensor& workspace = {});
DLPRIM_API void tile_backward(const Stream& stream, const Tensor& dy, const Tensor& dx,
                              const Options& options = {}, const Tensor& workspace = {});
DLPRIM_API void flip(const Stream& stream, const Tensor& x, const std::vector<int>& axes, const Tensor& y,
                     const Options& options = {}, const Tensor& workspace = {});
DLPRIM_API void roll(const Stream& stream, const Tensor& x, const std::vector<int64_t>& shifts,
                     const std::vector<int>& axes, const Tensor& y, const Options& options = {},
                     const Tensor& workspace = {});

}  // namespace dlprim
