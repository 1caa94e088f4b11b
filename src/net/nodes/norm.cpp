// Normalisations: softmax and its kin, and those by means and variances.
#include <algorithm>

#include <dlprim/batch_norm.hpp>
#include <dlprim/copy.hpp>
#include <dlprim/group_norm.hpp>
#include <dlprim/layer_norm.hpp>
#include <dlprim/pointwise.hpp>
#include <dlprim/pool.hpp>
#include <dlprim/reduction.hpp>
#include <dlprim/softmax.hpp>

#include "net/nodes/families.hpp"
#include "net/nodes/params.hpp"

namespace dlprim::detail {
namespace {

/// What the library computes with: f64 of f64, else f32.
DType wide(DType dtype) {
  return dtype == DType::f64 ? DType::f64 : DType::f32;
}

/// x, of which `keep` says what stays of each axis: its size, or 1.
template <class F>
Shape reduced(const Shape& x, F keep) {
  Shape shape = x;
  for (int i = 0; i < shape.size(); i++)
    if (!keep(i)) shape[i] = 1;
  return shape;
}

void infer_like_x(NodeStep& step) {
  step.output(0, step.dtype(0), step.shape(0));
}

/// The rows that softmax and hardmax are about: x along `axis`; with "to_end" axes from there on are one.
struct Rows {
  Tensor x, y;
  int axis;
};
Rows rows_of(NodeStep& step) {
  if (!step.flag("to_end")) return {step.x(0), step.y(), step.axis("axis", -1, step.rank(0))};
  const int rank = step.rank(0), axis = static_cast<int>(step.integer("axis", 1));
  const int first = axis < 0 ? axis + rank : axis;
  require(first >= 0 && first <= rank, "axis", axis, " of rank ", rank);
  int64_t rows = 1, columns = 1;
  for (int i = 0; i < rank; i++) (i < first ? rows : columns) *= step.shape(0)[i];
  return {step.dense(0).reshape({rows, columns}), step.y().reshape({rows, columns}), 1};
}

/// Input: x. Attributes: axis (-1); log; to_end: axes from `axis` to the last count as one.
void run_softmax(NodeStep& step) {
  const Rows rows = rows_of(step);
  if (rows.y.numel() == 0) return;
  if (step.flag("log"))
    log_softmax(step.stream, rows.x, {}, rows.axis, rows.y, step.options);
  else
    softmax(step.stream, rows.x, {}, rows.axis, rows.y, step.options);
}

/// 1 at the first maximum along the axis, 0 elsewhere. Input and attributes as softmax, without log.
void run_hardmax(NodeStep& step) {
  const Rows rows = rows_of(step);
  if (rows.y.numel() == 0) return;
  const Tensor index =
      step.scratch(reduced(rows.x.shape(), [&](int i) { return i != rows.axis; }), DType::i64);
  reduction(step.stream, "argmax", rows.x, {}, {index}, step.options);
  Shape along = Shape::filled(rows.x.rank(), 1);
  along[rows.axis] = rows.x.shape()[rows.axis];
  const Tensor places = step.counting(0, along[rows.axis]);
  pointwise(step.stream, {places.reshape(along), index}, {rows.y}, {}, "y0 = x0 == x1", step.options);
}

/// An input of one number a channel, in the dtype that the library wants.
Tensor per_channel(NodeStep& step, int k, int64_t channels) {
  require(element_count(step.shape(k)) == channels, "inputs", "input ", k, " is ", step.shape(k),
          ", must have ", channels, " elements");
  const Tensor x = step.dense(k).reshape({channels});
  const DType dtype = wide(step.dtype(0));
  return x.dtype() == dtype ? x : cast(step.stream, x, dtype, step.options);
}

/// Inputs: x [N, C, ...] (or [N], of one channel), weight, bias, mean, variance; a residual of x's shape.
/// Attributes: epsilon; activation, of y and the residual's sum; per_element: all that is behind N counts as
/// channels; training: by the batch's own statistics, with momentum. Outputs: y, and of training momentum *
/// old + (1 - momentum) * new of mean and variance, where the new variance is the biased one, or `unbiased`;
/// the batch's mean and 1 / sqrt(variance + epsilon).
void infer_batch_norm(NodeStep& step) {
  require(step.rank(0) >= 1, "x", "is one number, must be of rank 1 or more");
  require(!step.has(5) || step.shape(5) == step.shape(0), "inputs", "the residual is ",
          step.shape(step.has(5) ? 5 : 0), ", must be ", step.shape(0));
  step.output(0, step.dtype(0), step.shape(0));
  step.output(1, step.dtype(3), step.shape(3));
  step.output(2, step.dtype(4), step.shape(4));
  for (int k : {3, 4}) step.output(k, wide(step.dtype(0)), step.shape(3));
}

/// By the batch's statistics, which the backward direction needs.
void train_batch_norm(NodeStep& step, const Tensor& x, const Tensor& y, const Tensor& residual,
                      BatchNormParams params) {
  const int64_t channels = x.shape()[1];
  const DType dtype = wide(step.dtype(0));
  require(y.numel() != 0, "x", step.shape(0), " has no statistics");
  const auto channel_output = [&](int k) {
    return step.wanted(k) ? step.y(k).reshape({channels}) : step.scratch({channels}, dtype);
  };
  // Running statistics of another dtype are updated in this one.
  const auto updated = [&](int k) {
    return step.out(k).dtype == dtype ? channel_output(k) : step.scratch({channels}, dtype);
  };
  const Tensor new_mean = updated(1), new_var = updated(2);
  params.momentum = 1 - step.number("momentum", 0.9);
  params.unbiased = step.flag("unbiased");
  batch_norm_training(step.stream, x, per_channel(step, 1, channels), per_channel(step, 2, channels),
                      residual, params, per_channel(step, 3, channels), per_channel(step, 4, channels), y,
                      channel_output(3), channel_output(4), step.options, {}, new_mean, new_var);
  for (int k : {1, 2})
    if (step.wanted(k) && step.out(k).dtype != dtype)
      copy(step.stream, k == 1 ? new_mean : new_var, step.y(k).reshape({channels}), step.options);
}

void run_batch_norm(NodeStep& step) {
  Shape shape = step.shape(0);
  const bool flat = step.flag("per_element") || shape.size() < 2;
  if (shape.size() < 2) shape = {shape[0], 1};
  if (step.flag("per_element")) {
    int64_t elements = 1;
    for (int i = 1; i < shape.size(); i++) elements *= shape[i];
    shape = {shape[0], elements};
  }
  const int64_t channels = shape[1];
  const Tensor x = flat ? step.dense(0).reshape(shape) : step.x(0);
  const Tensor y = flat ? step.y().reshape(shape) : step.y_as(0, x);
  const Tensor residual = !step.has(5) ? Tensor() : flat ? step.dense(5).reshape(shape) : step.x(5);
  BatchNormParams params;
  params.epsilon = step.number("epsilon", 1e-5);
  params.activation = activation_of(step);
  const bool training = step.flag("training");
  if (training && (step.wanted(3) || step.wanted(4))) return train_batch_norm(step, x, y, residual, params);
  Tensor mean = per_channel(step, 3, channels), variance = per_channel(step, 4, channels);
  if (training) {
    require(y.numel() != 0, "x", step.shape(0), " has no statistics");
    const Tensor old_mean = mean, old_variance = variance;
    mean = step.scratch({channels}, old_mean.dtype());
    variance = step.scratch({channels}, old_mean.dtype());
    const Shape one = reduced(shape, [](int i) { return i == 1; });
    reduction(step.stream, "var_mean", x, {0}, {variance.reshape(one), mean.reshape(one)}, step.options);
    const double momentum = step.number("momentum", 0.9);
    const auto blend = [&](const Tensor& old, const Tensor& now, int k) {
      if (!step.wanted(k)) return;
      pointwise(step.stream, {old, now}, {step.y(k).reshape({channels})}, {momentum, 1 - momentum},
                "y0 = s0 * x0 + s1 * x1", step.options);
    };
    blend(old_mean, mean, 1);
    blend(old_variance, variance, 2);
  }
  if (y.numel() == 0) return;
  batch_norm_inference(step.stream, x, per_channel(step, 1, channels), per_channel(step, 2, channels),
                       residual, mean, variance, params, y, step.options);
}

/// One number a group becomes one for each of its channels.
Tensor spread(NodeStep& step, int k, int64_t groups, int64_t channels) {
  if (element_count(step.shape(k)) != groups || groups == channels) return step.dense(k).reshape({channels});
  const Tensor x = step.dense(k).reshape({groups, 1}).expand({groups, channels / groups});
  return step.dense(x).reshape({channels});
}

/// Inputs: x [N, C, ...], weight, bias: [C], or with "per_group" also [groups]. Attributes: groups (0: C,
/// which is instance normalisation), epsilon. Outputs: y; mean and 1 / sqrt(variance + epsilon), [N, groups].
void infer_group_norm(NodeStep& step) {
  const Shape& x = step.shape(0);
  require(x.size() >= 2, "x", x, " must have rank 2 or more");
  const int64_t groups = step.integer("groups", 0);
  require(groups == 0 || (groups > 0 && x[1] % groups == 0), "groups", groups, " of ", x[1], " channels");
  for (int k : {1, 2}) {
    const int64_t size = element_count(step.shape(k));
    require(size == x[1] || (step.flag("per_group") && size == groups), "inputs", "input ", k, " is ",
            step.shape(k), ", must have ", x[1], " elements");
  }
  step.output(0, step.dtype(0), x);
  for (int k : {1, 2}) step.output(k, wide(step.dtype(0)), {x[0], groups == 0 ? x[1] : groups});
}
void run_group_norm(NodeStep& step) {
  const int64_t channels = step.shape(0)[1];
  const bool statistics = step.wanted(1) || step.wanted(2);
  require(!statistics || step.y().numel() != 0, "x", step.shape(0), " has no statistics");
  if (step.y().numel() == 0) return;
  const int64_t groups = step.integer("groups", 0) == 0 ? channels : step.integer("groups", 0);
  group_norm(step.stream, step.x(0), spread(step, 1, groups, channels), spread(step, 2, groups, channels),
             groups, step.number("epsilon", 1e-5), step.y(), statistics ? step.y(1) : Tensor(),
             statistics ? step.y(2) : Tensor(), step.options);
}

/// Input k if it is, or becomes by broadcasting, of the last `axes` sizes of x; else none.
Tensor fitting(NodeStep& step, int k, int axes) {
  if (!step.has(k)) return {};
  Shape tail, own = step.shape(k);
  for (int i = step.rank(0) - axes; i < step.rank(0); i++) tail.push_back(step.shape(0)[i]);
  for (int i = 0; i < own.size() - axes; i++)
    if (own[i] != 1) return {};
  if (own == tail) return step.x(k);
  while (own.size() > axes) own = Shape(std::vector<int64_t>(own.begin() + 1, own.end()));
  return step.dense(step.dense(k).reshape(own).expand(tail));
}

/// Inputs: x, weight, bias (may be left out), both broadcast to x. Attributes: axis (-1), the first of those
/// that are normalised; epsilon; rms: the mean is not taken off. Outputs: y; mean; 1 / sqrt(variance +
/// epsilon); these two f32, or f64 of f64, of x's shape with 1 for each normalised axis. RMS has y,
/// of the weight's dtype, and the latter.
void infer_layer_norm(NodeStep& step) {
  const Shape& x = step.shape(0);
  const int first = step.axis("axis", -1, x.size());
  for (int k : {1, 2})
    if (step.has(k))
      require(broadcast_shapes(x, step.shape(k)) == x, "inputs", "input ", k, " is ", step.shape(k),
              ", which does not broadcast to x, ", x);
  step.output(0, step.dtype(step.flag("rms") && step.has(1) ? 1 : 0), x);
  const DType dtype = wide(step.dtype(0));
  for (int k : {1, 2}) step.output(k, dtype, reduced(x, [&](int i) { return i < first; }));
}
void run_layer_norm(NodeStep& step) {
  const int axes = step.rank(0) - step.axis("axis", -1, step.rank(0));
  const bool rms = step.flag("rms"), statistics = step.wanted(1) || step.wanted(2);
  const double epsilon = step.number("epsilon", 1e-5);
  if (step.y().numel() == 0 && !statistics) return;
  const Tensor weight = fitting(step, 1, axes), bias = fitting(step, 2, axes);
  // Factors that differ between rows come in a second step.
  const bool fused = weight.defined() == step.has(1) && bias.defined() == step.has(2);
  const DType dtype = wide(step.dtype(0));
  const Tensor y = fused ? step.y() : step.scratch(step.shape(0), dtype);
  const Shape rows = reduced(step.shape(0), [&](int i) { return i < step.rank(0) - axes; });
  const Tensor mean = statistics && !rms ? step.scratch(rows, dtype) : Tensor();
  const Tensor inv_std = statistics ? step.scratch(rows, dtype) : Tensor();
  const Tensor w = fused ? weight : Tensor(), b = fused ? bias : Tensor();
  if (!rms)
    layer_norm(step.stream, step.x(0), w, b, axes, epsilon, y, mean, inv_std, step.options);
  else if (fused && step.has(2))
    throw ValidationError("inputs", "RMS normalisation has no bias");
  else
    rms_norm(step.stream, step.x(0), w, axes, epsilon, y, inv_std, step.options);
  if (!fused && step.has(2))
    pointwise(step.stream, {y, step.x(1), step.x(2)}, {step.y()}, {}, "y0 = x0 * x1 + x2", step.options);
  else if (!fused)
    pointwise(step.stream, {y, step.x(1)}, {step.y()}, {}, "y0 = x0 * x1", step.options);
  if (!rms && step.wanted(1)) step.set(1, mean);
  if (const int k = rms ? 1 : 2; step.wanted(k)) step.set(k, inv_std);
}

/// x / (sum of |x|^p)^(1/p) along an axis; 0 where that is 0. Attributes: axis (-1), p (2).
void run_lp_normalize(NodeStep& step) {
  const int axis = step.axis("axis", -1, step.rank(0));
  if (step.y().numel() == 0) return;
  const double p = step.number("p", 2);
  const std::string name = norm_function(p);
  const Tensor norm =
      step.scratch(reduced(step.shape(0), [&](int i) { return i != axis; }), wide(step.dtype(0)));
  reduction(step.stream, name, step.x(0), name == "lp" ? std::vector<Scalar>{p} : std::vector<Scalar>{},
            {norm}, step.options);
  pointwise(step.stream, {step.x(0), norm}, {step.y()}, {}, "y0 = x1 == 0 ? 0 : x0 / x1", step.options);
}

/// (x - mean) / (deviation + epsilon) over axes. Attributes: axes, epsilon.
void run_standardize(NodeStep& step) {
  const std::vector<int> axes = normal_axes(step.integers("axes"), step.rank(0));
  if (step.y().numel() == 0) return;
  const auto kept = [&](int i) { return std::find(axes.begin(), axes.end(), i) == axes.end(); };
  const Shape shape = reduced(step.shape(0), kept);
  const DType dtype = wide(step.dtype(0));
  const Tensor mean = step.scratch(shape, dtype), variance = step.scratch(shape, dtype);
  reduction(step.stream, "var_mean", step.x(0), {0}, {variance, mean}, step.options);
  pointwise(step.stream, {step.x(0), mean, variance}, {step.y()}, {step.number("epsilon", 0)},
            "y0 = (x0 - x1) / (sqrt((real)x2) + s0)", step.options);
}

/// x / (bias + alpha / size * s)^beta, s the sum of squares of `size` neighbouring channels; of even ones the
/// middle is the left. Input: x [N, C, ...]. Attributes: size, alpha, beta, bias. (Krizhevsky et al., 2012)
void infer_lrn(NodeStep& step) {
  require(step.rank(0) >= 2, "x", step.shape(0), " must have rank 2 or more");
  require(step.integer("size", 0) >= 1, "size", step.integer("size", 0), " must be 1 or more");
  infer_like_x(step);
}
void run_lrn(NodeStep& step) {
  if (step.y().numel() == 0) return;
  const Shape& x = step.shape(0);
  const int64_t size = step.integer("size", 1);
  const Shape plane{x[0], 1, x[1], element_count(x) / (x[0] * x[1])};
  const Tensor square = step.scratch(x, wide(step.dtype(0))), mean = step.scratch(x, square.dtype());
  pointwise(step.stream, {step.x(0)}, {square}, {}, "y0 = (real)x0 * x0", step.options);
  PoolParams params;
  params.mode = PoolMode::average;
  params.kernel = {size, 1};
  params.stride = {1, 1};
  params.pad_begin = {(size - 1) / 2, 0};
  params.pad_end = {size / 2, 0};
  dlprim::pool(step.stream, square.reshape(plane), params, mean.reshape(plane), {}, step.options);
  pointwise(step.stream, {step.x(0), mean}, {step.y()},
            {step.number("bias", 1), step.number("alpha", 1e-4), step.number("beta", 0.75)},
            "y0 = x0 / pow((real)(s0 + s1 * x1), s2)", step.options);
}

constexpr NodeKind kKinds[] = {
    {"softmax", 1, 1, infer_like_x, run_softmax},
    {"hardmax", 1, 1, infer_like_x, run_hardmax},
    {"batch_norm", 5, 6, infer_batch_norm, run_batch_norm},
    {"group_norm", 3, 3, infer_group_norm, run_group_norm},
    {"layer_norm", 1, 3, infer_layer_norm, run_layer_norm},
    {"lp_normalize", 1, 1, infer_like_x, run_lp_normalize},
    {"standardize", 1, 1, infer_like_x, run_standardize},
    {"lrn", 1, 1, infer_lrn, run_lrn},
};

}  // namespace

KindList norm_kinds() {
  return list_of(kKinds);
}

}  // namespace dlprim::detail
