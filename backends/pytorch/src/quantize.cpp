// Training with quantisation in mind: numbers rounded to the steps that integers will have. And products with
// weights of 8 bits.
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/WrapDimUtils.h>
#include <dlprim/gemm.hpp>

#include "compute.hpp"
#include "structured.hpp"

namespace ocl {

namespace {

using Pair = std::tuple<at::Tensor, at::Tensor>;

void check_range(int64_t low, int64_t high) {
  TORCH_CHECK(low <= high, "`quant_min` should be less than or equal to `quant_max`.");
}

/// The rounded numbers, and where they lie in the range. Scales and zero points broadcast to x, in f32 or
/// wider; `apart`: the zero point is added after rounding, so that halves go to even multiples of the scale.
Pair rounded(const at::Tensor& x, const at::Tensor& scale, const at::Tensor& zero_point, int64_t low,
             int64_t high, bool apart) {
  check_range(low, high);
  const at::Tensor y = at::empty_like(x), mask = at::empty_like(x, x.options().dtype(at::kBool));
  if (x.numel() == 0) return {y, mask};
  static constexpr char kApart[] =
      "const real z = x2, inverse = (real)1 / x1, q = z + rint(x0 * inverse); "
      "y0 = (fmin(fmax(q, (real)s0), (real)s1) - z) * x1; y1 = q >= s0 && q <= s1";
  static constexpr char kTogether[] =
      "const real z = x2, inverse = (real)1 / x1, q = rint(z + x0 * inverse); "
      "y0 = (fmin(fmax(q, (real)s0), (real)s1) - z) * x1; y1 = q >= s0 && q <= s1";
  compute(home_of(x), apart ? kApart : kTogether, {view(x), view(scale), view(zero_point)},
          {view(y), view(mask)}, {static_cast<double>(low), static_cast<double>(high)});
  return {y, mask};
}

Pair per_tensor(const at::Tensor& x, double scale, int64_t zero_point, int64_t low, int64_t high) {
  TORCH_CHECK(zero_point >= low && zero_point <= high,
              "`zero_point` must be between `quant_min` and `quant_max`.");
  const at::TensorOptions floats = x.options().dtype(at::kFloat);
  return rounded(x, at::full({1}, scale, floats), at::full({1}, zero_point, floats), low, high, true);
}

Pair per_tensor_on_device(const at::Tensor& x, const at::Tensor& scale, const at::Tensor& zero_point,
                          const at::Tensor& enabled, int64_t low, int64_t high) {
  const Pair made =
      rounded(x, scale.to(at::kFloat).reshape({1}), zero_point.to(at::kFloat).reshape({1}), low, high, true);
  const at::Tensor on = enabled.reshape({1}).to(at::kBool).expand_as(x);
  return {at::where(on, std::get<0>(made), x), std::get<1>(made).logical_or(on.logical_not())};
}

/// A vector along the axis of x.
at::Tensor along(const at::Tensor& vector, const at::Tensor& x, int64_t axis) {
  std::vector<int64_t> sizes(static_cast<size_t>(x.dim()), 1);
  sizes[static_cast<size_t>(at::maybe_wrap_dim(axis, x.dim()))] = vector.numel();
  return vector.to(at::kFloat).reshape(sizes);
}

Pair per_channel(const at::Tensor& x, const at::Tensor& scale, const at::Tensor& zero_point, int64_t axis,
                 int64_t low, int64_t high) {
  TORCH_CHECK(scale.dim() == 1 && zero_point.dim() == 1 && scale.numel() == zero_point.numel(),
              "scale and zero-point need to have the same dimensions");
  TORCH_CHECK(scale.numel() == x.size(axis),
              "dimensions of scale and zero-point are not consistent with input tensor");
  return rounded(x, along(scale, x, axis), along(zero_point, x, axis), low, high, false);
}

// Scales and zero points that are learned

/// What a zero point is taken for: a whole number in the range.
at::Tensor whole(const at::Tensor& zero_point, int64_t low, int64_t high) {
  return (zero_point.to(at::kFloat) + 0.5).floor_().clamp_(low, high);
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> learned_backward(const at::Tensor& dy, const at::Tensor& x,
                                                                const at::Tensor& scale,
                                                                const at::Tensor& zero_point, int64_t low,
                                                                int64_t high, double factor) {
  const at::Tensor dx = at::empty_like(x), ds = at::empty_like(x), dz = at::empty_like(x);
  if (x.numel() == 0) return {dx, ds, dz};
  static constexpr char kGradients[] =
      "const real z = x2, inverse = (real)1 / x1, q = rint(z + x0 * inverse); const int below = q < s0, "
      "above = q > s1; "
      "const real f = (q - z) * x1; y0 = below || above ? 0 : x3; y1 = x3 * s2 * (below ? s0 - z : above ? "
      "s1 - z : (f - x0) * inverse); "
      "y2 = below || above ? -x3 * x1 * s2 : 0";
  compute(home_of(x), kGradients, {view(x), view(scale), view(zero_point), view(dy)},
          {view(dx), view(ds), view(dz)}, {static_cast<double>(low), static_cast<double>(high), factor});
  return {dx, ds, dz};
}

at::Tensor learned_per_tensor(const at::Tensor& x, const at::Tensor& scale, const at::Tensor& zero_point,
                              int64_t low, int64_t high, double) {
  return std::get<0>(rounded(x, scale.to(at::kFloat).reshape({1}), whole(zero_point, low, high).reshape({1}),
                             low, high, true));
}
std::tuple<at::Tensor, at::Tensor, at::Tensor> learned_per_tensor_backward(
    const at::Tensor& dy, const at::Tensor& x, const at::Tensor& scale, const at::Tensor& zero_point,
    int64_t low, int64_t high, double factor) {
  const auto [dx, ds, dz] = learned_backward(dy, x, scale.to(at::kFloat).reshape({1}),
                                             whole(zero_point, low, high).reshape({1}), low, high, factor);
  return {dx, ds.sum().unsqueeze(0), dz.sum().unsqueeze(0)};
}

at::Tensor learned_per_channel(const at::Tensor& x, const at::Tensor& scale, const at::Tensor& zero_point,
                               int64_t axis, int64_t low, int64_t high, double) {
  return std::get<0>(per_channel(x, scale, whole(zero_point, low, high), axis, low, high));
}
std::tuple<at::Tensor, at::Tensor, at::Tensor> learned_per_channel_backward(
    const at::Tensor& dy, const at::Tensor& x, const at::Tensor& scale, const at::Tensor& zero_point,
    int64_t axis, int64_t low, int64_t high, double factor) {
  const auto [dx, ds, dz] = learned_backward(dy, x, along(scale, x, axis),
                                             along(whole(zero_point, low, high), x, axis), low, high, factor);
  std::vector<int64_t> dims;
  for (int64_t i = 0; i < x.dim(); i++)
    if (i != at::maybe_wrap_dim(axis, x.dim())) dims.push_back(i);
  if (dims.empty()) return {dx, ds, dz};
  return {dx, ds.sum(dims), dz.sum(dims)};
}

// Products

/// Whole numbers of 8 bits, summed exactly in 32.
at::Tensor& int_mm_out(const at::Tensor& a, const at::Tensor& b, at::Tensor& out) {
  TORCH_CHECK(a.dim() == 2 && b.dim() == 2 && a.size(1) == b.size(0), "_int_mm: matrices of sizes ",
              a.sizes(), " and ", b.sizes());
  TORCH_CHECK(a.scalar_type() == at::kChar && b.scalar_type() == at::kChar && out.scalar_type() == at::kInt,
              "_int_mm: int8 times int8 gives int32, these are ", a.scalar_type(), ", ", b.scalar_type(),
              " and ", out.scalar_type());
  at::native::resize_output(out, {a.size(0), b.size(1)});
  if (out.numel() == 0) return out;
  if (a.size(1) == 0) return out.zero_();
  const auto readable = [](const at::Tensor& t) {
    const bool by_rows = t.stride(1) == 1 && t.stride(0) >= t.size(1),
               by_columns = t.stride(0) == 1 && t.stride(1) >= t.size(0);
    return by_rows || by_columns ? t : t.contiguous();
  };
  const at::Tensor left = readable(a), right = readable(b),
                   result = out.is_contiguous() ? out : at::empty(out.sizes(), out.options());
  const dlprim::Tensor x = view(left), w = view(right), y = view(result);
  static const char here = 0;
  run_plan<dlprim::Gemm>(
      home_of(out), Key::of(reinterpret_cast<intptr_t>(&here), x, w, y),
      [&] {
        return dlprim::Gemm(home_of(out).context, dlprim::GemmDesc{x, w, y});
      },
      [&](const dlprim::Gemm& plan, const dlprim::Stream& stream) { plan.run(stream, x, w, {}, y); });
  if (!result.is_same(out)) out.copy_(result);
  return out;
}
at::Tensor int_mm(const at::Tensor& a, const at::Tensor& b) {
  at::Tensor out = at::empty({0}, a.options().dtype(at::kInt));
  return int_mm_out(a, b, out);
}

/// a [M, K] times the transposed rows of b [N, K], int8, and a scale for each of them.
at::Tensor weight_int8pack_mm(const at::Tensor& a, const at::Tensor& b, const at::Tensor& scales) {
  TORCH_CHECK(a.dim() == 2 && b.dim() == 2 && a.size(1) == b.size(1) && b.scalar_type() == at::kChar &&
                  a.is_floating_point(),
              "_weight_int8pack_mm: a of sizes ", a.sizes(), " and dtype ", a.scalar_type(), ", b of ",
              b.sizes(), " and ", b.scalar_type());
  TORCH_CHECK(scales.dim() == 1 && scales.size(0) == b.size(0), "_weight_int8pack_mm: scales of sizes ",
              scales.sizes(), " for ", b.size(0), " rows");
  const at::Tensor product = at::mm(a.to(at::kFloat), b.to(at::kFloat).t());
  return product.mul_(scales.to(at::kFloat)).to(a.scalar_type());
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  OCL_FLOATING(fake_quantize_per_tensor_affine_cachemask, per_tensor)
  OCL_FLOATING(_fake_quantize_per_tensor_affine_cachemask_tensor_qparams, per_tensor_on_device)
  OCL_FLOATING(fake_quantize_per_channel_affine_cachemask, per_channel)
  OCL_FLOATING(_fake_quantize_learnable_per_tensor_affine, learned_per_tensor)
  OCL_FLOATING(_fake_quantize_learnable_per_tensor_affine_backward, learned_per_tensor_backward)
  OCL_FLOATING(_fake_quantize_learnable_per_channel_affine, learned_per_channel)
  OCL_FLOATING(_fake_quantize_learnable_per_channel_affine_backward, learned_per_channel_backward)
  OCL_FUNCTION(_int_mm, int_mm)
  OCL_FUNCTION(_int_mm_out, int_mm_out)
  OCL_FUNCTION(_weight_int8pack_mm, weight_int8pack_mm)
}

}  // namespace

}  // namespace ocl
