// Softmax, log-softmax and logsumexp on a GPU, and the first two backwards: see rows_gpu.cl for how rows are shared out. A row
// held in registers is read once; a longer one twice, its maximum and sum together the first time.

#ifndef LOG  // the logarithm of softmax
#define LOG 0
#endif
#define KEEPS_X LOG
#include "softmax/softmax_sum.cl"

#ifndef B_DTYPE  // of y backward; A: of dy then; Y: of the result
#define B_DTYPE f32
#define B_T float
#endif
#ifndef Y_DTYPE
#define Y_DTYPE f32
#define Y_T float
#endif

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void softmax(
    TENSOR(const A_T, a), TENSOR(const B_T, b), TENSOR(const M_T, m), TENSOR(Y_T, y), ROW_SIZES) {
  __local real shared[GROUP];
  MY_ROW
  a = ROW_OF(a);
  FIND_SHIFT(a)
  m = MASK ? ROW_OF(m) : m;
  y = ROW_OF(y);
  SUM_OF_EXP
  const real log_sum = LOG || ONE ? log(sum) : 0, scale = 1 / sum;
#if ONE
  if (mine && lane == 0) STORE(Y_DTYPE, y, 0, base + log_sum);
#else
  // A row that the mask leaves nothing of.
  const bool empty = MASK && sum == 0;
  for (INDEX start = 0; start < END; start += BATCH) {
    if (!HOLD) GET_X(start, v)
    EACH(j) {
      const real e = HOLD || LOG ? v[j] : exp(v[j] - base);
      v[j] = LOG ? (empty ? -INFINITY : v[j] - base - log_sum) : empty ? 0 : e * scale;
    }
    UNROLLED for (int i = 0; i < ITEMS; i++) {
      const INDEX k = ACCESS(start, i);
      PUT_IN(Y_DTYPE, y, k, v + i * V)
    }
  }
#endif
}

// a: dy, b: y, y: dx.
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void softmax_backward(
    TENSOR(const A_T, a), TENSOR(const B_T, b), TENSOR(const M_T, m), TENSOR(Y_T, y), ROW_SIZES) {
  __local real shared[GROUP];
  MY_ROW
  a = ROW_OF(a);
  FIND_SHIFT(a)
  b = ROW_OF(b);
  m = MASK ? ROW_OF(m) : m;
  y = ROW_OF(y);
  real d[ITEMS * V], p[ITEMS * V], sum = 0, sum_low = 0;
  for (int round = 0; round < 2; round++) {
    if (round) sum = lanes_sum(sum, shared, lid, lane);
    for (INDEX start = 0; start < END; start += BATCH) {
      if (!HOLD | (round == 0)) {
        UNROLLED for (int i = 0; i < ITEMS; i++) {
          const INDEX k = ACCESS(start, i);
          GET_IN(A_DTYPE, a, k, d + i * V, 0)
          if (HOLD | !LOG | (round > 0)) GET_IN(B_DTYPE, b, k, p + i * V, 0)
        }
      }
      if (round == 0) {
        real part = 0;
        EACH(j) part += LOG ? d[j] : d[j] * p[j];
        ADD_PART(sum, sum_low, part)
        continue;
      }
      EACH(j) d[j] = LOG ? d[j] - exp(p[j]) * sum : p[j] * (d[j] - sum);
      UNROLLED for (int i = 0; i < ITEMS; i++) {
        const INDEX k = ACCESS(start, i);
        if (OUTSIDE(k)) continue;
#if MASK
        int mask[V];
        GET_ANY(M_DTYPE, MASK_VECTOR, m, k, mask)
        for (int e = 0; e < V; e++)
          if (!mask[e]) d[i * V + e] = 0;
#endif
        PUT_IN(Y_DTYPE, y, k, d + i * V)
      }
    }
  }
}
