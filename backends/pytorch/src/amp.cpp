// Mixed precision: which operators autocast makes of lower precision and which of f32, by PyTorch's own
// lists; the loss's scale. Whether a step is skipped, and the scale, stay on the device.
#include <ATen/autocast_mode.h>
#include <torch/library.h>
#include <dlprim/gradients.hpp>

#include "places.hpp"
#include "plans.hpp"
#include "tensor.hpp"

namespace ocl {

namespace {

using at::IntArrayRef, at::Scalar, at::ScalarType, at::Tensor;  // PyTorch's lists name them so

at::Tensor banned(const at::Tensor&, const at::Tensor&, const std::optional<at::Tensor>&, int64_t) {
  TORCH_CHECK(false,
              "binary_cross_entropy of 16-bit probabilities is not safe under autocast: use"
              " binary_cross_entropy_with_logits");
}

#ifdef OCL_OUTPUTS_HAVE_NAMES
using at::DimnameList;  // PyTorch's list below names it without its namespace
#endif

TORCH_LIBRARY_IMPL(aten, AutocastPrivateUse1, m) {
#define LOWER(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, lower_precision_fp)
#define FULL(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32)
#define FULL_BY_DTYPE(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32_set_opt_dtype)
#define PROMOTE(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, promote)
  AT_FORALL_LOWER_PRECISION_FP(LOWER)
  AT_FORALL_FP32(FULL)
  AT_FORALL_FP32_SET_OPT_DTYPE(FULL_BY_DTYPE)
  AT_FORALL_DIFFERENT_REDISPATCH_SIGNATURE(KERNEL_DIFFERENT_REDISPATCH_SIGNATURE_PRIVATEUSEONE)
  AT_FORALL_PROMOTE(PROMOTE)
  // Not on PyTorch's list: its log-probabilities would be as coarse as the input's dtype.
  FULL(cross_entropy_loss)
  m.impl("binary_cross_entropy", TORCH_FN(banned));
}

/// f32, of one element.
void check_number(const at::Tensor& t, const char* name) {
  TORCH_CHECK(t.numel() == 1 && t.scalar_type() == at::kFloat, name, " is one number of f32, this is ",
              t.numel(), " of ", t.scalar_type());
}

/// Gradients of one dtype, without gaps.
void unscale(const std::vector<at::Tensor>& gradients, const at::Tensor& scale, const at::Tensor& found) {
  Device& on = home_of(gradients[0]);
  const dlprim::DType type = require_dtype(gradients[0].scalar_type());
  const std::vector<dlprim::Tensor> dw = vectors_of(gradients);
  run_plan<dlprim::UnscaleGradients>(
      on, Key::of(type), [&] { return dlprim::UnscaleGradients(on.context, {type}); },
      [&](const dlprim::UnscaleGradients& plan, const dlprim::Stream& stream) {
        plan.run(stream, view(scale), dw, view(found));
      });
}

void check_and_unscale(at::TensorList gradients, at::Tensor& found_inf, const at::Tensor& inverse) {
  check_number(inverse, "the scale's inverse");
  check_number(found_inf, "found_inf");
  if (gradients.empty()) return;
  std::array<std::vector<at::Tensor>, static_cast<size_t>(at::ScalarType::NumOptions)> by_type;
  std::vector<std::pair<at::Tensor, at::Tensor>> copies;
  for (const at::Tensor& t : gradients) {
    TORCH_CHECK(t.is_floating_point() && computes(home_of(t), t.scalar_type()), "gradients of ",
                t.scalar_type());
    std::vector<at::Tensor>& group = by_type[static_cast<size_t>(t.scalar_type())];
    if (t.is_non_overlapping_and_dense()) {
      group.push_back(t);
    } else {
      copies.emplace_back(t, t.contiguous());
      group.push_back(copies.back().second);
    }
  }
  // dlprim divides by the scale, and writes whether these gradients had an infinity: others may have had one.
  const at::Tensor scale = inverse.reciprocal();
  for (const std::vector<at::Tensor>& group : by_type) {
    if (group.empty()) continue;
    const at::Tensor found = at::empty_like(found_inf);
    unscale(group, scale, found);
    at::maximum_out(found_inf, found_inf, found);
  }
  for (const auto& [to, from] : copies) to.copy_(from);
}

at::Tensor& update_scale(at::Tensor& scale, at::Tensor& good_steps, const at::Tensor& found_inf,
                         double growth, double backoff, int64_t interval) {
  check_number(scale, "the scale");
  check_number(found_inf, "found_inf");
  TORCH_CHECK(good_steps.numel() == 1 && good_steps.scalar_type() == at::kInt,
              "the growth tracker is one number of i32");
  Device& on = home_of(scale);
  const dlprim::LossScaling scaling{growth, backoff, static_cast<int>(interval)};
  run_plan<dlprim::UpdateLossScale>(
      on, Key::of(growth, backoff, interval), [&] { return dlprim::UpdateLossScale(on.context, scaling); },
      [&](const dlprim::UpdateLossScale& plan, const dlprim::Stream& stream) {
        plan.run(stream, view(found_inf), view(scale), view(good_steps));
      });
  return scale;
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_amp_foreach_non_finite_check_and_unscale_", TORCH_FN(check_and_unscale));
  m.impl("_amp_update_scale_", TORCH_FN(update_scale));
}

}  // namespace

}  // namespace ocl
