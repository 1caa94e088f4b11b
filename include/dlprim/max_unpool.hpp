// Max unpooling (Zeiler et al., 2011): what max pooling took goes back to where it came from, all else is 0.
// As PyTorch's functional.max_unpool1d, 2d and 3d; the output's size is that of y.
//
//   pool(stream, x, params, y, indices);
//   max_unpool(stream, y, indices, 2, z);  // z: as x, with the maxima alone
#pragma once

#include <dlprim/export.hpp>
#include <dlprim/plan.hpp>
#include <dlprim/stream.hpp>
#include <dlprim/tensor.hpp>

namespace dlprim {

/// x and indices: one shape, [N, C, ...] or [C, ...] with `spatial` more dimensions, 1 to 3; y: the same
/// rank, N and C. x and y: one dtype, any; indices: i32 or i64, as pool() gives them: flat ones in y's plane.
/// Any strides; the elements of an image fewer than 2^31.
struct MaxUnpoolDesc {
  TensorDesc x, indices, y;
  int spatial = 2;
};

/// y[n, c, indices[n, c, p]] = x[n, c, p], and 0 elsewhere. Of several elements with one index the last in
/// row-major order stays, the same each time. One whose index lies outside of the plane is dropped; a
/// negative one does, too: pool() says -1 of windows without elements.
class DLPRIM_API MaxUnpool : public Plan {
 public:
  /// Engines: cpu; planes (row-major tensors, planes of y of at most 120000 elements: a work-group finds the
  /// elements of some planes, or of a part of one, in local memory); tiles (the same of a few channels that
  /// are neighbours in all tensors, as far as their planes have no gaps; it takes long where the indices of
  /// neighbours in large planes lie far apart); claims (a work-item for each element claims its place by a
  /// maximum of integers; 32 MiB of workspace, or as many bytes as an image has).
  /// Throws ValidationError (ranks, shapes, dtypes, engine), BuildError.
  explicit MaxUnpool(const Context& context, const MaxUnpoolDesc& desc, const Options& options = {});
  /// y is written whole, and shares no memory with the others.
  void run(const Stream& stream, const Tensor& x, const Tensor& indices, const Tensor& y,
           const Tensor& workspace = {}) const;

  struct Impl;

 private:
  std::shared_ptr<const Impl> impl_;
};

/// dx and indices: one shape, as x forward; dy: as y forward.
struct MaxUnpoolBackwardDesc {
  TensorDesc dy, indices, dx;
  int spatial = 2;
};

/// dx[n, c, p] = dy[n, c, indices[n, c, p]], 0 where the index lies outside. As with PyTorch, all of several
/// elements with one index get that place's gradient.
class DLPRIM_API MaxUnpoolBackward : public Plan {
 public:
  /// Engines: cpu, direct. Throws as MaxUnpool.
  explicit MaxUnpoolBackward(const Context& context, const MaxUnpoolBackwardDesc& desc,
                             const Options& options = {});
  /// dx is written whole, and shares no memory with the others.
  void run(const Stream& stream, const Tensor& dy, const Tensor& indices, const Tensor& dx,
           const Tensor& workspace = {}) const;

  using Impl = MaxUnpool::Impl;

 private:
  std::shared_ptr<const Impl> impl_;
};

/// Finds the plan in the context's cache, or makes it, and runs it.
DLPRIM_API void max_unpool(const Stream& stream, const Tensor& x, const Tensor& indices, int spatial,
                           const Tensor& y, const Options& options = {}, const Tensor& workspace = {});
DLPRIM_API void max_unpool_backward(const Stream& stream, const Tensor& dy, const Tensor& indices,
                                    int spatial, const Tensor& dx, const Options& options = {},
                                    const Tensor& workspace = {});

}  // namespace dlprim
