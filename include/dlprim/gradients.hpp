// What is done to all gradients of a net between the backward pass and an optimizer's step: their norm,
// clipping, and the loss's scale for 16-bit training. Numbers that decide over a step (norm, factor, scale,
// found_inf) are f32 tensors of one element on the device: nothing waits for the host.
//
// dw is a list of tensors of one floating dtype, each without gaps, in whatever order its elements lie. A
// list may be empty. What is written shares no memory with any other tensor. All throw ValidationError for
// tensors that are not so.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include <dlprim/export.hpp>
#include <dlprim/plan.hpp>
#include <dlprim/stream.hpp>
#include <dlprim/tensor.hpp>

namespace dlprim {

namespace detail {
struct GradientsImpl;
}

enum class NormOrder : uint8_t {
  one,      ///< sum of absolute values
  two,      ///< root of the sum of squares
  infinity  ///< largest absolute value; NaN if there is one
};

/// Of lists with at most so many tensors, and elements together: the workspace is as large as these need.
struct GradientNormDesc {
  DType dw = DType::f32;
  NormOrder order = NormOrder::two;
  int64_t tensors = 0, elements = 0;
};

/// norm = the norm of all elements together, summed in a fixed order. If `factor` is defined, it becomes
/// min(1, max_norm / (norm + 1e-6)): what gradients are to be multiplied by so that their norm is at most
/// max_norm, as PyTorch's clip_grad_norm_. OptimizerStep::factor takes it, and nothing has to be written
/// twice.
class DLPRIM_API GradientNorm : public Plan {
 public:
  explicit GradientNorm(const Context& context, const GradientNormDesc& desc, const Options& options = {});
  void run(const Stream& stream, const std::vector<Tensor>& dw, double max_norm, const Tensor& norm,
           const Tensor& factor, const Tensor& workspace = {}) const;

 private:
  GradientNormDesc desc_;
  std::shared_ptr<const detail::GradientsImpl> impl_;
};

/// dw's norm becomes at most max_norm; `norm` is what it was.
class DLPRIM_API ClipGradientsByNorm : public Plan {
 public:
  explicit ClipGradientsByNorm(const Context& context, const GradientNormDesc& desc,
                               const Options& options = {});
  void run(const Stream& stream, double max_norm, const std::vector<Tensor>& dw, const Tensor& norm,
           const Tensor& workspace = {}) const;

 private:
  GradientNorm norm_;
  std::shared_ptr<const detail::GradientsImpl> impl_;
};

/// Of what changes dw in place.
struct GradientsDesc {
  DType dw = DType::f32;
};

/// dw *= factor / scale, of those that are defined.
class DLPRIM_API ScaleGradients : public Plan {
 public:
  explicit ScaleGradients(const Context& context, const GradientsDesc& desc, const Options& options = {});
  void run(const Stream& stream, const Tensor& factor, const Tensor& scale, const std::vector<Tensor>& dw,
           const Tensor& workspace = {}) const;

 private:
  std::shared_ptr<const detail::GradientsImpl> impl_;
};

/// Elements below -limit become -limit, those above limit become limit; NaN stays.
class DLPRIM_API ClipGradientsByValue : public Plan {
 public:
  explicit ClipGradientsByValue(const Context& context, const GradientsDesc& desc,
                                const Options& options = {});
  void run(const Stream& stream, double limit, const std::vector<Tensor>& dw,
           const Tensor& workspace = {}) const;

 private:
  std::shared_ptr<const detail::GradientsImpl> impl_;
};

/// dw /= scale, and found_inf = 1 if an element was infinite or NaN, else 0.
class DLPRIM_API UnscaleGradients : public Plan {
 public:
  explicit UnscaleGradients(const Context& context, const GradientsDesc& desc, const Options& options = {});
  void run(const Stream& stream, const Tensor& scale, const std::vector<Tensor>& dw, const Tensor& found_inf,
           const Tensor& workspace = {}) const;

 private:
  std::shared_ptr<const detail::GradientsImpl> impl_;
};

/// As PyTorch's GradScaler has them.
struct LossScaling {
  double growth = 2, backoff = 0.5;  ///< positive, finite
  int interval = 2000;               ///< steps without an infinity after which the scale grows
};

/// If found_inf is not 0, scale *= backoff and good_steps = 0. Else good_steps (i32[1]) counts on; when it
/// reaches the interval it becomes 0 and scale *= growth, unless that is infinite.
class DLPRIM_API UpdateLossScale : public Plan {
 public:
  explicit UpdateLossScale(const Context& context, const LossScaling& desc, const Options& options = {});
  void run(const Stream& stream, const Tensor& found_inf, const Tensor& scale, const Tensor& good_steps,
           const Tensor& workspace = {}) const;

 private:
  LossScaling desc_;
  std::shared_ptr<const detail::GradientsImpl> impl_;
};

// The same as calls: the plan is found in the context's cache, or made.

struct GradientNormParams {
  NormOrder order = NormOrder::two;
  double max_norm = std::numeric_limits<double>::infinity();  ///< for factor, and for clipping
};
DLPRIM_API void gradient_norm(const Stream& stream, const std::vector<Tensor>& dw,
                              const GradientNormParams& params, const Tensor& norm, const Tensor& factor = {},
                              const Options& options = {}, const Tensor& workspace = {});
DLPRIM_API void clip_gradients_by_norm(const Stream& stream, const GradientNormParams& params,
                                       const std::vector<Tensor>& dw, const Tensor& norm,
                                       const Options& options = {}, const Tensor& workspace = {});
DLPRIM_API void scale_gradients(const Stream& stream, const Tensor& factor, const Tensor& scale,
                                const std::vector<Tensor>& dw, const Options& options = {},
                                const Tensor& workspace = {});
DLPRIM_API void clip_gradients_by_value(const Stream& stream, double limit, const std::vector<Tensor>& dw,
                                        const Options& options = {}, const Tensor& workspace = {});
DLPRIM_API void unscale_gradients(const Stream& stream, const Tensor& scale, const std::vector<Tensor>& dw,
                                  const Tensor& found_inf, const Options& options = {},
                                  const Tensor& workspace = {});
DLPRIM_API void update_loss_scale(const Stream& stream, const Tensor& found_inf, const LossScaling& scaling,
                                  const Tensor& scale, const Tensor& good_steps, const Options& options = {},
                                  const Tensor& workspace = {});

}  // namespace dlprim
