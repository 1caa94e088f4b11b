// Gradients of kinds that compute more than an expression: of convolutions, products, pooling,
// normalisations, losses, and of what takes elements by place. Sizes of what a gradient is of are an input,
// i64 on the host, so that no value is kept for its shape alone.
#include <algorithm>

#include <dlprim/batch_norm.hpp>
#include <dlprim/class_loss.hpp>
#include <dlprim/conv.hpp>
#include <dlprim/copy.hpp>
#include <dlprim/embedding.hpp>
#include <dlprim/gemm.hpp>
#include <dlprim/group_norm.hpp>
#include <dlprim/index.hpp>
#include <dlprim/layer_norm.hpp>
#include <dlprim/pointwise.hpp>
#include <dlprim/pool.hpp>
#include <dlprim/reduction.hpp>
#include <dlprim/softmax.hpp>

#include "net/nodes/families.hpp"
#include "net/nodes/params.hpp"

namespace dlprim::detail {
namespace {

/// The output is a gradient of what has the sizes of input `k`, of dy's dtype.
template <int K>
void infer_sized(NodeStep& step) {
  step.output(0, step.dtype(0), Shape(step.integers(K)));
}

/// Inputs: dy, sizes. dy added up over the axes along which those sizes were broadcast to its own.
void run_sum_to(NodeStep& step) {
  const Shape& shape = step.out(0).shape;
  const Tensor& dy = step.x(0);
  if (dy.shape() == shape) return step.set(0, dy);
  require(shape.size() <= dy.rank() && broadcast_shapes(shape, dy.shape()) == dy.shape(), "sizes", shape,
          " do not broadcast to dy, ", dy.shape());
  Shape kept = Shape::filled(dy.rank(), 1);
  for (int i = 0; i < shape.size(); i++) kept[dy.rank() - shape.size() + i] = shape[i];
  reduction(step.stream, "sum", dy, {}, {step.y().reshape(kept)}, step.options);
}

/// Inputs: dy, the sizes of what was reduced, axes (or an attribute; none: all). mean: dy goes in equal
/// shares.
void run_reduce_backward(NodeStep& step) {
  const Shape& shape = step.out(0).shape;
  std::vector<int> axes = normal_axes(step.has(2) ? step.integers(2) : step.integers("axes"), shape.size());
  if (axes.empty() && step.text("no_axes", "all") == "all")
    for (int i = 0; i < shape.size(); i++) axes.push_back(i);
  Shape kept = shape;
  int64_t count = 1;
  for (int axis : axes) count *= kept[axis], kept[axis] = 1;
  const Tensor& dx = step.y_as(0, {});
  if (dx.numel() == 0) return;
  pointwise(step.stream, {step.dense(0).reshape(kept)}, {dx},
            {step.flag("mean") ? 1 / static_cast<double>(count) : 1.0}, "y0 = x0 * s0", step.options);
}

/// What windows are read from: row-major, or with channels side by side.
Tensor window_source(NodeStep& step, int k) {
  return step.x(k).strides()[1] == 1 ? step.x(k) : step.dense(k);
}

/// The convolution whose result is the gradient of x.
ConvParams in_other_direction(ConvParams params, const Shape& x, const Shape& dy, const Shape& w) {
  params.transposed = !params.transposed;
  params.output_pad = {};
  if (!params.transposed) return params;
  const Shape least = conv_output_shape(dy, w, params);
  for (int i = 2; i < x.size(); i++) params.output_pad.push_back(x[i] - least[i]);
  return params;
}

/// Inputs: dy, w, x's sizes, a residual of x's shape: another gradient of x, which is added. Attributes:
/// those of conv.
void run_conv_backward_data(NodeStep& step) {
  const ConvParams params = conv_params(step, step.out(0).shape, step.shape(1));
  const Tensor dy = window_source(step, 0), w = step.dense(1), &dx = step.y_as(0, {});
  if (!step.has(3)) return conv_backward_data(step.stream, dy, w, params, dx, step.options);
  ConvExtras with;
  with.residual = lying_as(step, step.x(3), dx);
  conv(step.stream, dy, w, with, in_other_direction(params, dx.shape(), dy.shape(), w.shape()), dx,
       step.options);
}

/// Inputs: x, dy, w's sizes. Attributes: those of conv.
void run_conv_backward_filter(NodeStep& step) {
  const ConvParams params = conv_params(step, step.shape(0), step.out(0).shape);
  conv_backward_filter(step.stream, window_source(step, 0), window_source(step, 1), params, step.y(),
                       step.options);
}

/// Input: dy [N, C, ...]: its sums over all axes but the channels, [C].
void infer_channel_sums(NodeStep& step) {
  require(step.rank(0) >= 2, "dy", step.shape(0), " must have rank 2 or more");
  step.output(0, step.dtype(0), {step.shape(0)[1]});
}
void run_channel_sums(NodeStep& step) {
  conv_backward_bias(step.stream, step.x(0), step.y(), step.options);
}

Shape matrix(int64_t rows, int64_t columns) {
  return {rows, columns};
}

/// Inputs: dy, the operand that the gradient is not of, the sizes of the other. operand: whose gradient, 0 or
/// 1. alpha: as of matmul. turned: the gradient of a matrix lies with its columns side by side.
void run_matmul_backward(NodeStep& step) {
  const bool first = step.integer("operand", 0) == 0;
  const Shape own = step.out(0).shape, other = step.shape(1);
  const bool row = (first ? own : other).size() == 1, column = (first ? other : own).size() == 1;
  // Vectors get a second axis; dy the one that it has lost.
  const auto as_matrix = [](const Shape& s, bool is_row) {
    return s.size() > 1 ? s : is_row ? matrix(1, s[0]) : matrix(s[0], 1);
  };
  Shape dy_shape = step.shape(0);
  if (row) {
    Shape with;
    for (int i = 0; i < dy_shape.size() - (column ? 0 : 1); i++) with.push_back(dy_shape[i]);
    with.push_back(1);
    if (!column) with.push_back(dy_shape.back());
    dy_shape = with;
  }
  if (column) dy_shape.push_back(1);
  Tensor dy = step.dense(0).reshape(dy_shape);
  // A product reads a matrix also with its columns side by side.
  const bool turned =
      first && other.size() == 2 && step.x(1).strides()[0] == 1 && step.x(1).strides()[1] >= other[0];
  Tensor b = turned ? step.x(1) : step.dense(1).reshape(as_matrix(other, !first));
  const Shape shape = as_matrix(own, first);
  GemmParams params;
  params.alpha = step.number("alpha", 1);
  if (element_count(own) == 0 || element_count(other) == 0 || dy.numel() == 0) {
    if (step.y().numel() != 0) fill(step.stream, 0, step.y(), step.options);
    return;
  }
  // One matrix for all of a batch: its gradient's sum over the batch is that of one product.
  const auto flat = [](const Tensor& t) {
    return t.reshape({t.numel() / t.shape().back(), t.shape().back()});
  };
  if (!first && shape.size() == 2 && step.flag("turned") && own.size() == 2) {
    const Tensor y = step.scratch({shape[1], shape[0]}, step.out(0).dtype);
    gemm(step.stream, flat(dy).transpose(0, 1), flat(b), {}, params, y, step.options);
    return step.set(0, y.transpose(0, 1));
  }
  if (!first && shape.size() == 2) {
    gemm(step.stream, flat(b).transpose(0, 1), flat(dy), {}, params, step.y().reshape(shape), step.options);
    return;
  }
  if (first && b.rank() == 2) {
    Shape rows = shape;
    const bool same = element_count(shape) == dy.numel() / dy.shape().back() * shape.back();
    if (same) {
      gemm(step.stream, flat(dy), b.transpose(0, 1), {}, params,
           step.y().reshape({element_count(rows) / rows.back(), rows.back()}), step.options);
      return;
    }
  }
  Shape whole;
  for (int i = 0; i + 2 < dy.rank(); i++) whole.push_back(dy.shape()[i]);
  Shape other_whole = whole, full = whole;
  for (int back : {2, 1}) {
    other_whole.push_back(b.shape()[b.rank() - back]);
    full.push_back(shape[shape.size() - back]);
  }
  const Tensor wide = b.expand(other_whole);
  const bool summed = full != shape;
  const Tensor y = summed ? step.scratch(full, step.out(0).dtype) : step.y().reshape(shape);
  if (first)
    gemm(step.stream, dy, wide.transpose(-1, -2), {}, params, y, step.options);
  else
    gemm(step.stream, wide.transpose(-1, -2), dy, {}, params, y, step.options);
  if (!summed) return;
  Shape kept = Shape::filled(full.size(), 1);
  for (int i = 0; i < shape.size(); i++) kept[full.size() - shape.size() + i] = shape[i];
  reduction(step.stream, "sum", y, {}, {step.y().reshape(kept)}, step.options);
}

/// Indices as the pool node's attributes number them, as indices in planes again.
Tensor indices_in_planes(NodeStep& step, const Shape& x) {
  const IndexNumbering n = index_numbering(step, x);
  const Tensor in_plane = step.scratch(step.shape(2), DType::i64);
  pointwise(step.stream, {step.x(2), n.first}, {in_plane}, n.sizes,
            n.turned ? "y0 = (x0 - x1) % s0 * s1 + (x0 - x1) / s0" : "y0 = x0 - x1 + 0 * s0 * s1",
            step.options);
  return in_plane;
}

/// Inputs: dy, x's sizes; of maxima their indices; of lp x and y. Attributes: those of pool, or "global" and
/// those of global_pool.
void run_pool_backward(NodeStep& step) {
  const Shape& shape = step.out(0).shape;
  PoolParams params = pool_params(step, shape);
  Shape x = shape, y = step.shape(0);
  if (step.flag("global")) {
    int64_t all = 1;
    for (int i = 2; i < shape.size(); i++) all *= shape[i];
    params.kernel = {all};
    x = {shape[0], shape[1], all};
    y = {shape[0], shape[1], 1};
  }
  const Tensor& dx = step.y_as(0, step.x(0));
  if (dx.numel() == 0) return;
  const auto part = [&](int k, const Shape& as) {
    return step.has(k) ? step.reshaped(step.x(k), as) : Tensor();
  };
  PoolSaved saved{part(2, y), part(3, x), part(4, y)};
  if (step.flag("flat") || step.flag("column_major")) saved.indices = indices_in_planes(step, shape);
  // Of rows and columns as one axis there is a view of either order.
  pool_backward(step.stream, part(0, y), saved, params, step.reshaped(dx, x), step.options);
}

/// Inputs: dy, x, weight, mean and inv_std of the batch; of an activation y, or, without a residual, the
/// bias. Outputs: dx, dweight, dbias, dresidual. Attribute: activation.
void infer_batch_norm_backward(NodeStep& step) {
  step.output(0, step.dtype(1), step.shape(1));
  step.output(1, step.dtype(2), step.shape(2));
  step.output(2, step.dtype(2), step.shape(2));
  step.output(3, step.dtype(1), step.shape(1));
}
void run_batch_norm_backward(NodeStep& step) {
  const auto wanted = [&](int k) {
    return !step.wanted(k) ? Tensor() : k == 0 || k == 3 ? step.y_as(k, step.x(1)) : step.y(k);
  };
  const Tensor y = step.has(5) ? step.x(5) : Tensor(), bias = step.has(6) ? step.dense(6) : Tensor();
  batch_norm_backward(step.stream, step.x(0), step.x(1), step.dense(2), bias, step.dense(3), step.dense(4), y,
                      activation_of(step), wanted(0), wanted(1), wanted(2), wanted(3), step.options);
}

/// Inputs: dy, x, weight (may be left out), mean (of LayerNorm) and 1 / standard deviation of each row.
/// Outputs: dx, dweight, dbias. Attributes: axis, rms, as of layer_norm.
void infer_layer_norm_backward(NodeStep& step) {
  const int first = step.axis("axis", -1, step.rank(1));
  Shape tail;
  for (int i = first; i < step.rank(1); i++) tail.push_back(step.shape(1)[i]);
  require(!step.has(2) || step.shape(2) == tail, "weight", "is ", step.has(2) ? step.shape(2) : tail,
          ", must be ", tail, " to have a gradient");
  const DType dtype = step.has(2) ? step.dtype(2) : step.dtype(1);
  step.output(0, step.dtype(1), step.shape(1));
  step.output(1, dtype, tail);
  step.output(2, dtype, tail);
}
void run_layer_norm_backward(NodeStep& step) {
  const int axes = step.rank(1) - step.axis("axis", -1, step.rank(1));
  const auto wanted = [&](int k) { return step.wanted(k) ? step.y(k) : Tensor(); };
  const Tensor weight = step.has(2) ? step.dense(2) : Tensor();
  if (step.flag("rms"))
    rms_norm_backward(step.stream, step.x(0), step.x(1), weight, step.x(4), axes, wanted(0), wanted(1),
                      step.options);
  else
    layer_norm_backward(step.stream, step.x(0), step.x(1), weight, step.x(3), step.x(4), axes, wanted(0),
                        wanted(1), wanted(2), step.options);
}

/// Inputs: dy, x, weight [C], mean and 1 / standard deviation of each group. Outputs: dx, dweight, dbias.
/// Attribute: groups.
void infer_group_norm_backward(NodeStep& step) {
  const Shape channels{step.shape(1)[1]};
  require(step.shape(2) == channels, "weight", "is ", step.shape(2), ", must be ", channels,
          " to have a gradient");
  step.output(0, step.dtype(1), step.shape(1));
  for (int k : {1, 2}) step.output(k, step.dtype(2), channels);
}
void run_group_norm_backward(NodeStep& step) {
  const auto wanted = [&](int k) { return step.wanted(k) ? step.y(k) : Tensor(); };
  const int64_t groups = step.integer("groups", 0);
  group_norm_backward(step.stream, step.x(0), step.x(1), step.dense(2), step.x(3), step.x(4),
                      groups == 0 ? step.shape(1)[1] : groups, wanted(0), wanted(1), wanted(2), step.options);
}

/// Inputs: dy, y. Attributes: axis (-1), log, to_end: as of softmax.
void infer_softmax_backward(NodeStep& step) {
  step.output(0, step.dtype(0), step.shape(0));
}
void run_softmax_backward(NodeStep& step) {
  Tensor dy = step.x(0), y = step.x(1), dx = step.y();
  if (dx.numel() == 0) return;
  int axis = 1;
  if (step.flag("to_end")) {
    const int first = normal_axis(step.integer("axis", 1), step.rank(0));
    int64_t rows = 1;
    for (int i = 0; i < first; i++) rows *= step.shape(0)[i];
    const Shape plain{rows, dx.numel() / rows};
    dy = step.dense(dy).reshape(plain), y = step.dense(y).reshape(plain), dx = dx.reshape(plain);
  } else {
    axis = step.axis("axis", -1, step.rank(0));
  }
  (step.flag("log") ? log_softmax_backward : softmax_backward)(step.stream, dy, y, {}, axis, dx, step.options,
                                                               {});
}

/// Inputs: dloss, x, target, a weight for each class. Attributes: those of class_loss.
void infer_class_loss_backward(NodeStep& step) {
  step.output(0, step.dtype(1), step.shape(1));
}
void run_class_loss_backward(NodeStep& step) {
  const ClassLossParams params = class_loss_params(step);
  const Shape& shape = step.shape(1);
  if (step.y().numel() == 0) return;
  const int64_t places = element_count(shape) / (shape[0] * shape[1]);
  const Shape x{shape[0], shape[1], places}, rows{shape[0], places};
  const Tensor dloss =
      params.reduction == LossReduction::none ? step.dense(0).reshape(rows) : step.dense(0).reshape({1});
  const Tensor target = step.dense(2).reshape(rows), dx = step.y().reshape(x);
  if (step.flag("logits"))
    cross_entropy_backward(step.stream, dloss, step.dense(1).reshape(x), target, step.x(3), params, dx,
                           step.options);
  else
    nll_loss_backward(step.stream, dloss, target, step.x(3), params, dx, step.options);
}

/// Inputs: dy, indices, x's sizes. Attribute: axis. dx is zero but where x was taken.
void run_gather_backward(NodeStep& step) {
  const int axis = step.axis("axis", 0, step.out(0).shape.size());
  if (step.y().numel() == 0) return;
  if (element_count(step.shape(0)) == 0) return fill(step.stream, 0, step.y(), step.options);
  std::vector<Tensor> indices(static_cast<size_t>(axis));
  indices.push_back(step.x(1));
  index_backward(step.stream, step.x(0), indices, step.y(), step.options);
}

constexpr NodeKind kKinds[] = {
    {"sum_to", 2, 2, infer_sized<1>, run_sum_to},
    {"reduce_backward", 2, 3, infer_sized<1>, run_reduce_backward},
    {"conv_backward_data", 3, 4, infer_sized<2>, run_conv_backward_data},
    {"conv_backward_filter", 3, 3, infer_sized<2>, run_conv_backward_filter},
    {"channel_sums", 1, 1, infer_channel_sums, run_channel_sums},
    {"matmul_backward", 3, 3, infer_sized<2>, run_matmul_backward},
    {"pool_backward", 2, 5, infer_sized<1>, run_pool_backward},
    {"batch_norm_backward", 5, 7, infer_batch_norm_backward, run_batch_norm_backward},
    {"layer_norm_backward", 2, 5, infer_layer_norm_backward, run_layer_norm_backward},
    {"group_norm_backward", 5, 5, infer_group_norm_backward, run_group_norm_backward},
    {"softmax_backward", 2, 2, infer_softmax_backward, run_softmax_backward},
    {"class_loss_backward", 3, 4, infer_class_loss_backward, run_class_loss_backward},
    {"gather_backward", 3, 3, infer_sized<2>, run_gather_backward},
};

}  // namespace

KindList backward_kinds() {
  return list_of(kKinds);
}

}  // namespace dlprim::detail
