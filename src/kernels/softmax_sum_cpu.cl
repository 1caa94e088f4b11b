// The maximum of a row of `a`, and the sum of exp of what its elements are below it, on a CPU: softmax_sum.cl is the GPU's.

#include "rows_cpu.cl"

#ifndef A_DTYPE  // of x; M: of the mask. A_STEP 1: the tensor's lanes are neighbours in memory.
#define A_DTYPE f32
#define A_T float
#define A_STEP 1
#define M_DTYPE bool
#define M_T uchar
#define M_STEP 1
#endif
#ifndef ONE  // only the row's logsumexp
#define ONE 0
#endif
#ifndef MASK  // 0: none, 1: elements where it is not 0 take part, 2: it is added
#define MASK 0
#endif

#define A_AT(k, l) LOAD(A_DTYPE, a_row, PLACE(a, A_STEP, k, l))
#define M_AT(k, l) LOAD(M_DTYPE, m_row, PLACE(m, M_STEP, k, l))
#if MASK == 0
#define X_AT(k, l) A_AT(k, l)
#elif MASK == 1
#define X_AT(k, l) (M_AT(k, l) ? A_AT(k, l) : -INFINITY)
#else
#define X_AT(k, l) (A_AT(k, l) + M_AT(k, l))
#endif

// base and the sum of exp(x - base) of each lane's row. Where nothing is above -infinity the sum is 0, and NaN or -infinity comes out
// by itself. Of +infinity softmax gives NaN, logsumexp does not.
#define MAXIMUM                                                                           \
  real base[LANES], sum[LANES];                                                           \
  EACH_LANE base[l] = -INFINITY;                                                          \
  FOR_ELEMENTS(const real v = X_AT(k, l); base[l] = MAX_OR_NAN(base[l], v);)              \
  OVER_LANES(base, MAX_OR_NAN)                                                            \
  EACH_LANE base[l] = (base[l] == -INFINITY) | (ONE & (base[l] == INFINITY)) ? 0 : base[l]; \
  EACH_LANE sum[l] = 0;
#define SUM_OF_EXP                                      \
  MAXIMUM                                               \
  FOR_ELEMENTS(sum[l] += exp(X_AT(k, l) - base[l]);)    \
  OVER_LANES(sum, ADD)
