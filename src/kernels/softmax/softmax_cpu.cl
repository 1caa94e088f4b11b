// Softmax, log-softmax and logsumexp on a CPU, and the first two backwards: a row, or a few neighbouring ones, stay in cache
// between the passes. rows_cpu.cl says how they are shared out, softmax.cl has the same for GPUs.

#include "softmax/softmax_sum_cpu.cl"

#ifndef B_DTYPE  // of y backward; A: of dy then; Y: of the result
#define B_DTYPE f32
#define B_T float
#define B_STEP 1
#define B_GAPS 0
#endif
#ifndef Y_DTYPE
#define Y_DTYPE f32
#define Y_T float
#define Y_STEP 1
#endif
#ifndef LOG  // the logarithm of softmax
#define LOG 0
#endif

#ifndef KEEPS  // y can hold what exp gives between two passes
#define KEEPS 1
#endif
#ifndef STAGED  // backward: some tensor has gaps
#define STAGED 0
#endif

#define B_WORDS JOIN(WORDS_, B_GAPS)(b)
#define BRING_B JOIN(BRING_, B_GAPS)(b)
#define B_AT(k, l) JOIN(AT_, B_GAPS)(b, B_T, B_DTYPE, B_STEP, k, l)
#define Y_AT(k, l) LOAD(Y_DTYPE, y_row, PLACE(y, Y_STEP, k, l))
#define TO_Y(k, l, v) STORE(Y_DTYPE, y_row, PLACE(y, Y_STEP, k, l), v)
#if KEEPS && !LOG && !ONE
#undef KEEP
#define KEEP \
  if (!WHOLE) EACH_ELEMENT(TO_Y(k, l, powers[e]);)
#endif

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void softmax(
    TENSOR(const A_T, a), TENSOR(const B_T, b), TENSOR(const M_T, m), TENSOR(Y_T, y), ROW_SIZES, long block) {
  BRING_CONSTANTS_IN
  const INDEX n = (INDEX)size;
  FOR_ROWS {
    COORDINATES(row)
    __global const A_T* a_row = ROW_OF(a);
    __global const M_T* m_row = MASK ? ROW_OF(m) : m;
    __global Y_T* y_row = ROW_OF(y);
    SUM_OF_EXP
    real scale[LANES];
#if ONE
    EACH_LANE scale[l] = base[l] + log(sum[l]);
    for (int l = 0; l < lanes; l++) STORE(Y_DTYPE, y_row, (INDEX)l * (INDEX)y_s.kept[0], scale[l]);
#elif LOG
    EACH_LANE scale[l] = log(sum[l]);
    // A row that the mask leaves nothing of has -infinity.
    EACH_LANE scale[l] = MASK && sum[l] == 0 ? INFINITY : scale[l];
    EACH_PIECE {
      if (!WHOLE) {
        BRING_A
      }
      EACH_ELEMENT(const real v = X_AT(k, l) - OF(base) - OF(scale); TO_Y(k, l, v);)
    }
#else
    EACH_LANE scale[l] = MASK && sum[l] == 0 ? 0 : 1 / sum[l];
    EACH_PIECE {
      if (WHOLE) {
        EACH_ELEMENT(TO_Y(k, l, powers[e] * OF(scale));)
      } else if (KEEPS) {
        EACH_ELEMENT(const real p = Y_AT(k, l) * OF(scale); TO_Y(k, l, p);)
      } else {
        RAISE
        EACH_ELEMENT(TO_Y(k, l, powers[e] * OF(scale));)
      }
    }
#endif
  }
}

#if STAGED
#define COLLECT                                \
  BRING_A                                      \
  BRING_B                                      \
  EACH_ELEMENT(slopes[e] = A_AT(k, l);)        \
  EACH_ELEMENT(results[e] = B_AT(k, l);)
#define IN_PARTS(BODY) EACH_PIECE { BODY }
#define SLOPE(k, l, e) slopes[e]
#define RESULT(k, l, e) results[e]
#else
#define COLLECT
#define IN_PARTS(BODY) { const INDEX from = 0, to = n; BODY }
#define SLOPE(k, l, e) A_AT(k, l)
#define RESULT(k, l, e) B_AT(k, l)
#endif

// a: dy, b: y, y: dx.
__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void softmax_backward(
    TENSOR(const A_T, a), TENSOR(const B_T, b), TENSOR(const M_T, m), TENSOR(Y_T, y), ROW_SIZES, long block) {
  BRING_CONSTANTS_IN
  const INDEX n = (INDEX)size;
  FOR_ROWS {
    COORDINATES(row)
    __global const A_T* a_row = ROW_OF(a);
    __global const B_T* b_row = ROW_OF(b);
    __global const M_T* m_row = MASK ? ROW_OF(m) : m;
    __global Y_T* y_row = ROW_OF(y);
    real slopes[PIECE], results[PIECE];
    A_WORDS B_WORDS
    NEW_SUM(sum)
    EACH_PIECE {
      COLLECT
      NEW_PART(sum)
      EACH_TERM(sum_part[l] += LOG ? SLOPE(k, l, e) : SLOPE(k, l, e) * RESULT(k, l, e);)
      ADD_PIECE(sum)
    }
    OVER_LANES(sum, ADD)
    IN_PARTS(if (!WHOLE) { COLLECT }
             EACH_ELEMENT(const real d = SLOPE(k, l, e); const real p = RESULT(k, l, e);
                          const real dx = LOG ? d - exp(p) * OF(sum) : p * (d - OF(sum));
                          TO_Y(k, l, MASK && !M_AT(k, l) ? 0 : dx);))
  }
}
