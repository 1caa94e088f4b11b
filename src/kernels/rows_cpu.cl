// Rows on a CPU: a work-group of one item. ACROSS 0: it has `block` rows, one after another, and goes along each with
// LANES accumulators that are combined in a fixed order. ACROSS 1: it has up to LANES neighbouring rows at once, one a lane; they
// are neighbours along the innermost kept dimension.

#include "rows.cl"
#include "math_cpu_quick.cl"

#ifndef LANES
#define LANES 16
#endif
#ifndef ACROSS
#define ACROSS 0
#endif

// The place of lane l at element k of tensor t; `step` is 1 where lanes are neighbours in memory, else 0.
#define PLACE(t, step, k, l)                                                              \
  (ACROSS ? (k) * (INDEX)t##_a + (INDEX)(l) * (step ? 1 : (INDEX)t##_0)                   \
          : ((k) + (INDEX)(l)) * (step ? 1 : (INDEX)t##_a))

#define EACH_LANE for (int l = 0; l < LANES; l++)
// FOR_ELEMENTS runs BODY, in terms of k and l, for all elements; `lanes` are in use, and accumulators are a[l]. FOR_EACH is for what
// stores instead, which compilers make vectors of only in loops that they do not unroll; there OF(a) is what the row has.
#if ACROSS
#define FOR_ROWS                                                                             \
  const INDEX blocks_ = ((INDEX)n0 + LANES - 1) / LANES;                                     \
  const INDEX line_ = (INDEX)get_group_id(0) / blocks_;                                      \
  const INDEX first_ = ((INDEX)get_group_id(0) - line_ * blocks_) * LANES, row = line_ * (INDEX)n0 + first_; \
  const int lanes = (int)min((INDEX)LANES, (INDEX)n0 - first_);
#define FOR_ELEMENTS(BODY)                    \
  for (INDEX k = 0; k < n; k++) {             \
    if (lanes == LANES) {                     \
      EACH_LANE { BODY }                      \
    } else {                                  \
      for (int l = 0; l < lanes; l++) { BODY } \
    }                                         \
  }
#define FOR_EACH(BODY) \
  for (INDEX k = 0; k < n; k++) INDEPENDENT_ROUNDS for (int l = 0; l < lanes; l++) { BODY }
#define OF(A) A[l]
#define OVER_LANES(A, COMBINE)
#else
#define FOR_ROWS                                                                             \
  const int lanes = 1;                                                                       \
  const INDEX end_ = (INDEX)min((long)(get_group_id(0) + 1) * block, rows);                  \
  for (INDEX row = (INDEX)get_group_id(0) * (INDEX)block; row < end_; row++)
#define FOR_ELEMENTS(BODY)                               \
  {                                                      \
    INDEX k = 0;                                         \
    for (; k + LANES <= n; k += LANES) EACH_LANE { BODY } \
    for (int l = 0; l < (int)(n - k); l++) { BODY }      \
  }
#define FOR_EACH(BODY)                                              \
  {                                                                 \
    const INDEX k = 0;                                              \
    INDEPENDENT_ROUNDS for (INDEX l = 0; l < n; l++) { BODY }       \
  }
#define OF(A) A[0]
#define OVER_LANES(A, COMBINE)                                                              \
  {                                                                                         \
    for (int half_ = LANES / 2; half_ > 0; half_ /= 2)                                      \
      for (int l = 0; l < half_; l++) A[l] = COMBINE(A[l], A[l + half_]);                   \
    const real all_ = A[0];                                                                 \
    EACH_LANE A[l] = all_;                                                                  \
  }
#endif
#define MAX_OR_NAN(a, b) ((b) > (a) || (b) != (b) ? (b) : (a))
#define ADD(a, b) ((a) + (b))
