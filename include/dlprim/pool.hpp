// Pooling in one, two and three dimensions: maximum, average and p-norm over sliding, global and adaptive
// windows, forward and backward. Backward gathers: there are no atomics, and the same input gives the same
// bits.
//
//   pool(stream, x, {PoolMode::max, {3, 3}, {2, 2}, {1, 1}}, y, indices);        // torch.max_pool2d
//   pool(stream, x, global_pool(PoolMode::average, 2), y);                       // y: [N, C, 1, 1]
//   pool(stream, x, adaptive_pool(PoolMode::average, {7, 7}), y);                // y: [N, C, 7, 7]
#pragma once

#include <optional>

#include <dlprim/export.hpp>
#include <dlprim/plan.hpp>
#include <dlprim/stream.hpp>
#include <dlprim/tensor.hpp>

namespace dlprim {

namespace detail {
struct PoolPlan;
}

enum class PoolMode : uint8_t {
  max,      ///< what lies in the padding never wins
  average,  ///< padding is 0
  /// (sum of x^norm)^(1/norm), as torch.lp_pool: no absolute value is taken, and the sum of a window that
  /// ceil_mode lets reach beyond the padding counts as many times as its part within goes into the whole.
  lp
};

/// Which windows there are and what becomes of them. `kernel` or `output` has a number for each of 1 to 3
/// spatial axes, in their order; each other list too, or one for all of them, or none: its default.
struct PoolParams {
  PoolMode mode = PoolMode::max;
  Dims kernel{};     ///< the window's taps; empty for adaptive windows
  Dims stride{};     ///< default: the kernel
  Dims pad_begin{};  ///< elements in front, fewer than the dilated window has; default: 0
  Dims pad_end{};    ///< elements behind; default: pad_begin
  Dims dilation{};   ///< distance of taps; default: 1
  /// Adaptive windows, as many: window i of n over a size s is [floor(i s / n), ceil((i + 1) s / n)), as in
  /// torch.adaptive_avg_pool. Lists above must be empty then.
  Dims output{};
  bool ceil_mode = false;         ///< a last window that starts inside input or left padding counts
  bool count_include_pad = true;  ///< average: padding counts in the divisor
  int64_t divisor = 0;            ///< average: what sums are divided by, not 0; 0: by the window's elements
  double norm = 2;                ///< lp: the p of the norm, finite and not 0
};

/// One window over all of the last `spatial` dimensions.
DLPRIM_API PoolParams global_pool(PoolMode mode, int spatial);
/// `output` adaptive windows along the last dimensions.
DLPRIM_API PoolParams adaptive_pool(PoolMode mode, const Dims& output);

/// x: [N, C, ...] or [C, ...] with as many more dimensions as the params' lists have. Throws ValidationError.
DLPRIM_API Shape pool_output_shape(const Shape& x, const PoolParams& params);

/// x: [N, C, W], [N, C, H, W] or [N, C, D, H, W], N may be missing; y: pool_output_shape. One dtype: f32,
/// f16, bf16 (computed in float) or f64. Any strides; the elements of an image fewer than 2^31.
struct PoolDesc {
  TensorDesc x, y;
  PoolParams params;
  std::optional<TensorDesc> indices{};  ///< max: where maxima lie is wanted. Shaped as y, i32 or i64.
};

/// y[n, c, p, q] = what becomes of x in the window whose first tap is at p * stride - pad_begin. A NaN in the
/// window makes a NaN. A window without elements (by dilation) gives -infinity, 0 as average and norm.
class DLPRIM_API Pool : public Plan {
 public:
  /// Throws ValidationError (shapes that do not fit, dtypes, parameters), BuildError.
  explicit Pool(const Context& context, const PoolDesc& desc, const Options& options = {});
  /// `indices` is defined exactly if the description says so: of each maximum the flat index in its plane
  /// (D x H x W), of equal ones the first, of several NaNs the last; -1 of a window without elements. Outputs
  /// share no memory with x.
  void run(const Stream& stream, const Tensor& x, const Tensor& y, const Tensor& indices = {},
           const Tensor& workspace = {}) const;

 private:
  PoolDesc desc_;
  std::shared_ptr<const detail::PoolPlan> impl_;
};

/// What backward needs of forward: of max the indices; of lp x and y; of average nothing. The rest stays
/// undefined.
struct PoolSaved {
  Tensor indices{}, x{}, y{};
};

/// dy, dx: of one dtype, as y and x are forward.
struct PoolBackwardDesc {
  TensorDesc dy, dx;
  PoolParams params;
  std::optional<TensorDesc> indices{}, x{}, y{};  ///< those of PoolSaved
};

/// dx from dy: a maximum's gradient goes to where it was, an average's in equal shares to its window, and a
/// norm's as (x / y)^(norm - 1); where a norm is 0, and PyTorch's gradient NaN, as 0.
class DLPRIM_API PoolBackward : public Plan {
 public:
  /// Throws ValidationError, BuildError.
  explicit PoolBackward(const Context& context, const PoolBackwardDesc& desc, const Options& options = {});
  /// dx is written whole and shares no memory with the others. An index that lies outside of its window hands
  /// nothing back.
  void run(const Stream& stream, const Tensor& dy, const PoolSaved& saved, const Tensor& dx,
           const Tensor& workspace = {}) const;

 private:
  PoolBackwardDesc desc_;
  std::shared_ptr<const detail::PoolPlan> impl_;
};

/// Finds the plan in the context's cache, or makes it, and runs it.
DLPRIM_API void pool(const Stream& stream, const Tensor& x, const PoolParams& params, const Tensor& y,
                     const Tensor& indices = {}, const Options& options = {}, const Tensor& workspace = {});
DLPRIM_API void pool_backward(const Stream& stream, const Tensor& dy, const PoolSaved& saved,
                              const PoolParams& params, const Tensor& dx, const Options& options = {},
                              const Tensor& workspace = {});

}  // namespace dlprim
