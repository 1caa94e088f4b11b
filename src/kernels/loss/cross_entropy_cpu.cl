// Cross-entropy from logits on a CPU: a row, or a few neighbouring ones, stay in cache between the passes. cross_entropy.cl has
// the same for GPUs, and says what is computed; rows_cpu.cl says how rows are shared out.

#include "softmax/softmax_sum_cpu.cl"
#include "loss/class_loss.cl"

#ifndef D_DTYPE  // of dx
#define D_DTYPE f32
#define D_T float
#endif
#ifndef D_STEP
#define D_STEP 1
#endif
#ifndef T_STEP  // as A_STEP and A_GAPS
#define T_STEP 1
#define T_GAPS 0
#endif

#define T_WORDS JOIN(WORDS_, T_GAPS)(t)
#define BRING_T JOIN(BRING_, T_GAPS)(t)

#if PROB
#define P_AT(k, l) JOIN(AT_, T_GAPS)(t, T_T, T_DTYPE, T_STEP, k, l)
#define CLASS(l)         \
  const long c = -1;     \
  const bool counts = 1; \
  const real row_weight = 0;
#else
#define P_AT(k, l) 0
#define CLASS(l) CLASS_OF(t_row, (INDEX)(l) * (INDEX)t_s.kept[0], w)
#endif
// The class of lane l at k, and its part.
#define CLASS_AT(k, l) (ACROSS ? (k) : (k) + (INDEX)(l))
#define Q_AT(k, l) PART(WEIGHTED ? LOAD(W_DTYPE, w, CLASS_AT(k, l) * (INDEX)w_s.axis) : 1, P_AT(k, l))

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void cross_entropy(
    TENSOR(const A_T, a), TENSOR(const T_T, t), TENSOR(const W_T, w), TENSOR(L_T, y), TENSOR(real, s), ROW_SIZES,
    long ignore, real smoothing, long block) {
  const INDEX n = (INDEX)size;
  BRING_CONSTANTS_IN
  w += w_o;
  FOR_ROWS {
    COORDINATES(row)
    __global const A_T* a_row = ROW_OF(a);
    __global const T_T* t_row = ROW_OF(t);
    __global L_T* y_row = ROW_OF(y);
    __global real* s_row = MEAN ? ROW_OF(s) : s;
    SUM_OF_EXP
    NEW_SUM(parts)
    NEW_SUM(below)
    if (SPREAD_OUT) {
      real q[PIECE], distance[PIECE];
      T_WORDS
      EACH_PIECE {
        BRING_T
        if (!WHOLE) {
          BRING_A
        }
        FILL(q, Q_AT(k, l), 0)
        FILL(distance, OF(base) - A_AT(k, l), 0)
        NEW_PART(parts)
        NEW_PART(below)
        EACH_STEP(parts_part[l] += q[e]; below_part[l] += q[e] * distance[e];)
        ADD_PIECE(parts)
        ADD_PIECE(below)
      }
      OVER_LANES(parts, ADD)
      OVER_LANES(below, ADD)
    }
    EACH_LANE sum[l] = log(sum[l]);
    for (int l = 0; l < lanes; l++) {
      CLASS(l)
      real loss = 0;
      if (counts && SPREAD_OUT) loss = parts[l] * sum[l] + below[l];
      if (counts && !PROB) {
        const INDEX at = (INDEX)c * (INDEX)a_s.axis + (ACROSS ? (INDEX)l * (INDEX)a_s.kept[0] : 0);
        loss += (1 - smoothing) * row_weight * (sum[l] + (base[l] - LOAD(A_DTYPE, a_row, at)));
      }
      STORE(L_DTYPE, y_row, (INDEX)l * (INDEX)y_s.kept[0], loss);
      if (MEAN) s_row[(INDEX)l * (INDEX)s_s.kept[0]] = row_weight;
    }
  }
}

// d: dx, y: dloss, s: what a mean divides by.
__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void cross_entropy_backward(
    TENSOR(const A_T, a), TENSOR(const T_T, t), TENSOR(const W_T, w), TENSOR(const L_T, y), TENSOR(const real, s),
    TENSOR(D_T, d), ROW_SIZES, long ignore, real smoothing, real factor, long block) {
  const INDEX n = (INDEX)size;
  BRING_CONSTANTS_IN
  w += w_o;
  FOR_ROWS {
    COORDINATES(row)
    __global const A_T* a_row = ROW_OF(a);
    __global const T_T* t_row = ROW_OF(t);
    __global const L_T* y_row = ROW_OF(y);
    __global D_T* d_row = ROW_OF(d);
    SUM_OF_EXP
    real own[LANES], slope[LANES];
    int own_class[LANES];  // -2 for a row that does not count: it gives 0, whatever is in it
    NEW_SUM(parts)
    T_WORDS
    if (SPREAD_OUT) {
      real q[PIECE];
      EACH_PIECE {
        BRING_T
        FILL(q, Q_AT(k, l), 0)
        NEW_PART(parts)
        EACH_STEP(parts_part[l] += q[e];)
        ADD_PIECE(parts)
      }
      OVER_LANES(parts, ADD)
    }
    for (int l = 0; l < lanes; l++) {
      CLASS(l)
      const real dloss = LOAD(L_DTYPE, y_row, (INDEX)l * (INDEX)y_s.kept[0]) * factor;
      own_class[l] = counts ? (int)c : -2;
      slope[l] = MEAN ? dloss / *(s + s_o) : dloss;
      own[l] = PROB ? 0 : (1 - smoothing) * row_weight * slope[l];
      sum[l] = (own[l] + parts[l] * slope[l]) / sum[l];
    }
    EACH_PIECE {
      if (!WHOLE) {
        RAISE
        BRING_T
      }
      EACH_ELEMENT(real g = powers[e] * OF(sum) - ((int)CLASS_AT(k, l) == OF(own_class) ? OF(own) : 0);
                   if (SPREAD_OUT) g -= Q_AT(k, l) * OF(slope);
                   STORE(D_DTYPE, d_row, PLACE(d, D_STEP, k, l), OF(own_class) == -2 ? 0 : g);)
    }
  }
}
