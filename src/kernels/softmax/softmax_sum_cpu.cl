// The maximum of a row of `a`, and the sum of exp of what its elements are below it, on a CPU: softmax_sum.cl is the GPU's.

#include "lib/rows_cpu.cl"

#ifndef A_DTYPE  // of x; M: of the mask. A_STEP 1: the tensor's lanes are neighbours in memory.
#define A_DTYPE f32
#define A_T float
#define A_STEP 1
#define A_GAPS 0  // 1: they are not, and have 16 bits
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

#define A_WORDS JOIN(WORDS_, A_GAPS)(a)
#define BRING_A JOIN(BRING_, A_GAPS)(a)
#define A_AT(k, l) JOIN(AT_, A_GAPS)(a, A_T, A_DTYPE, A_STEP, k, l)
#define M_AT(k, l) LOAD(M_DTYPE, m_row, PLACE(m, M_STEP, k, l))
#if MASK == 0
#define X_AT(k, l) A_AT(k, l)
#elif MASK == 1
#define X_AT(k, l) (M_AT(k, l) ? A_AT(k, l) : -INFINITY)
#else
#define X_AT(k, l) (A_AT(k, l) + M_AT(k, l))
#endif

// base, the sum of exp(x - base) of each lane's row, and `powers`: these exponentials, of a row that is WHOLE. Where nothing is
// above -infinity the sum is 0, and NaN or -infinity comes out by itself. Of +infinity softmax gives NaN, logsumexp does not.
#define MAXIMUM                                                                           \
  real base[LANES], powers[PIECE];                                                        \
  A_WORDS                                                                                 \
  EACH_LANE base[l] = -INFINITY;                                                          \
  EACH_PIECE {                                                                            \
    BRING_A                                                                               \
    FILL(powers, X_AT(k, l), -INFINITY)                                                   \
    EACH_STEP(base[l] = MAX_OR_NAN(base[l], powers[e]);)                                  \
  }                                                                                       \
  OVER_LANES(base, MAX_OR_NAN)                                                            \
  EACH_LANE base[l] = (base[l] == -INFINITY) | (ONE & (base[l] == INFINITY)) ? 0 : base[l];
// Of a piece; it is there already if it is WHOLE.
#if ACROSS
#define BELOW_BASE EACH_STEP(powers[e] -= base[l];)
#define BELOW 0
#else
#define BELOW_BASE
#define BELOW base[0]
#endif
#define RAISE                                              \
  if (!WHOLE) {                                            \
    BRING_A                                                \
    FILL(powers, X_AT(k, l), -INFINITY)                    \
  }                                                        \
  BELOW_BASE                                               \
  EACH_NUMBER(powers[e] = exp(powers[e] - BELOW);)
#define KEEP  // of a piece's powers, elsewhere
#define SUM_OF_EXP                   \
  MAXIMUM                            \
  NEW_SUM(sum)                       \
  EACH_PIECE {                       \
    RAISE                            \
    NEW_PART(sum)                    \
    EACH_STEP(sum_part[l] += powers[e];) \
    ADD_PIECE(sum)                   \
    KEEP                             \
  }                                  \
  OVER_LANES(sum, ADD)
