// Scans: cumulative sums, products, maxima and minima along an axis.
//
//   cumsum(stream, x, {-1}, y);
//   cumsum_backward(stream, dy, {-1}, dx);
#pragma once

#include <optional>

#include <dlprim/export.hpp>
#include <dlprim/plan.hpp>
#include <dlprim/stream.hpp>
#include <dlprim/tensor.hpp>

namespace dlprim {

enum class ScanKind : uint8_t { sum, product, maximum, minimum };

/// x, y: one shape, any strides. y of sums and products is floating, or an integer (not bool) if x is no
/// floating one: integers are added up in 64 bits. y of maxima and minima has x's dtype.
struct ScanDesc {
  TensorDesc x, y;
  int axis = -1;
  ScanKind kind = ScanKind::sum;
  bool exclusive =
      false;  ///< y[i] is made of the elements before i: the first y is 0, or 1. Sums and products.
  bool reverse = false;  ///< from the axis' end to its start
  /// i32 or i64: where y's maximum or minimum lies along the axis. The last of equals, and of NaNs, which a
  /// maximum and a minimum become from the first one on: as PyTorch's cummax.
  std::optional<TensorDesc> index = std::nullopt;
};

/// y[i] = x[0] + ... + x[i] along an axis, or the like. The order of additions depends on shapes and device
/// only.
class DLPRIM_API Scan : public Plan {
 public:
  /// Throws ValidationError (axis, shapes, dtypes), BuildError.
  explicit Scan(const Context& context, const ScanDesc& desc, const Options& options = {});
  /// y may be x, element for element; otherwise tensors share no memory.
  void run(const Stream& stream, const Tensor& x, const Tensor& y, const Tensor& index = {},
           const Tensor& workspace = {}) const;

  struct Impl;

 private:
  std::shared_ptr<const Impl> impl_;
};

/// Of y, the cumulative products of x: floating tensors of one shape.
struct CumprodBackwardDesc {
  TensorDesc dy, x, y, dx;
  int axis = -1;
  bool reverse = false;  ///< as in forward
};

/// dx[i] = y[i - 1] (dy[i] + x[i + 1] (dy[i + 1] + x[i + 2] (...))): no division, so zeros in x are as good
/// as other numbers.
class DLPRIM_API CumprodBackward : public Plan {
 public:
  /// Throws as Scan.
  explicit CumprodBackward(const Context& context, const CumprodBackwardDesc& desc,
                           const Options& options = {});
  /// dx may be dy or x, element for element; otherwise it shares no memory with another tensor.
  void run(const Stream& stream, const Tensor& dy, const Tensor& x, const Tensor& y, const Tensor& dx,
           const Tensor& workspace = {}) const;

  struct Impl;

 private:
  std::shared_ptr<const Impl> impl_;
};

/// Of the places that cummax or cummin gave: i32 or i64, of dy's shape. dy and dx are floating, in any mix.
struct CummaxBackwardDesc {
  TensorDesc dy, index, dx;
  int axis = -1;
  bool reverse = false;  ///< as in forward
};

/// dx[i]: the sum of dy where the index is i. Places with one index are neighbours and the first of them is
/// the index itself, so that no scattering is needed; of other indices the result means nothing.
class DLPRIM_API CummaxBackward : public Plan {
 public:
  /// Throws as Scan.
  explicit CummaxBackward(const Context& context, const CummaxBackwardDesc& desc,
                          const Options& options = {});
  /// dx may be dy, element for element; otherwise tensors share no memory.
  void run(const Stream& stream, const Tensor& dy, const Tensor& index, const Tensor& dx,
           const Tensor& workspace = {}) const;

  struct Impl;

 private:
  std::shared_ptr<const Impl> impl_;
};

/// Of a call: see ScanDesc. Maxima, minima and gradients know no `exclusive` but those of sums.
struct ScanParams {
  int axis = -1;
  bool exclusive = false, reverse = false;
};

/// Finds the plan in the context's cache, or makes it, and runs it. The first four are of Scan.
DLPRIM_API void cumsum(const Stream& stream, const Tensor& x, const ScanParams& params, const Tensor& y,
                       const Options& options = {}, const Tensor& workspace = {});
DLPRIM_API void cumprod(const Stream& stream, const Tensor& x, const ScanParams& params, const Tensor& y,
                        const Options& options = {}, const Tensor& workspace = {});
DLPRIM_API void cummax(const Stream& stream, const Tensor& x, const ScanParams& params, const Tensor& y,
                       const Tensor& index = {}, const Options& options = {}, const Tensor& workspace = {});
DLPRIM_API void cummin(const Stream& stream, const Tensor& x, const ScanParams& params, const Tensor& y,
                       const Tensor& index = {}, const Options& options = {}, const Tensor& workspace = {});
/// The gradient of a sum is the sum of gradients the other way; `params` are as in forward. Its plan: Scan of
/// dy, with `reverse` negated.
DLPRIM_API void cumsum_backward(const Stream& stream, const Tensor& dy, const ScanParams& params,
                                const Tensor& dx, const Options& options = {}, const Tensor& workspace = {});
DLPRIM_API void cumprod_backward(const Stream& stream, const Tensor& dy, const Tensor& x, const Tensor& y,
                                 const ScanParams& params, const Tensor& dx, const Options& options = {},
                                 const Tensor& workspace = {});
/// cummin's gradient too.
DLPRIM_API void cummax_backward(const Stream& stream, const Tensor& dy, const Tensor& index,
                                const ScanParams& params, const Tensor& dx, const Options& options = {},
                                const Tensor& workspace = {});

}  // namespace dlprim
