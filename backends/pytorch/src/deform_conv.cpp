// torchvision's deformable convolution (Dai et al., 2017; with a mask Zhu et al., 2019): elements are read at
// places that tensors say, between four neighbours each, as columns that weights are multiplied with.
// Gathering and its gradient are the device's deterministic ones.
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <torch/library.h>

#include "tensor.hpp"

namespace ocl {

namespace {

struct Sizes {
  int64_t stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w, groups, offset_groups;
  int64_t n, c, h, w, k, kh, kw, oh, ow;

  int64_t taps() const { return kh * kw; }
  int64_t places() const { return oh * ow; }
};

#define GEOMETRY                                                                                            \
  c10::SymInt stride_h, c10::SymInt stride_w, c10::SymInt pad_h, c10::SymInt pad_w, c10::SymInt dilation_h, \
      c10::SymInt dilation_w, c10::SymInt groups, c10::SymInt offset_groups
#define GEOMETRY_NAMES stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w, groups, offset_groups

Sizes sizes_of(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& offset,
               const at::Tensor& mask, bool use_mask, GEOMETRY) {
  const auto number = [](const c10::SymInt& n) { return n.guard_int(__FILE__, __LINE__); };
  TORCH_CHECK(x.dim() == 4 && weight.dim() == 4 && offset.dim() == 4,
              "deform_conv2d: input, weight and offset have ", x.dim(), ", ", weight.dim(), " and ",
              offset.dim(), " dimensions, not 4");
  Sizes s{number(stride_h),
          number(stride_w),
          number(pad_h),
          number(pad_w),
          number(dilation_h),
          number(dilation_w),
          number(groups),
          number(offset_groups),
          x.size(0),
          x.size(1),
          x.size(2),
          x.size(3),
          weight.size(0),
          weight.size(2),
          weight.size(3),
          0,
          0};
  TORCH_CHECK(s.stride_h > 0 && s.stride_w > 0 && s.dilation_h > 0 && s.dilation_w > 0 && s.pad_h >= 0 &&
                  s.pad_w >= 0 && s.groups > 0 && s.offset_groups > 0,
              "deform_conv2d: strides, dilations and groups must be above 0, paddings not below");
  s.oh = (s.h + 2 * s.pad_h - (s.dilation_h * (s.kh - 1) + 1)) / s.stride_h + 1;
  s.ow = (s.w + 2 * s.pad_w - (s.dilation_w * (s.kw - 1) + 1)) / s.stride_w + 1;
  TORCH_CHECK(weight.size(1) * s.groups == s.c && s.k % s.groups == 0 && s.c % s.offset_groups == 0,
              "deform_conv2d: weight of sizes ", weight.sizes(), " for input of ", x.sizes(), " in ",
              s.groups, " groups");
  const at::IntArrayRef places = offset.sizes();
  TORCH_CHECK(places[0] == s.n && places[1] == 2 * s.offset_groups * s.taps() && places[2] == s.oh &&
                  places[3] == s.ow,
              "deform_conv2d: offset has sizes ", places, ", not ",
              at::IntArrayRef({s.n, 2 * s.offset_groups * s.taps(), s.oh, s.ow}));
  TORCH_CHECK(!use_mask || mask.sizes() == at::IntArrayRef({s.n, s.offset_groups * s.taps(), s.oh, s.ow}),
              "deform_conv2d: mask has sizes ", mask.sizes());
  return s;
}

/// Four neighbours of each place, [N, G, taps, OH, OW]: indices into a plane, whether they are in it, and how
/// far the place lies from the first.
struct Neighbours {
  at::Tensor index[4], inside[4];  ///< inside: 0 or 1, floating
  at::Tensor down, across;
  at::Tensor weight(int corner) const {
    const at::Tensor v = corner / 2 ? down : 1 - down, u = corner % 2 ? across : 1 - across;
    return v * u * inside[corner];
  }
  /// The weight's derivatives by the place.
  at::Tensor by_row(int corner) const {
    const at::Tensor u = corner % 2 ? across : 1 - across;
    return (corner / 2 ? u : -u) * inside[corner];
  }
  at::Tensor by_column(int corner) const {
    const at::Tensor v = corner / 2 ? down : 1 - down;
    return (corner % 2 ? v : -v) * inside[corner];
  }
};

Neighbours neighbours_of(const at::Tensor& offset, const Sizes& s) {
  const at::Tensor moved = offset.reshape({s.n, s.offset_groups, s.taps(), 2, s.oh, s.ow});
  const auto line = [&](int64_t count, int64_t step, int64_t start, at::IntArrayRef shape) {
    return at::arange(count, offset.options()).mul_(step).add_(start).view(shape);
  };
  const at::Tensor rows =
      (line(s.kh, s.dilation_h, 0, {s.kh, 1, 1, 1}) + line(s.oh, s.stride_h, -s.pad_h, {1, 1, s.oh, 1}))
          .expand({s.kh, s.kw, s.oh, 1})
          .reshape({s.taps(), s.oh, 1});
  const at::Tensor columns =
      (line(s.kw, s.dilation_w, 0, {1, s.kw, 1, 1}) + line(s.ow, s.stride_w, -s.pad_w, {1, 1, 1, s.ow}))
          .expand({s.kh, s.kw, 1, s.ow})
          .reshape({s.taps(), 1, s.ow});
  const at::Tensor y = moved.select(3, 0) + rows, x = moved.select(3, 1) + columns;
  const at::Tensor top = y.floor(), left = x.floor();
  // Farther out nothing is read, also at places that are no numbers. At -1 itself there is a gradient.
  const at::Tensor near = y.ge(-1).logical_and_(y.lt(s.h)).logical_and_(x.ge(-1)).logical_and_(x.lt(s.w));
  Neighbours result;
  result.down = at::where(near, y - top, at::zeros({}, y.options()));
  result.across = at::where(near, x - left, at::zeros({}, x.options()));
  for (int corner = 0; corner < 4; corner++) {
    const at::Tensor h = top + corner / 2, w = left + corner % 2;
    const at::Tensor inside =
        h.ge(0).logical_and_(h.lt(s.h)).logical_and_(w.ge(0)).logical_and_(w.lt(s.w)).logical_and_(near);
    result.inside[corner] = inside.to(y.scalar_type());
    result.index[corner] = at::where(inside, h * s.w + w, at::zeros({}, y.options())).to(at::kLong);
  }
  return result;
}

/// The values of an offset group, for each of its channels: [N, G, C / G, taps OH OW].
at::Tensor for_channels(const at::Tensor& t, const Sizes& s) {
  return t.reshape({s.n, s.offset_groups, 1, s.taps() * s.places()})
      .expand({s.n, s.offset_groups, s.c / s.offset_groups, s.taps() * s.places()});
}
at::Tensor planes_of(const at::Tensor& x, const Sizes& s) {
  return x.reshape({s.n, s.offset_groups, s.c / s.offset_groups, s.h * s.w});
}
/// [N, groups, C / groups taps, OH OW]: what a group's weights are multiplied with.
at::Tensor by_groups(const at::Tensor& columns, const Sizes& s) {
  return columns.reshape({s.n, s.groups, s.c / s.groups * s.taps(), s.places()});
}
at::Tensor weights_of(const at::Tensor& weight, const Sizes& s) {
  return weight.reshape({s.groups, s.k / s.groups, s.c / s.groups * s.taps()});
}

/// The columns before the mask.
at::Tensor read_columns(const at::Tensor& x, const Neighbours& near, const Sizes& s) {
  const at::Tensor planes = planes_of(x, s);
  at::Tensor sum;
  for (int corner = 0; corner < 4; corner++) {
    at::Tensor part = planes.gather(3, for_channels(near.index[corner], s));
    part.mul_(for_channels(near.weight(corner), s));
    sum = corner ? sum.add_(part) : part;
  }
  return sum;
}

at::ScalarType wide(const at::Tensor& x) {
  return x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

at::Tensor deform_conv2d(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& offset,
                         const at::Tensor& mask, const at::Tensor& bias, GEOMETRY, bool use_mask) {
  const c10::DeviceGuard guard(input.device());
  const Sizes s = sizes_of(input, weight, offset, mask, use_mask, GEOMETRY_NAMES);
  if (s.n * s.k * s.places() == 0) return at::empty({s.n, s.k, s.oh, s.ow}, input.options());
  const at::ScalarType type = wide(input);
  at::Tensor columns = read_columns(input.to(type), neighbours_of(offset.to(type), s), s);
  if (use_mask) columns.mul_(for_channels(mask.to(type), s));
  at::Tensor y =
      at::matmul(weights_of(weight.to(type), s), by_groups(columns, s)).view({s.n, s.k, s.oh, s.ow});
  return y.add_(bias.to(type).view({1, s.k, 1, 1})).to(input.scalar_type());
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor> deform_conv2d_backward(
    const at::Tensor& grad, const at::Tensor& input, const at::Tensor& weight, const at::Tensor& offset,
    const at::Tensor& mask, const at::Tensor& bias, GEOMETRY, bool use_mask) {
  const c10::DeviceGuard guard(input.device());
  const Sizes s = sizes_of(input, weight, offset, mask, use_mask, GEOMETRY_NAMES);
  if (grad.numel() == 0)
    return {at::zeros_like(input), at::zeros_like(weight), at::zeros_like(offset), at::zeros_like(mask),
            at::zeros_like(bias)};
  const at::ScalarType type = wide(input);
  const at::Tensor x = input.to(type),
                   dy = grad.to(type).reshape({s.n, s.groups, s.k / s.groups, s.places()});
  const Neighbours near = neighbours_of(offset.to(type), s);
  const at::Tensor read = read_columns(x, near, s),
                   factor = use_mask ? for_channels(mask.to(type), s) : at::ones({}, x.options());
  const at::Tensor dweight =
      at::matmul(dy, by_groups(read * factor, s).transpose(-1, -2)).sum(0).view(weight.sizes());
  at::Tensor dcolumns = at::matmul(weights_of(weight.to(type), s).transpose(-1, -2), dy)
                            .reshape({s.n, s.offset_groups, s.c / s.offset_groups, s.taps() * s.places()});
  const at::Tensor dmask =
      use_mask ? (dcolumns * read).sum(2).view(mask.sizes()) : at::zeros_like(mask, type);
  dcolumns = dcolumns * factor;
  const at::Tensor planes = planes_of(x, s), dx = at::zeros(planes.sizes(), x.options());
  at::Tensor drow, dcolumn;
  for (int corner = 0; corner < 4; corner++) {
    const at::Tensor index = for_channels(near.index[corner], s);
    const at::Tensor along = (planes.gather(3, index) * dcolumns).sum(2).view(near.down.sizes());
    drow = corner ? drow + along * near.by_row(corner) : along * near.by_row(corner);
    dcolumn = corner ? dcolumn + along * near.by_column(corner) : along * near.by_column(corner);
    dx.scatter_add_(3, index, dcolumns * for_channels(near.weight(corner), s));
  }
  const at::Tensor doffset = at::stack({drow, dcolumn}, 3).view(offset.sizes());
  const at::ScalarType as = input.scalar_type();
  return {dx.view(input.sizes()).to(as), dweight.to(as), doffset.to(as), dmask.to(as),
          grad.to(type).sum({0, 2, 3}).to(as)};
}

#undef GEOMETRY
#undef GEOMETRY_NAMES

TORCH_LIBRARY_IMPL(torchvision, PrivateUse1, m) {
  m.impl("deform_conv2d", TORCH_FN(deform_conv2d));
  m.impl("_deform_conv2d_backward", TORCH_FN(deform_conv2d_backward));
}

}  // namespace

}  // namespace ocl
