// The numbers that random.cl and random_tiles.cl make of a stream's blocks of four words. With DROPOUT they tell which
// elements are dropped.

#define V 4
#include "lib/types.cl"
#include "random/philox.cl"
#include "random/random_math.cl"

#ifndef DTYPE
#define DTYPE f32
#define T float
#endif
#ifndef X_DTYPE  // of dropout's x
#define X_DTYPE f32
#define X_T float
#endif
// One of UNIFORM, NORMAL, LOG_NORMAL, EXPONENTIAL, CAUCHY, GEOMETRIC, INTEGERS, DROPOUT is defined, or none: Bernoulli.


// A block's words as an array: those at even places of the stream, then those at odd ones, which is where Box and
// Muller's method wants them. IN_ORDER undoes it. (One long loop over it becomes vector instructions, and compiles in a
// fifth of the time of four.)
#if WORDS == 8
#define LANES(v, to) vstore8(v, 0, to)
#else
#define LANES(v, to) (to)[0] = (v)
#endif
#define LANES_TO_ARRAY(w, to)           \
  {                                   \
    LANES((w).s0, (to));              \
    LANES((w).s2, (to) + WORDS);      \
    LANES((w).s1, (to) + 2 * WORDS);  \
    LANES((w).s3, (to) + 3 * WORDS);  \
  }
#define IN_ORDER(from, to)                  \
  for (int j = 0; j < WORDS; j++) {         \
    (to)[4 * j] = (from)[j];                \
    (to)[4 * j + 1] = (from)[2 * WORDS + j]; \
    (to)[4 * j + 2] = (from)[WORDS + j];    \
    (to)[4 * j + 3] = (from)[3 * WORDS + j]; \
  }

// What becomes of a word, or of two. `a`, `b` and `top` are as random_fill.hpp has them.
#if defined(UNIFORM)
#define DRAW(w) min(fma((float)((w) >> 8) * 0x1p-24f, b - a, a), top)
#elif defined(EXPONENTIAL)
#define DRAW(w) (a * negative_log(w))
#elif defined(CAUCHY)
#define DRAW(w) fma(b, tangent(w), a)
#elif defined(GEOMETRIC)
#define DRAW(w) min(max(ceil(a * negative_log(w)), 1.0f), top)
#elif defined(NORMAL)
#define DRAW_PAIR(z) fma(b, z, a)
#elif defined(LOG_NORMAL)
#define DRAW_PAIR(z) exponential(fma(b, z, a))
#else
#define DRAW(w) (some & ((w) <= last))
#endif

#ifndef VALUE  // what numbers are made as: float, but integers may be double, int or long
#define VALUE float
#endif

#ifdef DROPOUT
#define SOURCE __global const X_T *x, long x_o,
#define ELEMENT(value, x) ((value) != 0 ? 0.0f : a * (x))
#else
#define SOURCE
#define ELEMENT(value, x) (value)
#endif

#define DRAW_PARAMETERS float a, float b, float top, ulong threshold, long low

// Those of WORDS neighbouring blocks, in order.
EXACT void block_values(ulong block, ulong seed, DRAW_PARAMETERS, VALUE* ordered) {
  const int some = threshold != 0;
  const uint last = (uint)(threshold - 1);
  uint word_of[4 * WORDS];
  VALUE value[4 * WORDS];
  const words w = philox_stream(block, seed, 0);
  LANES_TO_ARRAY(w, word_of);
#if defined(INTEGERS)
  // `threshold` numbers from `low` on: the upper half of their count times a fraction of 32 bits, or 64.
  if (threshold <= 1u << 20) {
    for (int i = 0; i < 4 * WORDS; i++) value[i] = (VALUE)(low + (long)(word_of[i] * threshold >> 32));
  } else {
    uint more[4 * WORDS];
    const words v = philox_stream(block, seed, 1);
    LANES_TO_ARRAY(v, more);
    for (int i = 0; i < 4 * WORDS; i++)
      value[i] = (VALUE)(long)((ulong)low + mul_hi((ulong)word_of[i] << 32 | more[i], threshold));
  }
#elif defined(DRAW_PAIR)
  for (int i = 0; i < 2 * WORDS; i++) {
    const float r = square_root(2 * negative_log(word_of[i]));
    float along, across;
    cosine_and_sine(word_of[2 * WORDS + i], &along, &across);
    value[i] = DRAW_PAIR(r * along);
    value[2 * WORDS + i] = DRAW_PAIR(r * across);
  }
#else
  for (int i = 0; i < 4 * WORDS; i++) value[i] = DRAW(word_of[i]);
#endif
  IN_ORDER(value, ordered);
}
