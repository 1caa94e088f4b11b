// Indexing by several tensors at once, as x[i, :, j] in NumPy and PyTorch. What indices may be, and what
// becomes of those outside: dlprim/gather.hpp.
#pragma once

#include <optional>
#include <vector>

#include <dlprim/gather.hpp>

namespace dlprim {

/// An index tensor for each axis of x, or none where all of it is taken; missing ones at the end are none
/// too. They broadcast together; their common shape takes their axes' place in y's if these are neighbours,
/// otherwise it goes in front.
struct IndexDesc {
  TensorDesc x;
  std::vector<std::optional<TensorDesc>> indices;
  TensorDesc y;
};

/// y = x[indices]. x and y: one dtype, any.
class DLPRIM_API Index : public Plan {
 public:
  /// Engines: cpu, direct. Throws ValidationError (number of indices, shapes, dtypes), BuildError.
  explicit Index(const Context& context, const IndexDesc& desc, const Options& options = {});
  /// Undefined tensors where the description has no index. y shares no memory with the others.
  void run(const Stream& stream, const Tensor& x, const std::vector<Tensor>& indices, const Tensor& y,
           const Tensor& workspace = {}) const;

  struct Impl;

 private:
  std::shared_ptr<const Impl> impl_;
};

/// x: of y's shape and dtype, any; without it y starts from zeros. Indices as above, of y's axes. values
/// broadcast to the shape of y[indices], any dtype.
struct IndexPutDesc {
  std::optional<TensorDesc> x;
  std::vector<std::optional<TensorDesc>> indices;
  TensorDesc values, y;
  ScatterParams params = {};
  int64_t skip = -1;  ///< a number in an index that writes nothing; none if negative
};

/// y = x, and then y[indices] becomes `values`, or is folded with them: PyTorch's index_put.
class DLPRIM_API IndexPut : public Plan {
 public:
  /// Engines: columns, local, winners, extremes, sorted. Throws ValidationError (as Index, engine),
  /// BuildError.
  explicit IndexPut(const Context& context, const IndexPutDesc& desc, const Options& options = {});
  /// y may be x; otherwise it shares no memory with the others.
  void run(const Stream& stream, const Tensor& x, const std::vector<Tensor>& indices, const Tensor& values,
           const Tensor& y, const Tensor& workspace = {}) const;

  struct Impl;

 private:
  std::shared_ptr<const Impl> impl_;
};

/// Finds the plan in the context's cache, or makes it, and runs it.
DLPRIM_API void index(const Stream& stream, const Tensor& x, const std::vector<Tensor>& indices,
                      const Tensor& y, const Options& options = {}, const Tensor& workspace = {});
/// Without x, if it is undefined, y starts from zeros.
DLPRIM_API void index_put(const Stream& stream, const Tensor& x, const std::vector<Tensor>& indices,
                          const Tensor& values, const ScatterParams& params, const Tensor& y,
                          const Options& options = {}, const Tensor& workspace = {});
/// dx is zero but where x was read: there dy is added up. Its plan: IndexPut of dy without x, by sum.
DLPRIM_API void index_backward(const Stream& stream, const Tensor& dy, const std::vector<Tensor>& indices,
                               const Tensor& dx, const Options& options = {}, const Tensor& workspace = {});

}  // namespace dlprim
