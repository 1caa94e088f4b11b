// Places in sorted sequences: where values would have to go for the sequence to stay sorted.
#pragma once

#include <dlprim/export.hpp>
#include <dlprim/plan.hpp>
#include <dlprim/stream.hpp>
#include <dlprim/tensor.hpp>

namespace dlprim {

/// sorted: [N], one sequence for all of x; or of x's shape but for its last size, one for each row of x along
/// the last axis. sorted and x have one dtype, any. y: i32 or i64, of x's shape. Any strides. N is less than
/// 2^31.
struct SearchsortedDesc {
  TensorDesc sorted, x, y;
  bool right = false;  ///< behind elements that equal x, not in front of them
};

/// y: how many elements of the sequence are below x, or below or equal: as torch.searchsorted and bucketize.
/// NaNs of a sequence stand at its end, above all numbers, as sort() leaves them; of an x that is NaN y is N.
/// (PyTorch's halving takes a NaN that it meets for less than x, so that numbers come to lie behind NaNs.) Of
/// a sequence that is not sorted y is any number of [0, N].
class DLPRIM_API Searchsorted : public Plan {
 public:
  /// Throws ValidationError (shapes, dtypes), BuildError.
  explicit Searchsorted(const Context& context, const SearchsortedDesc& desc, const Options& options = {});
  /// y shares no memory with the others.
  void run(const Stream& stream, const Tensor& sorted, const Tensor& x, const Tensor& y,
           const Tensor& workspace = {}) const;

  struct Impl;

 private:
  std::shared_ptr<const Impl> impl_;
};

/// Finds the plan in the context's cache, or makes it, and runs it.
DLPRIM_API void searchsorted(const Stream& stream, const Tensor& sorted, const Tensor& x, bool right,
                             const Tensor& y, const Options& options = {}, const Tensor& workspace = {});
/// The bucket of each element: the same with the boundaries [N] behind x. Its plan: Searchsorted.
inline void bucketize(const Stream& stream, const Tensor& x, const Tensor& boundaries, bool right,
                      const Tensor& y, const Options& options = {}, const Tensor& workspace = {}) {
  searchsorted(stream, boundaries, x, right, y, options, workspace);
}

}  // namespace dlprim
