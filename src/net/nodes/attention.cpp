// Attention by composition: products over softmax. Rotary embeddings, and attention whose state is a matrix.
#include <algorithm>
#include <cmath>

#include <dlprim/copy.hpp>
#include <dlprim/gemm.hpp>
#include <dlprim/index.hpp>
#include <dlprim/movement.hpp>
#include <dlprim/pointwise.hpp>
#include <dlprim/reduction.hpp>
#include <dlprim/softmax.hpp>

#include "net/nodes/families.hpp"

namespace dlprim::detail {
namespace {

/// [B, L, H * D] as [B, H, L, D], a view; four axes stay.
Tensor by_heads(NodeStep& step, int k, int64_t heads) {
  const Tensor& x = step.x(k);
  if (x.rank() == 4) return x;
  require(x.rank() == 3 && heads > 0 && x.shape()[2] % heads == 0, "inputs", "input ", k, ", ", x, ", for ",
          heads, " heads");
  const int64_t depth = x.shape()[2] / heads;
  return step.reshaped(x, {x.shape()[0], x.shape()[1], heads, depth}).permute({0, 2, 1, 3});
}

/// `past` and behind it `x`, along axis 2.
Tensor grown(NodeStep& step, const Tensor& past, const Tensor& x) {
  if (!past.defined()) return x;
  Shape shape = x.shape();
  shape[2] += past.shape()[2];
  const Tensor y = step.scratch(shape, x.dtype());
  if (past.shape()[2] == 0)
    copy(step.stream, x, y, step.options);
  else
    concat(step.stream, {past, x}, 2, y, step.options);
  return y;
}

/// What attention works on. Heads of q are `groups` times those of k and v.
struct Parts {
  Tensor q, k, v;
  int64_t batch, heads, groups, rows, columns, past;
};

/// The mask's last axis as long as `columns`: what it lacks is masked.
Tensor padded_mask(NodeStep& step, int64_t columns) {
  const Tensor& mask = step.x(3);
  Shape shape = mask.shape();
  if (shape.back() >= columns || shape.back() == 1) return mask;
  const int64_t own = shape.back();
  shape[shape.size() - 1] = columns;
  const Tensor all = step.scratch(shape, mask.dtype());
  fill(step.stream, mask.dtype() == DType::boolean ? Scalar(0) : Scalar(-INFINITY), all, step.options);
  copy(step.stream, mask, all.slice(mask.rank() - 1, 0, own), step.options);
  return all;
}

/// The bias is added to scores [B, H, L, S]. It is f32 and holds the mask, and -infinity at keys that a query
/// must not see: those behind a sample's length, after the query (causal), or outside of its window. A
/// boolean mask alone is given as it is. The result is undefined if there is no bias.
///
/// A query's position is its row plus the keys before the block: the past, or with lengths and no past each
/// sample's length less the rows. A causal row at a negative position sees nothing.
Tensor bias_of(NodeStep& step, const Parts& p) {
  const bool causal = step.flag("causal"), by_length = step.has(6) && !step.has(4);
  const int64_t left = step.integer("left_window", -1), right = step.integer("right_window", -1);
  require(left >= -1 && right >= -1, "windows", left, " and ", right, " must be -1 or more");
  const bool by_position = causal || left >= 0 || right >= 0;
  if (!step.has(3) && !step.has(6) && !by_position) return {};
  const bool masked = step.has(3), is_bool = masked && step.dtype(3) == DType::boolean;
  const Tensor mask = masked ? padded_mask(step, p.columns) : step.scratch({1}, DType::f32);
  const bool shown = step.wanted(3) && step.integer("scores_at", 0) == 2;
  if (masked && !step.has(6) && !by_position && !(is_bool && shown)) return mask;
  if (!masked) fill(step.stream, 0, mask, step.options);
  const Tensor row = step.counting(by_length ? -p.rows : p.past, p.rows).reshape({p.rows, 1}),
               column = step.counting(0, p.columns);
  const Tensor lengths =
      step.has(6) ? step.dense(6).reshape({p.batch, 1, 1, 1}) : step.scratch({1}, DType::i64);
  if (!step.has(6)) fill(step.stream, p.columns, lengths, step.options);
  const Shape shape = broadcast_shapes(broadcast_shapes(mask.shape(), {p.rows, p.columns}), lengths.shape());
  const Tensor bias = step.scratch(shape, DType::f32);
  const std::string value = is_bool ? "x0 != 0 ? 0 : -INFINITY" : "x0";
  const std::string after = by_length ? "x2 - x1 - x3" : "x2 - x1";
  dlprim::pointwise(step.stream, {mask, row, column, lengths}, {bias}, {causal ? 1 : 0, left, right},
                    "const long after = " + after +
                        "; y0 = x2 >= x3 || (s0 != 0 && after > 0) || (s1 >= 0 && -after > s1) || "
                        "(s2 >= 0 && after > s2) ? -INFINITY : " +
                        value,
                    step.options);
  return bias;
}

constexpr int64_t kMostLaunches = 2;  ///< of one product: copies of what lies apart cost less than more

/// Samples and heads, the first two axes, lie as one batch.
bool lies_as_one(const Tensor& x) {
  return x.shape()[0] == 1 || x.shape()[1] == 1 || x.strides()[0] == x.shape()[1] * x.strides()[1];
}
bool takes_few_launches(const Tensor& x) {
  return lies_as_one(x) || std::min(x.shape()[0], x.shape()[1]) <= kMostLaunches;
}

/// An operand [B, H, L, D] of products for each head.
Tensor operand(const NodeStep& step, const Tensor& x) {
  const bool rows_lie_well = x.strides()[3] == 1 || x.shape()[3] == 1;
  return rows_lie_well && takes_few_launches(x) ? x : step.dense(x);
}
/// q, k and v as operands. Where they are parts of one tensor, as of a joined product, one copy serves all.
void bring_together(const NodeStep& step, Parts& p) {
  const int64_t apart = p.k.offset() - p.q.offset();
  const bool parts_of_one = p.q.storage() == p.k.storage() && p.q.storage() == p.v.storage() &&
                            p.q.dtype() == p.k.dtype() && p.q.dtype() == p.v.dtype() && apart > 0 &&
                            p.v.offset() - p.k.offset() == apart && p.q.shape() == p.k.shape() &&
                            p.q.shape() == p.v.shape() && p.q.strides() == p.k.strides() &&
                            p.q.strides() == p.v.strides();
  if (!parts_of_one || takes_few_launches(p.q) || p.q.numel() == 0) return;
  const Shape& s = p.q.shape();
  const Strides& t = p.q.strides();
  const Tensor all = step.dense(p.q.as_strided({3, s[0], s[1], s[2], s[3]}, {apart, t[0], t[1], t[2], t[3]}));
  Tensor* const operands[] = {&p.q, &p.k, &p.v};
  for (int64_t i = 0; i < 3; i++) *operands[i] = all.slice(0, i, i + 1).reshape(s);
}
/// Rows of heads that share a head of k and v, one below the other: [B, K, H / K * L, D].
Tensor with_groups(const NodeStep& step, const Parts& p, const Tensor& x) {
  if (p.groups == 1) return operand(step, x);
  return operand(step,
                 step.reshaped(x, {p.batch, p.heads / p.groups, p.groups * x.shape()[2], x.shape()[3]}));
}

/// scores = scale q k^T, f32, [B, H, L, S]
Tensor scores_of(NodeStep& step, const Parts& p) {
  const Tensor scores = step.scratch({p.batch, p.heads, p.rows, p.columns},
                                     p.q.dtype() == DType::f64 ? DType::f64 : DType::f32);
  GemmParams params;
  params.alpha = step.number("scale", 1 / std::sqrt(static_cast<double>(p.q.shape()[3])));
  gemm(step.stream, with_groups(step, p, p.q), operand(step, p.k).transpose(-1, -2), {}, params,
       with_groups(step, p, scores), step.options);
  return scores;
}

/// y = weights v, [B, H, L, E]; in memory heads lie behind places, so that [B, L, H * E] is a view of it.
void weighted_values(NodeStep& step, const Parts& p, const Tensor& weights) {
  const int64_t width = p.v.shape()[3];
  const bool flat = step.rank(0) == 3;
  const Tensor y = (flat ? step.y() : step.scratch({p.batch, p.rows, p.heads * width}, step.dtype(0)))
                       .reshape({p.batch, p.rows, p.heads, width})
                       .permute({0, 2, 1, 3});
  if (!flat) step.set(0, y);
  const bool direct = p.groups == 1 && takes_few_launches(y);
  const Tensor c = direct ? y : step.scratch(y.shape(), y.dtype());
  gemm(step.stream, with_groups(step, p, weights), operand(step, p.v), {}, {}, with_groups(step, p, c),
       step.options);
  if (!direct) copy(step.stream, c, y, step.options);
}

/// The scores as they are at the point that "scores_at" names (0 to 3), output 3.
void give_scores(NodeStep& step, int point, const Tensor& scores) {
  if (step.wanted(3) && step.integer("scores_at", 0) == point)
    copy(step.stream, scores, step.y(3), step.options);
}

int64_t heads_of(const NodeStep& step, int k, const char* name) {
  return step.rank(k) == 4 ? step.shape(k)[1] : step.integer(name, 0);
}

/// Inputs: q, k, v, mask, past k, past v, lengths of k [B]. q: [B, H, L, D], or [B, L, H * D] with "heads"
/// and "kv_heads". Outputs: y, k and v with their past, scores. Attributes: scale, causal, left_window and
/// right_window (keys before and after a query that it sees; -1: all), softcap, scores_at (0: the product, 1:
/// softcap applied, 2: mask added, 3: after softmax).
void infer_attention(NodeStep& step) {
  const int64_t heads = heads_of(step, 0, "heads"), kv = heads_of(step, 1, "kv_heads");
  require(heads > 0 && kv > 0 && heads % kv == 0, "inputs", heads, " heads of q, ", kv, " of k");
  const bool flat = step.rank(0) == 3;
  const Shape &q = step.shape(0), &k = step.shape(1), &v = step.shape(2);
  const int64_t rows = q[flat ? 1 : 2], past = step.has(4) ? step.shape(4)[2] : 0,
                columns = past + k[flat ? 1 : 2];
  const int64_t depth = flat ? k[2] / kv : k[3], width = flat ? v[2] / kv : v[3];
  step.output(0, step.dtype(0), flat ? Shape{q[0], rows, heads * width} : Shape{q[0], heads, rows, width});
  step.output(1, step.dtype(1), {q[0], kv, columns, depth});
  step.output(2, step.dtype(2), {q[0], kv, columns, width});
  step.output(3, step.dtype(0), {q[0], heads, rows, columns});
}
void run_attention(NodeStep& step) {
  const int64_t heads = heads_of(step, 0, "heads"), kv = heads_of(step, 1, "kv_heads");
  Parts p{by_heads(step, 0, heads),
          grown(step, step.x(4), by_heads(step, 1, kv)),
          grown(step, step.x(5), by_heads(step, 2, kv)),
          0,
          heads,
          heads / kv,
          0,
          0,
          0};
  p.batch = p.q.shape()[0], p.rows = p.q.shape()[2], p.columns = p.k.shape()[2];
  p.past = step.has(4) ? step.shape(4)[2] : 0;
  step.set(1, p.k);
  step.set(2, p.v);
  bring_together(step, p);
  const Tensor scores = scores_of(step, p);
  give_scores(step, 0, scores);
  if (const double cap = step.number("softcap", 0); cap > 0)
    dlprim::pointwise(step.stream, {scores}, {scores}, {cap}, "y0 = s0 * tanh(x0 / s0)", step.options);
  give_scores(step, 1, scores);
  const Tensor bias = bias_of(step, p);
  if (bias.defined() && step.wanted(3) && step.integer("scores_at", 0) == 2)
    dlprim::pointwise(step.stream, {scores, bias}, {step.y(3)}, {}, "y0 = x0 + x1", step.options);
  else
    give_scores(step, 2, scores);
  const Tensor weights = step.scratch(scores.shape(), p.v.dtype());
  softmax(step.stream, scores, bias, -1, weights, step.options);
  give_scores(step, 3, weights);
  weighted_values(step, p, weights);
}

/// Inputs: those of attention without past, and dy. Outputs: dq, dk, dv. Attributes: those of attention. The
/// weights are computed once more.
void infer_attention_backward(NodeStep& step) {
  require(!step.has(4) && !step.has(5) && step.number("softcap", 0) == 0, "inputs",
          "attention with past or a soft cap has no gradient");
  for (int k : {0, 1, 2}) step.output(k, step.dtype(k), step.shape(k));
}
void run_attention_backward(NodeStep& step) {
  const int64_t heads = heads_of(step, 0, "heads"), kv = heads_of(step, 1, "kv_heads"), groups = heads / kv;
  Parts p{by_heads(step, 0, heads), by_heads(step, 1, kv), by_heads(step, 2, kv), 0, heads, groups, 0, 0, 0};
  p.batch = p.q.shape()[0], p.rows = p.q.shape()[2], p.columns = p.k.shape()[2];
  const int64_t depth = p.q.shape()[3], width = p.v.shape()[3];
  const Tensor weights = scores_of(step, p), d_scores = step.scratch(weights.shape(), weights.dtype());
  softmax(step.stream, weights, bias_of(step, p), -1, weights, step.options);

  const auto each = [&](const Tensor& t, int64_t rows, int64_t columns) {
    return step.dense(t).reshape({p.batch, kv, groups, rows, columns});
  };
  const auto shared = [&](const Tensor& t, int64_t columns) {
    return step.dense(t)
        .reshape({p.batch, kv, 1, p.columns, columns})
        .expand({p.batch, kv, groups, p.columns, columns});
  };
  const auto as = [&](const Tensor& t, DType dtype) {
    return t.dtype() == dtype ? t : cast(step.stream, t, dtype, step.options);
  };
  const Tensor dy = each(by_heads(step, 7, heads), p.rows, width);
  gemm(step.stream, dy, shared(p.v, width).transpose(-1, -2), {}, {}, each(d_scores, p.rows, p.columns),
       step.options);
  softmax_backward(step.stream, d_scores, weights, {}, -1, d_scores, step.options);

  GemmParams scaled;
  scaled.alpha = step.number("scale", 1 / std::sqrt(static_cast<double>(depth)));
  const Tensor ds = each(as(d_scores, p.q.dtype()), p.rows, p.columns);
  const auto heads_view = [&](int k, int64_t rows, int64_t count, int64_t columns) {
    const Tensor& y = step.y(k);
    return step.rank(k) == 4 ? y : y.reshape({p.batch, rows, count, columns}).permute({0, 2, 1, 3});
  };
  if (step.wanted(0)) {
    const Tensor dq = step.scratch({p.batch, kv, groups, p.rows, depth}, p.q.dtype());
    gemm(step.stream, ds, shared(p.k, depth), {}, scaled, dq, step.options);
    copy(step.stream, dq.reshape({p.batch, heads, p.rows, depth}), heads_view(0, p.rows, heads, depth),
         step.options);
  }
  // Heads of q that share a head of k and v: their gradients are added up.
  const auto give = [&](int k, const Tensor& left, const Tensor& right, const GemmParams& params,
                        int64_t columns) {
    if (!step.wanted(k)) return;
    const Tensor parts = step.scratch({p.batch, kv, groups, p.columns, columns}, right.dtype());
    gemm(step.stream, left.transpose(-1, -2), right, {}, params, parts, step.options);
    const Tensor sum =
        groups == 1 ? parts : step.scratch({p.batch, kv, 1, p.columns, columns}, right.dtype());
    if (groups != 1) reduction(step.stream, "sum", parts, {}, {sum}, step.options);
    copy(step.stream, sum.reshape({p.batch, kv, p.columns, columns}), heads_view(k, p.columns, kv, columns),
         step.options);
  };
  give(1, ds, each(p.q, p.rows, depth), scaled, depth);
  give(2, each(as(weights, p.v.dtype()), p.rows, p.columns), dy, {}, width);
}

/// Inputs: x [B, H, L, D] or [B, L, H * D] with "heads", cosines and sines ([places, R / 2], or without
/// places [B, L, R / 2], where B may be 1), places [B, L]. Turns the first "width" (R; 0: all) numbers of
/// each head, in pairs: halves, or "interleaved".
void infer_rotary(NodeStep& step) {
  step.output(0, step.dtype(0), step.shape(0));
}
void run_rotary(NodeStep& step) {
  const bool flat = step.rank(0) == 3;
  const int64_t heads = heads_of(step, 0, "heads");
  const Tensor x = by_heads(step, 0, heads);
  const Tensor y =
      flat ? step.y().reshape({x.shape()[0], x.shape()[2], heads, x.shape()[3]}).permute({0, 2, 1, 3})
           : step.y();
  const int64_t width = step.integer("width", 0) == 0 ? x.shape()[3] : step.integer("width", 0);
  require(width % 2 == 0 && width <= x.shape()[3], "width", width, " of ", x.shape()[3], " must be even");
  const auto angles = [&](int k) {
    Tensor table = step.x(k);
    if (step.has(3)) {
      Tensor picked = step.scratch({x.shape()[0], x.shape()[2], table.shape()[1]}, table.dtype());
      index(step.stream, table, {step.x(3)}, picked, step.options);
      table = picked;
    }
    require(table.shape().back() == width / 2, "inputs", "input ", k, " has ", table.shape().back(),
            " angles, must have ", width / 2);
    const int64_t length = x.shape()[2], batch = table.numel() == length * (width / 2) ? 1 : x.shape()[0];
    return step.dense(table).reshape({batch, 1, length, width / 2});
  };
  const bool interleaved = step.flag("interleaved");
  const auto half = [&](const Tensor& t, int64_t which) {
    return interleaved ? t.slice(3, which, width, 2) : t.slice(3, which * width / 2, (which + 1) * width / 2);
  };
  dlprim::pointwise(step.stream, {half(x, 0), half(x, 1), angles(1), angles(2)}, {half(y, 0), half(y, 1)}, {},
                    "y0 = x2 * x0 - x3 * x1; y1 = x3 * x0 + x2 * x1", step.options);
  if (width < x.shape()[3])
    copy(step.stream, x.slice(3, width, x.shape()[3]), y.slice(3, width, x.shape()[3]), step.options);
}

/// Inputs: q [B, L, H * D], k [B, L, K * D], v [B, L, K * E], state [B, K, D, E], decay [B, L, K] or [B, L, K
/// * D], beta [B, L, K] or [B, L, 1]. For each place: state = exp(decay) state + k (v - state^T k, times
/// beta, if there is one), y = scale q state. Outputs: y [B, L, H * E], the last state. Attributes: heads,
/// kv_heads, scale.
void infer_linear_attention(NodeStep& step) {
  const int64_t heads = step.integer("heads", 0), kv = step.integer("kv_heads", 0);
  require(heads > 0 && kv > 0 && heads % kv == 0 && step.rank(0) == 3 && step.rank(2) == 3, "inputs", heads,
          " heads, ", kv, " of k");
  const int64_t depth = step.shape(1)[2] / kv, width = step.shape(2)[2] / kv;
  step.output(0, step.dtype(0), {step.shape(0)[0], step.shape(0)[1], heads * width});
  step.output(1, step.has(3) ? step.dtype(3) : step.dtype(0), {step.shape(0)[0], kv, depth, width});
}
void run_linear_attention(NodeStep& step) {
  const int64_t heads = step.integer("heads", 0), kv = step.integer("kv_heads", 0), groups = heads / kv;
  const Shape last = step.out(1).shape;
  const int64_t batch = last[0], depth = last[2], width = last[3], length = step.shape(0)[1];
  const Tensor state = step.scratch(last, DType::f32),
               correction = step.scratch({batch, kv, 1, width}, DType::f32);
  if (step.has(3))
    copy(step.stream, step.x(3), state, step.options);
  else
    fill(step.stream, 0, state, step.options);
  const double scale = step.number("scale", 1 / std::sqrt(static_cast<double>(depth)));
  const Tensor y = step.y().reshape({batch, length, kv, groups, 1, width});
  const auto at = [&](int k, const Shape& shape, int64_t t) {
    return step.dense(k).slice(1, t, t + 1).as_strided(shape, [&] {
      Strides strides = contiguous_strides(shape);
      strides[0] = step.shape(k)[1] * step.shape(k)[2];
      return strides;
    }());
  };
  for (int64_t t = 0; t < length; t++) {
    const Tensor k = at(1, {batch, kv, depth, 1}, t), v = at(2, {batch, kv, 1, width}, t);
    if (step.has(4)) {
      const int64_t each = step.shape(4)[2] / kv;
      dlprim::pointwise(step.stream, {state, at(4, {batch, kv, each, 1}, t)}, {state}, {},
                        "y0 = x0 * exp((real)x1)", step.options);
    }
    if (step.has(5)) {
      reduce(step.stream, {state, k}, {correction}, {}, sum_of("x0 * x1"), step.options);
      dlprim::pointwise(step.stream, {correction, v, at(5, {batch, step.shape(5)[2], 1, 1}, t)}, {correction},
                        {}, "y0 = x2 * (x1 - x0)", step.options);
    }
    dlprim::pointwise(step.stream, {state, k, step.has(5) ? correction : v}, {state}, {}, "y0 = x0 + x1 * x2",
                      step.options);
    const Tensor q = at(0, {batch, kv, groups, depth, 1}, t);
    const Tensor now = y.slice(1, t, t + 1)
                           .as_strided({batch, kv, groups, 1, width},
                                       {length * heads * width, groups * width, width, width, 1});
    reduce(step.stream, {q, state.reshape({batch, kv, 1, depth, width})}, {now}, {scale},
           sum_of("x0 * x1", "y0 = s0 * a0"), step.options);
  }
  if (step.wanted(1)) copy(step.stream, state, step.y(1), step.options);
}

constexpr NodeKind kKinds[] = {
    {"attention", 3, 7, infer_attention, run_attention},
    {"attention_backward", 3, 8, infer_attention_backward, run_attention_backward},
    {"linear_attention", 3, 6, infer_linear_attention, run_linear_attention},
    {"rotary", 3, 4, infer_rotary, run_rotary},
};

}  // namespace

KindList attention_kinds() {
  return list_of(kKinds);
}

}  // namespace dlprim::detail
