// Reading and writing along one axis at places that an index tensor says: gather, scatter, index_select and
// what follows from them.
//
// In every operator that takes indices these are i32 or i64, any strides, and a negative one counts from the
// end. What is read at an index outside of [-size, size) is 0, and what would be written there is dropped: a
// device cannot throw. Nothing depends on the order in which work-items run: elements that meet in one place
// are folded in an order that shapes, strides and the engine fix, sums of f16 and bf16 in f32, and are
// rounded once.
#pragma once

#include <optional>

#include <dlprim/export.hpp>
#include <dlprim/plan.hpp>
#include <dlprim/stream.hpp>
#include <dlprim/tensor.hpp>

namespace dlprim {

/// What becomes of elements that are scattered to one place. min and max pass NaN on; a mean of integers is
/// rounded down.
enum class ScatterReduce : uint8_t {
  none,  ///< the last one stays
  sum,
  prod,
  mean,
  min,
  max
};

struct ScatterParams {
  ScatterReduce reduce = ScatterReduce::none;
  /// Whether the place's old value takes part (without a reduction it never does).
  bool include_self = true;
};

/// x, y: one dtype, any. index, y: one shape, of x's rank, and no larger than x but along `axis`.
struct GatherDesc {
  TensorDesc x, index, y;
  int axis = 0;
};

/// y[..., i, ...] = x[..., index[..., i, ...], ...]: PyTorch's gather.
class DLPRIM_API Gather : public Plan {
 public:
  /// Engines: cpu, direct. Throws ValidationError (ranks, shapes, dtypes, engine), BuildError.
  explicit Gather(const Context& context, const GatherDesc& desc, const Options& options = {});
  /// y shares no memory with x and index.
  void run(const Stream& stream, const Tensor& x, const Tensor& index, const Tensor& y,
           const Tensor& workspace = {}) const;

  struct Impl;

 private:
  std::shared_ptr<const Impl> impl_;
};

/// x: of y's shape and dtype, any; without it y starts from zeros. src: the index's shape, any dtype; both of
/// y's rank, and no larger than y but along `axis`.
struct ScatterDesc {
  std::optional<TensorDesc> x;
  TensorDesc index, src, y;
  int axis = 0;
  ScatterParams params = {};
};

/// y = x, and then y[..., index[..., i, ...], ...] becomes src[..., i, ...], or is folded with it: PyTorch's
/// scatter, scatter_add and scatter_reduce.
class DLPRIM_API Scatter : public Plan {
 public:
  /// Engines: columns, local, winners, extremes, sorted. All but sorted fold in the order of src's elements
  /// in memory; for extremes, which any order gives, -0 is less than +0. Throws ValidationError (ranks,
  /// shapes, dtypes, engine), BuildError.
  explicit Scatter(const Context& context, const ScatterDesc& desc, const Options& options = {});
  /// y may be x; otherwise it shares no memory with the others.
  void run(const Stream& stream, const Tensor& x, const Tensor& index, const Tensor& src, const Tensor& y,
           const Tensor& workspace = {}) const;

  struct Impl;

 private:
  std::shared_ptr<const Impl> impl_;
};

/// Finds the plan in the context's cache, or makes it, and runs it.
DLPRIM_API void gather(const Stream& stream, const Tensor& x, const Tensor& index, int axis, const Tensor& y,
                       const Options& options = {}, const Tensor& workspace = {});
/// Without x, if it is undefined, y starts from zeros.
DLPRIM_API void scatter(const Stream& stream, const Tensor& x, const Tensor& index, const Tensor& src,
                        int axis, const ScatterParams& params, const Tensor& y, const Options& options = {},
                        const Tensor& workspace = {});
/// Gather of x and index broadcast (Tensor::expand) against each other but along `axis`: NumPy's
/// take_along_axis.
DLPRIM_API void take_along(const Stream& stream, const Tensor& x, const Tensor& index, int axis,
                           const Tensor& y, const Options& options = {}, const Tensor& workspace = {});
/// dx is zero but where x was read: there dy is added up. Its plan: Scatter of dy without x, by sum.
DLPRIM_API void gather_backward(const Stream& stream, const Tensor& dy, const Tensor& index, int axis,
                                const Tensor& dx, const Options& options = {}, const Tensor& workspace = {});

// Along one axis by a vector; the plans are Index and IndexPut of index.hpp, with the index in the axis'
// place.

/// y = x at the numbers of `index`, a vector, along `axis`: PyTorch's index_select.
DLPRIM_API void index_select(const Stream& stream, const Tensor& x, const Tensor& index, int axis,
                             const Tensor& y, const Options& options = {}, const Tensor& workspace = {});
DLPRIM_API void index_select_backward(const Stream& stream, const Tensor& dy, const Tensor& index, int axis,
                                      const Tensor& dx, const Options& options = {},
                                      const Tensor& workspace = {});
/// y = x, or zeros; then the slices of y that `index`, a vector, names along `axis` become those of src, or
/// are folded with them: PyTorch's index_copy, index_add and index_reduce. y may be x.
DLPRIM_API void index_write(const Stream& stream, const Tensor& x, const Tensor& index, const Tensor& src,
                            int axis, const ScatterParams& params, const Tensor& y,
                            const Options& options = {}, const Tensor& workspace = {});

}  // namespace dlprim
