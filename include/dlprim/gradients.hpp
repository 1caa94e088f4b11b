// What is done to all gradients of a net between the backward pass and an optimizer's step: their norm,
// clipping, and the loss's scale for 16-bit training. Numbers that decide over a step (norm, factor, scale,
// found_inf) are f32 tensors of one element on the device: no call waits for the host.
//
// Tensors of a list have one floating dtype, and each is without gaps, in whatever order its elements lie. A
// list may be empty. What is written shares no memory with any other tensor. All throw ValidationError for
// tensors that are not so.
#pragma once

#include <limits>
#include <vector>

#include <dlprim/export.hpp>
#include <dlprim/stream.hpp>
#include <dlprim/tensor.hpp>

namespace dlprim {

enum class NormOrder : uint8_t {
  one,      ///< sum of absolute values
  two,      ///< root of the sum of squares
  infinity  ///< largest absolute value; NaN if there is one
};

/// norm = the norm of all elements together, summed in a fixed order. If `factor` is given, it becomes min(1,
/// max_norm / (norm + 1e-6)): what gradients are to be multiplied by so that their norm is at most max_norm,
/// as PyTorch's clip_grad_norm_. OptimizerStep::factor takes it, and nothing has to be written twice.
DLPRIM_API void gradient_norm(const Stream& stream, const std::vector<Tensor>& dw, NormOrder order,
                              const Tensor& norm, const Tensor& factor = {},
                              double max_norm = std::numeric_limits<double>::infinity());
/// dw *= factor / scale, of those that are given.
DLPRIM_API void scale_gradients(const Stream& stream, const std::vector<Tensor>& dw, const Tensor& factor,
                                const Tensor& scale = {});
/// Both: dw's norm becomes at most max_norm; `norm` is what it was.
DLPRIM_API void clip_gradients_by_norm(const Stream& stream, const std::vector<Tensor>& dw, double max_norm,
                                       const Tensor& norm, NormOrder order = NormOrder::two);
/// Elements below -limit become -limit, those above limit become limit; NaN stays.
DLPRIM_API void clip_gradients_by_value(const Stream& stream, const std::vector<Tensor>& dw, double limit);

/// dw /= scale, and found_inf = 1 if an element was infinite or NaN, else 0.
DLPRIM_API void unscale_gradients(const Stream& stream, const std::vector<Tensor>& dw, const Tensor& scale,
                                  const Tensor& found_inf);

/// As PyTorch's GradScaler has them.
struct LossScaling {
  double growth = 2, backoff = 0.5;  ///< positive, finite
  int interval = 2000;               ///< steps without an infinity after which the scale grows
};
/// If found_inf is not 0, scale *= backoff and good_steps = 0. Else good_steps (i32[1]) counts on; when it
/// reaches the interval it becomes 0 and scale *= growth, unless that is infinite.
DLPRIM_API void update_loss_scale(const Stream& stream, const Tensor& scale, const Tensor& good_steps,
                                  const Tensor& found_inf, const LossScaling& scaling = {});

}  // namespace dlprim
