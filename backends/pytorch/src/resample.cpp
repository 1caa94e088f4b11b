// Resizing of images, volumes and sequences, sampling at the places of a grid, and their gradients, through
// dlprim's.
#include <ATen/TensorMeta.h>
#include <dlprim/grid_sample.hpp>
#include <dlprim/interpolate.hpp>

#include "plans.hpp"
#include "structured.hpp"

namespace ocl {

namespace {

using dlprim::InterpolateMode;

// Resizing

/// The arguments behind the sizes, in their order: perhaps align_corners, scale factors, the result.
struct Resize {
  template <class... Rest>
  Resize(InterpolateMode mode, bool antialias, const Rest&... rest) {
    params.mode = mode;
    params.antialias = antialias;
    (add(rest), ...);
  }
  dlprim::InterpolateParams params;
  at::Tensor result;

  template <class Plan, class Desc>
  void run(const at::Tensor& from) const {
    if (from.numel() == 0 || result.numel() == 0) return;
    const dlprim::Tensor x = view(from), y = view(result);
    run_plan<Plan>(
        home_of(from),
        Key::of(x, y, params.mode, params.align_corners, params.antialias, params.scale[0], params.scale[1],
                params.scale[2]),
        [&] {
          return Plan(home_of(from).context, Desc{x, y, params});
        },
        [&](const Plan& plan, const dlprim::Stream& stream) { plan.run(stream, x, y); });
  }

 private:
  void add(bool align_corners) { params.align_corners = align_corners; }
  void add(const std::optional<double>& scale) { params.scale[axis_++] = scale && *scale > 0 ? *scale : 0; }
  void add(const at::Tensor& t) { result = t; }
  size_t axis_ = 0;
};

template <class Base, InterpolateMode mode, bool antialias = false>
struct Upsample : Base {
  static constexpr bool floating_only = true;
  template <class... Rest>
  void impl(const at::Tensor& x, at::IntArrayRef, const Rest&... rest) {
    Resize(mode, antialias, rest...).template run<dlprim::Interpolate, dlprim::InterpolateDesc>(x);
  }
};

template <class Base, InterpolateMode mode, bool antialias = false>
struct UpsampleBackward : Base {
  static constexpr bool floating_only = true;
  template <class... Rest>
  void impl(const at::Tensor& dy, at::IntArrayRef, at::IntArrayRef, const Rest&... rest) {
    Resize(mode, antialias, rest...)
        .template run<dlprim::InterpolateBackward, dlprim::InterpolateBackwardDesc>(dy);
  }
};

/// Neighbours that are copied may be bytes, too: as halves, which hold them exactly.
template <class Op, class Class, class Schema = typename Op::schema>
struct BytesToo;
template <class Op, class Class, class... Args>
struct BytesToo<Op, Class, at::Tensor&(Args...)> {
  static at::Tensor& call(Args... args) {
    return run(std::forward_as_tuple(args...), std::make_index_sequence<sizeof...(Args) - 2>());
  }

