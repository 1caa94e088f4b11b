// Cross-entropy from logits on a GPU: log-softmax and the loss of it in one kernel, which reads a row once forward and once
// backward where registers can hold it. rows_gpu.cl says how rows are shared out.
// With q the target's parts, weighted, a row's loss is sum(q (log(sum(exp(x))) - x)), and its gradient sum(q) softmax(x) - q.

#define KEEPS_X 1
#include "softmax/softmax_sum.cl"
#include "loss/class_loss.cl"

#ifndef D_DTYPE  // of dx
#define D_DTYPE f32
#define D_T float
#endif
#ifndef T_VECTOR  // probabilities lie as x does
#define T_VECTOR 0
#endif

// Of the elements of an access at k: q.
#define GET_PARTS(k, q)                                                                     \
  {                                                                                         \
    real p_[V];                                                                             \
    GET_PROBABILITIES(k, p_)                                                                \
    for (int e = 0; e < V; e++)                                                             \
      (q)[e] = PART(WEIGHTED ? LOAD(W_DTYPE, w, ((k) + e) * (INDEX)w_s.axis) : 1, p_[e]);   \
  }
#if PROB
#define GET_PROBABILITIES(k, p) GET_ANY(T_DTYPE, T_VECTOR, t, k, p)
#define CLASS                                           \
  const long c = -1;                                    \
  const bool counts = mine;                             \
  const real row_weight = 0;
#else
#define GET_PROBABILITIES(k, p) \
  for (int e = 0; e < V; e++) (p)[e] = 0;
#define CLASS CLASS_OF(t, 0, w)
#endif

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void cross_entropy(
    TENSOR(const A_T, a), TENSOR(const T_T, t), TENSOR(const W_T, w), TENSOR(L_T, y), TENSOR(real, s), ROW_SIZES,
    long ignore, real smoothing) {
  __local real shared[GROUP];
  MY_ROW
  a = ROW_OF(a);
  FIND_SHIFT(a)
  t = ROW_OF(t);
  w += w_o;
  SUM_OF_EXP
  const real log_sum = log(sum);
  real parts = 0, below = 0, parts_low = 0, below_low = 0;
  if (SPREAD_OUT) {
    for (INDEX start = 0; start < END; start += BATCH) {
      real some = 0, some_below = 0;
      if (!HOLD) GET_X(start, v)
      UNROLLED for (int i = 0; i < ITEMS; i++) {
        const INDEX k = ACCESS(start, i);
        if (OUTSIDE(k)) continue;
        real q[V];
        GET_PARTS(k, q)
        for (int e = 0; e < V; e++) {
          some += q[e];
          some_below += q[e] * (base - v[i * V + e]);
        }
      }
      ADD_PART(parts, parts_low, some)
      ADD_PART(below, below_low, some_below)
    }
    parts = lanes_sum(parts, shared, lid, lane);
    below = lanes_sum(below, shared, lid, lane);
  }
  if (!mine || lane != 0) return;
  CLASS
  real loss = 0;
  if (counts && SPREAD_OUT) loss = parts * log_sum + below;
  if (counts && !PROB)
    loss += (1 - smoothing) * row_weight * (log_sum + (base - LOAD(A_DTYPE, a, (INDEX)c * (INDEX)a_s.axis)));
  STORE(L_DTYPE, ROW_OF(y), 0, loss);
  if (MEAN) *ROW_OF(s) = row_weight;
}

// d: dx, y: dloss, s: what a mean divides by.
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void cross_entropy_backward(
    TENSOR(const A_T, a), TENSOR(const T_T, t), TENSOR(const W_T, w), TENSOR(const L_T, y), TENSOR(const real, s),
    TENSOR(D_T, d), ROW_SIZES, long ignore, real smoothing, real factor) {
  __local real shared[GROUP];
  MY_ROW
  a = ROW_OF(a);
  FIND_SHIFT(a)
  t = ROW_OF(t);
  d = ROW_OF(d);
  w += w_o;
  SUM_OF_EXP
  CLASS
  real parts = SMOOTH ? smoothing : 0;
  if (PROB | (SMOOTH & WEIGHTED)) {
    real parts_low = 0;
    parts = 0;
    for (INDEX start = 0; start < END; start += BATCH) {
      real some = 0;
      UNROLLED for (int i = 0; i < ITEMS; i++) {
        const INDEX k = ACCESS(start, i);
        if (OUTSIDE(k)) continue;
        real q[V];
        GET_PARTS(k, q)
        for (int e = 0; e < V; e++) some += q[e];
      }
      ADD_PART(parts, parts_low, some)
    }
    parts = lanes_sum(parts, shared, lid, lane);
  }
  const real own = PROB ? 0 : (1 - smoothing) * row_weight;
  const real dloss = LOAD(L_DTYPE, ROW_OF(y), 0) * factor, slope = MEAN ? dloss / *ROW_OF(s) : dloss;
  const real scale = (own + parts) / sum;
  for (INDEX start = 0; start < END; start += BATCH) {
    if (!HOLD) GET_X(start, v)
    UNROLLED for (int i = 0; i < ITEMS; i++) {
      const INDEX k = ACCESS(start, i);
      if (OUTSIDE(k)) continue;
      real q[V];
      if (SPREAD_OUT) GET_PARTS(k, q)
      for (int e = 0; e < V; e++) {
        real g = exp(v[i * V + e] - base) * scale - ((long)(k + e) == c ? own : 0);
        if (SPREAD_OUT) g -= q[e];
        v[i * V + e] = counts ? g * slope : 0;
      }
      PUT_IN(D_DTYPE, d, k, v + i * V)
    }
  }
}
