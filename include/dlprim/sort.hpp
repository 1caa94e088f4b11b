// Ordering along an axis: sort, argsort, top-k, k-th value, median, and their gradient.
//
// All order as PyTorch does: NaNs are equal and above all other numbers, -0 equals 0, and sorting is stable:
// equal elements keep their order, descending too. Results are the elements' own bits.
#pragma once

#include <optional>

#include <dlprim/export.hpp>
#include <dlprim/plan.hpp>
#include <dlprim/stream.hpp>
#include <dlprim/tensor.hpp>

namespace dlprim {

namespace detail {
struct SortImpl;
}

/// Any dtype, any strides, 1 to 8 dimensions. y has x's dtype. An axis has less than 2^31 elements, and there
/// are less than 2^31 rows along it.
struct SortDesc {
  TensorDesc x;
  std::optional<TensorDesc> y;        ///< the values, if they are wanted
  std::optional<TensorDesc> indices;  ///< their places along the axis of x, i32 or i64, if they are wanted
  int axis = -1;                      ///< a negative one counts from the end
  bool descending = false;
};

/// y and indices, of x's shape: as torch.sort(stable=True); y alone as numpy.sort, indices alone as
/// torch.argsort.
class DLPRIM_API Sort : public Plan {
 public:
  /// Throws ValidationError (shapes, dtypes, axis, neither y nor indices), BuildError.
  explicit Sort(const Context& context, const SortDesc& desc, const Options& options = {});
  /// y and indices are defined exactly if the description has them, and share no memory with x.
  void run(const Stream& stream, const Tensor& x, const Tensor& y, const Tensor& indices,
           const Tensor& workspace = {}) const;

 private:
  SortDesc desc_;
  std::shared_ptr<const detail::SortImpl> impl_;
};

/// k is the size of y and indices along the axis, where it lies in [0, size of x].
struct TopKDesc {
  TensorDesc x;
  std::optional<TensorDesc> y, indices;
  int axis = -1;
  bool largest = true;
  bool sorted = true;  ///< largest or smallest first; else in an order that the engine chooses
};

/// The k largest or smallest elements along the axis and where they were: torch.topk. Of equal elements those
/// with the smaller indices are taken.
class DLPRIM_API TopK : public Plan {
 public:
  /// Throws as Sort.
  explicit TopK(const Context& context, const TopKDesc& desc, const Options& options = {});
  /// As Sort's.
  void run(const Stream& stream, const Tensor& x, const Tensor& y, const Tensor& indices,
           const Tensor& workspace = {}) const;

 private:
  TopKDesc desc_;
  std::shared_ptr<const detail::SortImpl> impl_;
};

enum class Median : uint8_t {
  none,        ///< k says which element
  median,      ///< the lower one of two; the first NaN of a row that has one
  nan_median,  ///< of the elements that are no NaNs; a NaN where there is no other
};

/// y and indices: x's shape with size 1 along the axis.
struct KthValueDesc {
  TensorDesc x;
  std::optional<TensorDesc> y, indices;
  int axis = -1;
  int64_t k = 1;  ///< in [1, size of x along the axis]
  Median median = Median::none;
};

/// The k-th smallest element along the axis, or the median, and where it is, the first of equal ones:
/// torch.kthvalue, median, nanmedian, with keepdim. Its gradient is sort_backward.
class DLPRIM_API KthValue : public Plan {
 public:
  /// Throws as Sort, and where there are no elements along the axis.
  explicit KthValue(const Context& context, const KthValueDesc& desc, const Options& options = {});
  /// As Sort's.
  void run(const Stream& stream, const Tensor& x, const Tensor& y, const Tensor& indices,
           const Tensor& workspace = {}) const;

 private:
  KthValueDesc desc_;
  std::shared_ptr<const detail::SortImpl> impl_;
};

/// dy and indices have one shape, as sort, top-k or k-th value made them; dx has theirs but along the axis,
/// where it is not shorter. dy and dx are floating, in any mix.
struct SortBackwardDesc {
  TensorDesc dy, indices, dx;
  int axis = -1;
};

/// dx[indices] = dy along the axis, and 0 where no index leads. The indices of a row are different, as those
/// of sort and top-k are; one outside of the axis is left out.
class DLPRIM_API SortBackward : public Plan {
 public:
  /// Throws ValidationError (shapes, dtypes, axis), BuildError.
  explicit SortBackward(const Context& context, const SortBackwardDesc& desc, const Options& options = {});
  /// dx is written whole and shares no memory with the others.
  void run(const Stream& stream, const Tensor& dy, const Tensor& indices, const Tensor& dx,
           const Tensor& workspace = {}) const;

  struct Impl;

 private:
  SortBackwardDesc desc_;
  std::shared_ptr<const Impl> impl_;
};

// The same as calls: the plan is found in the context's cache, or made. They throw as the plans do. An
// undefined y or indices is not wanted.

struct SortParams {
  int axis = -1;
  bool descending = false;
};
DLPRIM_API void sort(const Stream& stream, const Tensor& x, const SortParams& params, const Tensor& y,
                     const Tensor& indices = {}, const Options& options = {}, const Tensor& workspace = {});
/// The places alone. Its plan: Sort without y.
inline void argsort(const Stream& stream, const Tensor& x, const SortParams& params, const Tensor& indices,
                    const Options& options = {}, const Tensor& workspace = {}) {
  sort(stream, x, params, {}, indices, options, workspace);
}

struct TopKParams {
  int axis = -1;
  bool largest = true, sorted = true;
};
DLPRIM_API void top_k(const Stream& stream, const Tensor& x, const TopKParams& params, const Tensor& y,
                      const Tensor& indices = {}, const Options& options = {}, const Tensor& workspace = {});

/// median and nan_median are of KthValue, too.
DLPRIM_API void kth_value(const Stream& stream, const Tensor& x, int64_t k, int axis, const Tensor& y,
                          const Tensor& indices = {}, const Options& options = {},
                          const Tensor& workspace = {});
DLPRIM_API void median(const Stream& stream, const Tensor& x, int axis, const Tensor& y,
                       const Tensor& indices = {}, const Options& options = {}, const Tensor& workspace = {});
DLPRIM_API void nan_median(const Stream& stream, const Tensor& x, int axis, const Tensor& y,
                           const Tensor& indices = {}, const Options& options = {},
                           const Tensor& workspace = {});

DLPRIM_API void sort_backward(const Stream& stream, const Tensor& dy, const Tensor& indices, int axis,
                              const Tensor& dx, const Options& options = {}, const Tensor& workspace = {});

}  // namespace dlprim