 private:
  template <class Tuple, size_t... Between>
  static at::Tensor& run(Tuple all, std::index_sequence<Between...>) {
    const at::Tensor& x = std::get<0>(all);
    at::Tensor& out = std::get<sizeof...(Args) - 1>(all);
    if (x.scalar_type() != at::kByte || out.scalar_type() != at::kByte)
      return Structured<Op, Class>::call(x, std::get<Between + 1>(all)..., out);
    at::Tensor halves = at::empty({0}, out.options().dtype(at::kHalf));
    Structured<Op, Class>::call(x.to(at::kHalf), std::get<Between + 1>(all)..., halves);
    at::native::resize_output(out, halves.sizes());
    return out.copy_(halves);
  }
};

// Sampling

dlprim::GridSampleParams sampling(int64_t mode, int64_t padding, bool align_corners) {
  TORCH_CHECK(mode >= 0 && mode <= 2 && padding >= 0 && padding <= 2, "grid_sampler: no mode ", mode,
              " or padding ", padding);
  return {static_cast<dlprim::GridSampleMode>(mode), static_cast<dlprim::GridSamplePadding>(padding),
          align_corners};
}

template <int axes>
at::Tensor grid_sampler(const at::Tensor& input, const at::Tensor& grid, int64_t mode, int64_t padding,
                        bool align_corners) {
  TORCH_CHECK(input.dim() == axes + 2 && grid.dim() == axes + 2 && input.size(0) == grid.size(0) &&
                  grid.size(-1) == axes && input.scalar_type() == grid.scalar_type(),
              "grid_sampler: an input of sizes ", input.sizes(), " and dtype ", input.scalar_type(),
              ", a grid of ", grid.sizes(), " and ", grid.scalar_type());
  for (int64_t i = 2; i < input.dim(); i++)
    TORCH_CHECK(input.size(i) > 0, "grid_sampler: the input has sizes ", input.sizes());
  std::vector<int64_t> shape = grid.sizes().vec();
  shape.pop_back();
  shape.insert(shape.begin() + 1, input.size(1));
  const at::Tensor output = at::empty(shape, input.options());
  if (output.numel() == 0) return output;
  const dlprim::GridSampleParams params = sampling(mode, padding, align_corners);
  const dlprim::Tensor x = view(input), places = view(grid), y = view(output);
  run_plan<dlprim::GridSample>(
      home_of(input), Key::of(x, places, y, mode, padding, align_corners),
      [&] {
        return dlprim::GridSample(home_of(input).context, {x, places, y, params});
      },
      [&](const dlprim::GridSample& plan, const dlprim::Stream& stream) { plan.run(stream, x, places, y); });
  return output;
}

std::tuple<at::Tensor, at::Tensor> grid_sampler_backward(const at::Tensor& grad, const at::Tensor& input,
                                                         const at::Tensor& grid, int64_t mode,
                                                         int64_t padding, bool align_corners,
                                                         std::array<bool, 2> wanted) {
  Device& on = home_of(input);
  const dlprim::GridSampleParams params = sampling(mode, padding, align_corners);
  const at::Tensor grad_input =
                       wanted[0] ? at::empty_like(input, at::MemoryFormat::Contiguous) : at::Tensor(),
                   grad_grid = wanted[1] ? at::empty_like(grid, at::MemoryFormat::Contiguous) : at::Tensor();
  if (grad.numel() == 0) {
    if (wanted[0]) grad_input.zero_();
    if (wanted[1]) grad_grid.zero_();
    return {grad_input, grad_grid};
  }
  const dlprim::Tensor dy = view(grad), x = view(input), places = view(grid), dx = view(grad_input),
                       dplaces = view(grad_grid);
  if (wanted[0])
    run_plan<dlprim::GridSampleBackwardInput>(
        on, Key::of(dy, places, dx, mode, padding, align_corners),
        [&] {
          return dlprim::GridSampleBackwardInput(on.context, {dy, places, dx, params});
        },
        [&](const dlprim::GridSampleBackwardInput& plan, const dlprim::Stream& stream) {
          plan.run(stream, dy, places, dx);
        });
  if (wanted[1])
    run_plan<dlprim::GridSampleBackwardGrid>(
        on, Key::of(dy, x, places, dplaces, mode, padding, align_corners),
        [&] {
          return dlprim::GridSampleBackwardGrid(on.context, {dy, x, places, dplaces, params});
        },
        [&](const dlprim::GridSampleBackwardGrid& plan, const dlprim::Stream& stream) {
          plan.run(stream, dy, x, places, dplaces);
        });
  return {grad_input, grad_grid};
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
#define UPSAMPLE(op, ...)                                                             \
  {                                                                                   \
    using Forward = Upsample<at::meta::structured_##op, __VA_ARGS__>;                 \
    using Back = UpsampleBackward<at::meta::structured_##op##_backward, __VA_ARGS__>; \
    OCL_CLASS(op##_out, Forward)                                                      \
    OCL_CLASS(op##_backward_grad_input, Back)                                         \
  }
#define UPSAMPLE_NEAREST(op, ...)                                                                   \
  {                                                                                                 \
    using Forward = BytesToo<at::_ops::op##_out, Upsample<at::meta::structured_##op, __VA_ARGS__>>; \
    using Back = UpsampleBackward<at::meta::structured_##op##_backward, __VA_ARGS__>;               \
    register_kernel<at::_ops::op##_out, Forward>(m);                                                \
    OCL_CLASS(op##_backward_grad_input, Back)                                                       \
  }
  UPSAMPLE_NEAREST(upsample_nearest1d, InterpolateMode::nearest)
  UPSAMPLE_NEAREST(upsample_nearest2d, InterpolateMode::nearest)
  UPSAMPLE_NEAREST(upsample_nearest3d, InterpolateMode::nearest)
  UPSAMPLE_NEAREST(_upsample_nearest_exact1d, InterpolateMode::nearest_exact)
  UPSAMPLE_NEAREST(_upsample_nearest_exact2d, InterpolateMode::nearest_exact)
  UPSAMPLE_NEAREST(_upsample_nearest_exact3d, InterpolateMode::nearest_exact)
  UPSAMPLE(upsample_linear1d, InterpolateMode::linear)
  UPSAMPLE(upsample_bilinear2d, InterpolateMode::linear)
  UPSAMPLE(upsample_trilinear3d, InterpolateMode::linear)
  UPSAMPLE(upsample_bicubic2d, InterpolateMode::cubic)
  UPSAMPLE(_upsample_bilinear2d_aa, InterpolateMode::linear, true)
  UPSAMPLE(_upsample_bicubic2d_aa, InterpolateMode::cubic, true)
#undef UPSAMPLE
#undef UPSAMPLE_NEAREST
  OCL_FLOATING(grid_sampler_2d, grid_sampler<2>)
  OCL_FLOATING(grid_sampler_2d_backward, grid_sampler_backward)
  OCL_FLOATING(grid_sampler_3d, grid_sampler<3>)
  OCL_FLOATING(grid_sampler_3d_backward, grid_sampler_backward)
}

}  // namespace

}  // namespace ocl
