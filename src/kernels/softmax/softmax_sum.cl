// The maximum of a row of `a`, and the sum of exp of what its elements are below it, on a GPU.

#include "lib/rows_gpu.cl"

#ifndef A_DTYPE  // of x; M: of the mask
#define A_DTYPE f32
#define A_T float
#define M_DTYPE bool
#define M_T uchar
#endif
#ifndef KEEPS_X  // v holds the row's elements afterwards, not what exp gave of them
#define KEEPS_X 0
#endif
#ifndef ONE  // only the row's logsumexp
#define ONE 0
#endif
#ifndef MASK  // 0: none, 1: elements where it is not 0 take part, 2: it is added
#define MASK 0
#endif
#ifndef MASK_VECTOR  // its elements lie as those of the others
#define MASK_VECTOR 0
#endif

// The batch's elements of x under the mask, with which rows are not RAGGED; -INFINITY past the end.
#define GET_X(start, v)                                                                             \
  UNROLLED for (int i = 0; i < ITEMS; i++) {                                                        \
    const INDEX k = ACCESS(start, i);                                                               \
    GET_IN(A_DTYPE, a, k, v + i * V, -INFINITY)                                                     \
    if (MASK && k < n) GET_MASK(k, v + i * V)                                                       \
  }
#if MASK == 0
#define GET_MASK(k, d) ;
#elif MASK == 1
#define GET_MASK(k, d)                                            \
  {                                                               \
    int mask[V];                                                  \
    GET_ANY(M_DTYPE, MASK_VECTOR, m, k, mask)                     \
    for (int e = 0; e < V; e++)                                   \
      if (!mask[e]) (d)[e] = -INFINITY;                           \
  }
#else
#define GET_MASK(k, d)                                            \
  {                                                               \
    real mask[V];                                                 \
    GET_ANY(M_DTYPE, MASK_VECTOR, m, k, mask)                     \
    for (int e = 0; e < V; e++) (d)[e] += mask[e];                \
  }
#endif
#define EACH(j) UNROLLED for (int j = 0; j < ITEMS * V; j++)

// What is subtracted of a row with this maximum before exp: where nothing is above -infinity the sum is 0 then, and NaN or
// -infinity comes out by itself. Of +infinity softmax gives NaN, logsumexp does not.
static real base_of(real most) {
  return (most == -INFINITY) | (ONE & (most == INFINITY)) ? 0 : most;
}
// The sum of elements up to `most`, as it is with another base.
static real moved(real sum, real most, real base) {
  return most == -INFINITY ? 0 : sum * exp(base_of(most) - base);
}

// For a row of `a`: v, of the last batch; base; and the sum of exp(x - base).
#define SUM_OF_EXP                                                 \
  real v[ITEMS * V], most = -INFINITY, sum = 0, sum_low = 0;       \
  if (HOLD) {                                                      \
    GET_X(0, v)                                                    \
    EACH(j) most = MAX_OR_NAN(most, v[j]);                         \
  } else {                                                         \
    for (INDEX start = 0; start < END; start += BATCH) {           \
      GET_X(start, v)                                              \
      real higher = most;                                          \
      EACH(j) higher = MAX_OR_NAN(higher, v[j]);                   \
      sum = moved(sum, most, base_of(higher));                     \
      sum_low = moved(sum_low, most, base_of(higher));             \
      real part = 0;                                               \
      EACH(j) part += exp(v[j] - base_of(higher));                 \
      ADD_PART(sum, sum_low, part)                                 \
      most = higher;                                               \
    }                                                              \
  }                                                                \
  const real base = base_of(lanes_max(most, shared, lid, lane));   \
  if (HOLD) {                                                      \
    EACH(j) {                                                      \
      const real e = exp(v[j] - base);                             \
      sum += e;                                                    \
      if (!KEEPS_X) v[j] = e;                                      \
    }                                                              \
  } else {                                                         \
    sum = moved(sum, most, base);                                  \
  }                                                                \
  sum = lanes_sum(sum, shared, lid, lane);
