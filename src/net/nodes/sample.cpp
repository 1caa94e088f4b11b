// Sampling at places that other tensors say: grids, unpooling, deformed convolution. Regions: region.cpp.
#include <algorithm>

#include <dlprim/affine_grid.hpp>
#include <dlprim/gather.hpp>
#include <dlprim/gemm.hpp>
#include <dlprim/grid_sample.hpp>
#include <dlprim/pointwise.hpp>

#include "net/nodes/families.hpp"
#include "net/nodes/tables.hpp"

namespace dlprim::detail {
namespace {

GridSampleParams grid_params(const NodeStep& step) {
  const std::string mode = step.text("mode", "linear"), padding = step.text("padding", "zeros");
  GridSampleParams params;
  require(mode == "linear" || mode == "nearest" || mode == "cubic", "mode", "'", mode,
          "' must be linear, nearest or cubic");
  params.mode = mode == "linear"    ? GridSampleMode::bilinear
                : mode == "nearest" ? GridSampleMode::nearest
                                    : GridSampleMode::bicubic;
  require(padding == "zeros" || padding == "border" || padding == "reflection", "padding", "'", padding,
          "' must be zeros, border or reflection");
  params.padding = padding == "zeros"    ? GridSamplePadding::zeros
                   : padding == "border" ? GridSamplePadding::border
                                         : GridSamplePadding::reflection;
  params.align_corners = step.flag("align_corners");
  return params;
}

/// Inputs: x [N, C, H, W], grid [N, P, Q, 2]; or with three axes. Attributes: mode (linear, nearest, cubic),
/// padding (zeros, border, reflection), align_corners.
void infer_grid_sample(NodeStep& step) {
  const Shape &x = step.shape(0), &grid = step.shape(1);
  require((x.size() == 4 || x.size() == 5) && grid.size() == x.size() && grid.back() == x.size() - 2 &&
              grid[0] == x[0],
          "inputs", "x, ", x, ", and the grid, ", grid,
          ", do not go together, or have not two or three axes");
  Shape shape{x[0], x[1]};
  for (int i = 1; i + 1 < grid.size(); i++) shape.push_back(grid[i]);
  step.output(0, step.dtype(0), shape);
}
void run_grid_sample(NodeStep& step) {
  const GridSampleParams params = grid_params(step);
  if (step.y().numel() == 0) return;
  grid_sample(step.stream, step.x(0), step.x(1), params, step.y(), step.options);
}

/// Inputs: theta [N, 2, 3] or [N, 3, 4]; the size of the images, [N, C, H, W] or [N, C, D, H, W]. Attribute:
/// align_corners.
void infer_affine_grid(NodeStep& step) {
  const std::vector<int64_t> size = step.integers(1);
  require(size.size() == 4 || size.size() == 5, "inputs", size.size(), " sizes of images, must be 4 or 5");
  Shape shape{size[0]};
  for (size_t i = 2; i < size.size(); i++) shape.push_back(size[i]);
  shape.push_back(static_cast<int64_t>(size.size()) - 2);
  step.output(0, step.dtype(0), shape);
}
void run_affine_grid(NodeStep& step) {
  if (step.y().numel() == 0) return;
  affine_grid(step.stream, step.x(0), step.flag("align_corners"), step.y(), step.options);
}

/// Inputs: x, indices of its shape: places in y, row-major; y's shape (may be left out). y is 0 elsewhere; of
/// several elements with one index the last stays. Attributes: kernel, stride (1), pad_begin, pad_end (0):
/// the pooling's, which say y's shape. Another given shape is refused: whether indices are places in that one
/// or in the pooling's is not agreed upon.
void infer_max_unpool(NodeStep& step) {
  const Shape& x = step.shape(0);
  require(step.shape(1) == x, "inputs", "indices are ", step.shape(1), ", x is ", x);
  const int axes = x.size() - 2;
  const auto asked = [&](const char* name, int64_t standard) {
    const Dims list = step.has(name) ? step.dims(name) : Dims::filled(std::max(axes, 0), standard);
    require(list.size() == axes, name, list, " for x, ", x);
    return list;
  };
  const Dims kernel = asked("kernel", 1), stride = asked("stride", 1), begin = asked("pad_begin", 0),
             end = asked("pad_end", 0);
  Shape shape = x;
  for (int i = 0; i < axes; i++) {
    shape[i + 2] = x[i + 2] == 0 ? 0 : (x[i + 2] - 1) * stride[i] + kernel[i] - begin[i] - end[i];
    require(shape[i + 2] >= 0, "kernel", "gives axis ", i + 2, " of ", x, " the size ", shape[i + 2]);
  }
  if (step.has(2)) {
    const Shape given(step.integers(2));
    require(given == shape, "inputs", "the shape is given as ", given, ", the pooling's is ", shape);
  }
  step.output(0, step.dtype(0), shape);
}
void run_max_unpool(NodeStep& step) {
  const Tensor& y = step.y();
  if (y.numel() == 0) return;
  const int64_t count = step.x(0).numel();
  if (count == 0) return fill(step.stream, 0, y, step.options);
  scatter(step.stream, {}, step.dense(1).reshape({count}), step.dense(0).reshape({count}), 0, {},
          y.reshape({y.numel()}), step.options);
}

/// What a deformed convolution is about: sizes by axis, [rows, columns].
struct Deformed {
  int64_t n, channels, groups, offset_groups, kernels;
  Shape image, kernel, out;
  Dims stride, dilation, pad;
};
Deformed deformed(const NodeStep& step) {
  const Shape &x = step.shape(0), &w = step.shape(1), &offset = step.shape(2);
  require(x.size() == 4 && w.size() == 4 && offset.size() == 4, "inputs", "x, ", x, ", w, ", w, ", offset, ",
          offset, ", must all have rank 4");
  const auto pair = [&](const char* name, int64_t standard) {
    const Dims list = step.has(name) ? step.dims(name) : Dims{standard, standard};
    require(list.size() == 2, name, list, " must have two numbers");
    return list;
  };
  Deformed d{x[0],
             x[1],
             step.integer("groups", 1),
             step.integer("offset_groups", 1),
             w[0],
             {x[2], x[3]},
             {w[2], w[3]},
             {},
             pair("stride", 1),
             pair("dilation", 1),
             pair("pad_begin", 0)};
  const Dims end = pair("pad_end", 0);
  require(d.groups > 0 && d.offset_groups > 0 && d.channels == w[1] * d.groups && w[0] % d.groups == 0 &&
              d.channels % d.offset_groups == 0,
          "groups", d.groups, " and ", d.offset_groups, " of offsets do not go with x, ", x, ", and w, ", w);
  for (int i : {0, 1}) {
    const int64_t room = d.image[i] + d.pad[i] + end[i] - d.dilation[i] * (d.kernel[i] - 1) - 1;
    require(room >= 0 && d.stride[i] > 0, "w", w, " is larger than x, ", x);
    d.out.push_back(room / d.stride[i] + 1);
  }
  const int64_t taps = d.kernel[0] * d.kernel[1];
  const Shape wanted{x[0], d.offset_groups * taps * 2, d.out[0], d.out[1]};
  require(offset == wanted, "inputs", "the offset is ", offset, ", must be ", wanted);
  const Shape mask{x[0], d.offset_groups * taps, d.out[0], d.out[1]};
  require(!step.has(4) || step.shape(4) == mask, "inputs", "the mask must be ", mask);
  return d;
}

/// Where each tap of each place reads, as a grid of [N offset_groups, taps rows, columns, 2].
Tensor deformed_grid(NodeStep& step, const Deformed& d) {
  const int64_t images = d.n * d.offset_groups, taps = d.kernel[0] * d.kernel[1];
  const Tensor offset = step.dense(2).reshape({images, taps, 2, d.out[0], d.out[1]});
  const Tensor grid = step.scratch({images, taps, d.out[0], d.out[1], 2},
                                   offset.dtype() == DType::f64 ? DType::f64 : DType::f32);
  for (int axis : {0, 1}) {
    std::vector<float> places;
    for (int64_t tap = 0; tap < taps; tap++) {
      const int64_t at = axis == 0 ? tap / d.kernel[1] : tap % d.kernel[1];
      for (int64_t i = 0; i < d.out[axis]; i++)
        places.push_back(static_cast<float>(i * d.stride[axis] - d.pad[axis] + at * d.dilation[axis]));
    }
    const Shape shape = axis == 0 ? Shape{taps, d.out[0], 1} : Shape{taps, 1, d.out[1]};
    // Grids run over columns first, from -1 at an image's edge to 1 at the other.
    const Tensor to = grid.slice(4, 1 - axis, 2 - axis);
    const Tensor y = to.as_strided({images, taps, d.out[0], d.out[1]},
                                   {to.strides()[0], to.strides()[1], to.strides()[2], to.strides()[3]});
    const Tensor from = offset.slice(2, axis, axis + 1);
    const Tensor x =
        from.as_strided({images, taps, d.out[0], d.out[1]},
                        {from.strides()[0], from.strides()[1], from.strides()[3], from.strides()[4]});
    pointwise(step.stream, {x, table(step, shape, places)}, {y}, {static_cast<double>(d.image[axis])},
              "y0 = (2 * (x0 + x1) + 1 - s0) / s0", step.options);
  }
  return grid.reshape({images, taps * d.out[0], d.out[1], 2});
}

/// Inputs: x [N, C, H, W], w [K, C / groups, R, S], offset [N, offset_groups R S 2, P, Q], bias [K], mask [N,
/// offset_groups R S, P, Q]; the last two may be left out. Attributes: stride, pad_begin, pad_end, dilation,
/// groups, offset_groups. (Dai et al., 2017; Zhu et al., 2018)
void infer_deform_conv(NodeStep& step) {
  const Deformed d = deformed(step);
  step.output(0, step.dtype(0), {d.n, d.kernels, d.out[0], d.out[1]});
}
void run_deform_conv(NodeStep& step) {
  const Deformed d = deformed(step);
  const Tensor& y = step.y();
  if (y.numel() == 0) return;
  const int64_t taps = d.kernel[0] * d.kernel[1], places = d.out[0] * d.out[1];
  const int64_t depth = d.channels / d.groups * taps;
  require(depth > 0 && d.image[0] > 0 && d.image[1] > 0, "x", step.shape(0), " has no elements");
  const Tensor columns = step.scratch({d.n, d.channels, taps, places}, step.dtype(0));
  const int64_t images = d.n * d.offset_groups, share = d.channels / d.offset_groups;
  grid_sample(step.stream, step.dense(0).reshape({images, share, d.image[0], d.image[1]}),
              deformed_grid(step, d), {}, columns.reshape({images, share, taps * d.out[0], d.out[1]}),
              step.options);
  if (step.has(4)) {
    const Tensor parts = columns.reshape({images, share, taps * places});
    pointwise(step.stream, {parts, step.dense(4).reshape({images, 1, taps * places})}, {parts}, {},
              "y0 = x0 * x1", step.options);
  }
  const Shape batch{d.n, d.groups, d.kernels / d.groups, depth};
  const Tensor w = step.dense(1).reshape({1, batch[1], batch[2], depth}).expand(batch);
  gemm(step.stream, w, columns.reshape({d.n, d.groups, depth, places}), {}, {},
       y.reshape({d.n, d.groups, batch[2], places}), step.options);
  if (step.has(3))
    pointwise(step.stream, {y, step.dense(3).reshape({1, d.kernels, 1, 1})}, {y}, {}, "y0 = x0 + x1",
              step.options);
}

/// The inverse of taking windows: what windows share is added up. Inputs: x [N, C * (the windows' elements),
/// windows]; the image's sizes; the window's sizes. Attributes: stride, dilation (1), pad_begin, pad_end (0).
struct Folded {
  Shape image, window, padded, count;
  Dims stride, dilation, begin;
};
Folded folded(NodeStep& step) {
  Folded f{Shape(step.integers(1)), Shape(step.integers(2)), {}, {}, {}, {}, {}};
  const int axes = f.image.size();
  const auto asked = [&](const char* name, int64_t standard) {
    const Dims list = step.has(name) ? step.dims(name) : Dims::filled(axes, standard);
    require(list.size() == axes, name, list, " of an image, ", f.image);
    return list;
  };
  f.stride = asked("stride", 1), f.dilation = asked("dilation", 1), f.begin = asked("pad_begin", 0);
  const Dims end = asked("pad_end", 0);
  const Shape& x = step.shape(0);
  require(x.size() == 3 && f.window.size() == axes && axes >= 1 && axes + 2 <= kMaxRank, "inputs", "x, ", x,
          ", the image, ", f.image, ", and the window, ", f.window, ", do not go together");
  for (int i = 0; i < axes; i++) {
    require(f.window[i] > 0 && f.stride[i] > 0 && f.dilation[i] > 0 && f.begin[i] >= 0 && end[i] >= 0,
            "inputs", "window ", f.window, ", stride ", f.stride, ", dilation ", f.dilation);
    f.padded.push_back(f.image[i] + f.begin[i] + end[i]);
    const int64_t room = f.padded[i] - f.dilation[i] * (f.window[i] - 1) - 1;
    f.count.push_back(room < 0 ? 0 : room / f.stride[i] + 1);
  }
  require(x[1] % element_count(f.window) == 0 && x[2] == element_count(f.count), "x", x, " does not have ",
          f.count, " windows of ", f.window);
  return f;
}
void infer_fold(NodeStep& step) {
  const Folded f = folded(step);
  Shape shape{step.shape(0)[0], step.shape(0)[1] / element_count(f.window)};
  for (int64_t size : f.image) shape.push_back(size);
  step.output(0, step.dtype(0), shape);
}
void run_fold(NodeStep& step) {
  const Folded f = folded(step);
  const Shape shape = step.out(0).shape;
  if (step.y().numel() == 0) return;
  const int axes = f.image.size();
  const int64_t taps = element_count(f.window);
  const bool half = step.dtype(0) == DType::f16 || step.dtype(0) == DType::bf16;
  Shape padded{shape[0], shape[1]}, each{shape[0], shape[1]};
  for (int i = 0; i < axes; i++) padded.push_back(f.padded[i]), each.push_back(f.count[i]);
  const Tensor sums = step.scratch(padded, half ? DType::f32 : step.dtype(0));
  fill(step.stream, 0, sums, step.options);
  if (step.x(0).numel() != 0) {
    const Tensor x = step.dense(0).reshape({shape[0], shape[1], taps, step.shape(0)[2]});
    for (int64_t tap = 0; tap < taps; tap++) {
      Tensor to = sums;
      int64_t rest = tap;
      for (int i = axes; i-- > 0; rest /= f.window[i]) {
        const int64_t from = rest % f.window[i] * f.dilation[i];
        to = to.slice(i + 2, from, from + (f.count[i] - 1) * f.stride[i] + 1, f.stride[i]);
      }
      const Tensor own = step.dense(x.slice(2, tap, tap + 1)).reshape(each);
      pointwise(step.stream, {to, own}, {to}, {}, "y0 = x0 + x1", step.options);
    }
  }
  Tensor inner = sums;
  for (int i = 0; i < axes; i++) inner = inner.slice(i + 2, f.begin[i], f.begin[i] + f.image[i]);
  copy(step.stream, inner, step.y(), step.options);
}

constexpr NodeKind kKinds[] = {
    {"grid_sample", 2, 2, infer_grid_sample, run_grid_sample},
    {"affine_grid", 2, 2, infer_affine_grid, run_affine_grid},
    {"max_unpool", 2, 3, infer_max_unpool, run_max_unpool},
    {"deform_conv", 3, 5, infer_deform_conv, run_deform_conv},
    {"fold", 3, 3, infer_fold, run_fold},
};

}  // namespace

KindList sample_kinds() {
  return list_of(kKinds);
}

}  // namespace dlprim::detail
