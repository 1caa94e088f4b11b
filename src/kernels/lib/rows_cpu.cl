// Rows on a CPU: a work-group of one item. ACROSS 0: it has `block` rows, one after another, and goes along each with
// LANES accumulators that are combined in a fixed order. ACROSS 1: it has up to LANES neighbouring rows at once, one a lane; they
// are neighbours along the innermost kept dimension.

#include "lib/rows.cl"
#include "lib/math_cpu_quick.cl"

#ifndef LANES
#define LANES 16
#endif
#ifndef ACROSS
#define ACROSS 0
#endif

// The place of lane l at element k of tensor t; `step` is 1 where lanes are neighbours in memory, else 0. It is signed: of sums
// that cannot wrap around compilers know that they are neighbours.
#define PLACE(t, step, k, l)                                                              \
  (ACROSS ? (long)(k) * (long)t##_s.axis + (long)(l) * (step ? 1 : (long)t##_s.kept[0])   \
          : ((long)(k) + (long)(l)) * (step ? 1 : (long)t##_s.axis))

#define EACH_LANE for (int l = 0; l < LANES; l++)

// A row, or `lanes` of them, is gone through in pieces [from, to). The numbers of a piece come to an array of PIECE, as
// [STEPS][LANES]: in loops over it nothing has gaps, another dtype or an end. FILL puts VALUE, in terms of k and l, into it, and
// NEUTRAL where the piece ends before the array does. EACH_ELEMENT runs BODY for all elements that there are, to store them:
// element e of the array stands for that at k and l, and OF(a) is what the row has of an accumulator a[l]. EACH_TERM adds up
// without an array.
#define PIECE 2048
#define EACH_PIECE for (INDEX from = 0, to = PIECE_END(n, 0); from < n; from = to, to = PIECE_END(n, from))
#define WHOLE (from == 0 && to == n)
#define EACH_STEP(BODY) \
  for (int s = 0; s < STEPS; s++) EACH_LANE { const int e = s * LANES + l; BODY }
#define EACH_NUMBER(BODY) INDEPENDENT_ROUNDS for (int e = 0; e < STEPS * LANES; e++) { BODY }
#if ACROSS
#define FOR_ROWS                                                                             \
  const INDEX blocks_ = ((INDEX)kept.size[0] + LANES - 1) / LANES;                           \
  const INDEX line_ = (INDEX)get_group_id(0) / blocks_;                                      \
  const INDEX first_ = ((INDEX)get_group_id(0) - line_ * blocks_) * LANES, row = line_ * (INDEX)kept.size[0] + first_; \
  const int lanes = (int)min((INDEX)LANES, (INDEX)kept.size[0] - first_);
#define PIECE_END(n, k) min((INDEX)(n), (INDEX)((k) + PIECE / LANES))
#define STEPS (int)(to - from)
#define ELEMENTS(ROUNDS, BODY)                       \
  for (INDEX k = from; k < to; k++) {                \
    ROUNDS##_ROUNDS for (int l = 0; l < lanes; l++) { \
      const int e = (int)(k - from) * LANES + l;     \
      BODY                                           \
    }                                                \
  }
#define FILL(array, VALUE, NEUTRAL)             \
  EACH_ELEMENT(array[e] = VALUE;)               \
  for (int s = 0; lanes < LANES && s < STEPS; s++) \
    for (int l = lanes; l < LANES; l++) array[s * LANES + l] = NEUTRAL;
#define EACH_TERM(BODY)                                        \
  for (INDEX k = from; k < to; k++) {                          \
    const int s_ = (int)(k - from) * LANES;                    \
    if (lanes == LANES) {                                      \
      EACH_LANE { const int e = s_ + l; BODY }                 \
    } else {                                                   \
      for (int l = 0; l < lanes; l++) { const int e = s_ + l; BODY } \
    }                                                          \
  }
#define OF(A) A[l]
#define OVER_LANES(A, COMBINE)
#else
#define FOR_ROWS                                                                             \
  const int lanes = 1;                                                                       \
  const INDEX end_ = (INDEX)min((long)(get_group_id(0) + 1) * block, rows);                  \
  for (INDEX row = (INDEX)get_group_id(0) * (INDEX)block; row < end_; row++)
#define PIECE_END(n, k) min((INDEX)(n), (INDEX)((k) + PIECE))
#define STEPS (int)((to - from + LANES - 1) / LANES)
#define ELEMENTS(ROUNDS, BODY)                            \
  {                                                       \
    const INDEX k = from;                                 \
    const INDEX count_ = to - from;                       \
    ROUNDS##_ROUNDS for (INDEX l = 0; l < count_; l++) {  \
      const INDEX e = l;                                  \
      BODY                                                \
    }                                                     \
  }
#define FILL(array, VALUE, NEUTRAL)                          \
  EACH_ELEMENT(array[e] = VALUE;)                            \
  for (int e = (int)(to - from); e < STEPS * LANES; e++) array[e] = NEUTRAL;
#define EACH_TERM(BODY)                                                  \
  {                                                                      \
    INDEX k = from;                                                      \
    for (; k + LANES <= to; k += LANES)                                  \
      EACH_LANE { const int e = (int)(k - from) + l; BODY }              \
    for (int l = 0; l < (int)(to - k); l++) { const int e = (int)(k - from) + l; BODY } \
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
#define EACH_ELEMENT(BODY) ELEMENTS(INDEPENDENT, BODY)
// A lane's sum `name` goes by pieces: each is added up by itself, as `name`_part.
#define NEW_SUM(name) \
  real name[LANES], name##_low[LANES]; \
  EACH_LANE name[l] = name##_low[l] = 0;
#define NEW_PART(name) \
  real name##_part[LANES]; \
  EACH_LANE name##_part[l] = 0;
#define ADD_PIECE(name) EACH_LANE ADD_PART(name[l], name##_low[l], name##_part[l])

// Elements of tensor t: AT_0 reads them where they are. AT_1 is for those of 16 bits with gaps between them, which come to an array
// as they lie in memory, one by one, before they are converted: WORDS_1 declares it, BRING_1 copies a piece of t to it.
#define WORDS_0(t)
#define WORDS_1(t) ushort t##_words[PIECE];
#define BRING_0(t)
#define BRING_1(t) ELEMENTS(SCALAR, t##_words[e] = ((__global const ushort*)t##_row)[PLACE(t, 0, k, l)];)
#define AT_0(t, T, DTYPE, step, k, l) LOAD(DTYPE, t##_row, PLACE(t, step, k, l))
#define AT_1(t, T, DTYPE, step, k, l) LOAD(DTYPE, (__private const T*)t##_words, e)

#define MAX_OR_NAN(a, b) ((b) > (a) || (b) != (b) ? (b) : (a))
#define ADD(a, b) ((a) + (b))
