// Softmax, log-softmax and logsumexp along one axis, with or without a mask.
#pragma once

#include <optional>

#include <dlprim/export.hpp>
#include <dlprim/plan.hpp>
#include <dlprim/stream.hpp>
#include <dlprim/tensor.hpp>

namespace dlprim {

namespace detail {
struct SoftmaxImpl;
}

/// Any strides; f32, f16, bf16, f64 in any mix; x and y have one shape.
struct SoftmaxDesc {
  TensorDesc x, y;
  int axis = -1;     ///< a negative one counts from the end
  bool log = false;  ///< log-softmax
  /// Broadcasts to x's shape. bool: elements take part where it is true, others count as -infinity. Floating:
  /// it is added to x.
  std::optional<TensorDesc> mask = {};
};

/// y = exp(x) / sum(exp(x)) along the axis, or its logarithm.
class DLPRIM_API Softmax : public Plan {
 public:
  /// Throws ValidationError (dtypes, shapes that differ, axis), BuildError.
  explicit Softmax(const Context& context, const SoftmaxDesc& desc, const Options& options = {});
  /// y may be x; otherwise they share no memory. A row with nothing above -infinity gives NaN without a mask;
  /// with one 0, or -infinity of log-softmax, as PyTorch's scaled_dot_product_attention has it. One with
  /// +infinity or NaN gives NaN.
  void run(const Stream& stream, const Tensor& x, const Tensor& mask, const Tensor& y,
           const Tensor& workspace = {}) const;

 private:
  SoftmaxDesc desc_;
  std::shared_ptr<const detail::SoftmaxImpl> impl_;
};

/// Of one shape; as for Softmax.
struct SoftmaxBackwardDesc {
  TensorDesc dy, y, dx;
  int axis = -1;
  bool log = false;
  std::optional<TensorDesc> mask = {};  ///< a bool one: one that is added changes nothing here
};

/// From the output y: dx = y * (dy - sum(dy * y)); of log-softmax: dx = dy - exp(y) * sum(dy). 0 where a bool
/// mask is false.
class DLPRIM_API SoftmaxBackward : public Plan {
 public:
  /// Throws as Softmax.
  explicit SoftmaxBackward(const Context& context, const SoftmaxBackwardDesc& desc,
                           const Options& options = {});
  /// dx may be dy; otherwise it shares no memory with the others.
  void run(const Stream& stream, const Tensor& dy, const Tensor& y, const Tensor& mask, const Tensor& dx,
           const Tensor& workspace = {}) const;

 private:
  SoftmaxBackwardDesc desc_;
  std::shared_ptr<const detail::SoftmaxImpl> impl_;
};

/// y: x's shape with size 1 along the axis. Strides and dtypes as for Softmax.
struct LogSumExpDesc {
  TensorDesc x, y;
  int axis = -1;
};

/// y = log(sum(exp(x))) along the axis; of no elements, or of -infinity alone, -infinity.
class DLPRIM_API LogSumExp : public Plan {
 public:
  /// Throws as Softmax.
  explicit LogSumExp(const Context& context, const LogSumExpDesc& desc, const Options& options = {});
  /// y shares no memory with the others.
  void run(const Stream& stream, const Tensor& x, const Tensor& y, const Tensor& workspace = {}) const;

 private:
  LogSumExpDesc desc_;
  std::shared_ptr<const detail::SoftmaxImpl> impl_;
};

/// dy: of y's shape, dx: of x's.
struct LogSumExpBackwardDesc {
  TensorDesc dy, x, y, dx;
  int axis = -1;
};

/// dx = dy * exp(x - y).
class DLPRIM_API LogSumExpBackward : public Plan {
 public:
  /// Throws as Softmax.
  explicit LogSumExpBackward(const Context& context, const LogSumExpBackwardDesc& desc,
                             const Options& options = {});
  /// dx may be x; otherwise it shares no memory with the others.
  void run(const Stream& stream, const Tensor& dy, const Tensor& x, const Tensor& y, const Tensor& dx,
           const Tensor& workspace = {}) const;

  struct Impl;

 private:
  LogSumExpBackwardDesc desc_;
  std::shared_ptr<const Impl> impl_;
};

// The same as calls: the plan is found in the context's cache, or made. They throw as the plans do.

/// Along `axis`; the maximum is subtracted first, so large inputs do not overflow. `mask` may be undefined.
DLPRIM_API void softmax(const Stream& stream, const Tensor& x, const Tensor& mask, int axis, const Tensor& y,
                        const Options& options = {}, const Tensor& workspace = {});
DLPRIM_API void log_softmax(const Stream& stream, const Tensor& x, const Tensor& mask, int axis,
                            const Tensor& y, const Options& options = {}, const Tensor& workspace = {});
/// From the output y; `mask` if it was a bool one.
DLPRIM_API void softmax_backward(const Stream& stream, const Tensor& dy, const Tensor& y, const Tensor& mask,
                                 int axis, const Tensor& dx, const Options& options = {},
                                 const Tensor& workspace = {});
DLPRIM_API void log_softmax_backward(const Stream& stream, const Tensor& dy, const Tensor& y,
                                     const Tensor& mask, int axis, const Tensor& dx,
                                     const Options& options = {}, const Tensor& workspace = {});
DLPRIM_API void logsumexp(const Stream& stream, const Tensor& x, int axis, const Tensor& y,
                          const Options& options = {}, const Tensor& workspace = {});
DLPRIM_API void logsumexp_backward(const Stream& stream, const Tensor& dy, const Tensor& x, const Tensor& y,
                                   int axis, const Tensor& dx, const Options& options = {},
                                   const Tensor& workspace = {});

}  // namespace dlprim
