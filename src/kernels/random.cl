// Random numbers into row-major memory: element i is made of word `offset` + i of the seed's stream, see
// philox.cl. A work-item takes `blocks` blocks of four words, WORDS at a time (1 on GPUs, 8 on CPUs); some
// words at either end may belong to no element. With DROPOUT the words decide which elements of x go to y.

#include "types.cl"
#include "philox.cl"

#ifndef DTYPE
#define DTYPE f32
#define T float
#endif
#ifndef X_DTYPE  // of dropout's x
#define X_DTYPE f32
#define X_T float
#endif
#ifndef UNIFORM  // if all three are 0: Bernoulli
#define UNIFORM 0
#define NORMAL 0
#define DROPOUT 0
#endif

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)

#if WORDS == 8
typedef float8 reals;
#define REALS(w) convert_float8(w)
#define LANES(v, to) vstore8(v, 0, to)
#else
typedef float reals;
#define REALS(w) (float)(w)
#define LANES(v, to) (to)[0] = (v)
#endif

// What becomes of a word, or of two. `a` and `b` are as random.hpp has them, `top` is the largest float
// below b; fma is rounded once everywhere, so that numbers are the same everywhere.
#if UNIFORM
#define DRAW(w) min(fma(REALS((w) >> 8) * (reals)(0x1p-24f), (reals)(b - a), (reals)(a)), (reals)(top))
#elif NORMAL
// u in (0, 1] for the logarithm; angles in half turns.
#define RADIUS(w) (b * sqrt(-2 * log(fma(REALS(w), (reals)(0x1p-32f), (reals)(0x1p-33f)))))
#define ANGLE(w) (REALS((w) >> 8) * (reals)(0x1p-23f))
#endif

#if DROPOUT
#define SOURCE __global const X_T *x, long x_o,
#define ELEMENT(value, i) ((value) < threshold ? 0.0f : a * JOIN(LOAD_, X_DTYPE)(x, i))
#elif UNIFORM || NORMAL
#define SOURCE
#define ELEMENT(value, i) (value)
#else
#define SOURCE
#define ELEMENT(value, i) ((value) < threshold ? 1.0f : 0.0f)
#endif

__kernel void random_fill(SOURCE __global T* y, long y_o, long count, ulong seed, ulong offset, float a,
                          float b, float top, ulong threshold, int blocks) {
  const ulong first = offset / 4 + (ulong)get_global_id(0) * (ulong)blocks;
  y += y_o;
#if DROPOUT
  x += x_o;
#endif
  for (int k = 0; k < blocks; k += WORDS) {
    const long e = (long)(4 * (first + (ulong)k) - offset);  // the first word's element; -3 to -1: none
    if (e >= count) return;
    const words w = philox_stream(first + (ulong)k, seed);
#if UNIFORM
    float lane[4][WORDS];
    LANES(DRAW(w.s0), lane[0]);
    LANES(DRAW(w.s1), lane[1]);
    LANES(DRAW(w.s2), lane[2]);
    LANES(DRAW(w.s3), lane[3]);
#elif NORMAL
    float lane[4][WORDS];
    const reals r0 = RADIUS(w.s0), t0 = ANGLE(w.s1), r1 = RADIUS(w.s2), t1 = ANGLE(w.s3);
    LANES(a + r0 * cospi(t0), lane[0]);
    LANES(a + r0 * sinpi(t0), lane[1]);
    LANES(a + r1 * cospi(t1), lane[2]);
    LANES(a + r1 * sinpi(t1), lane[3]);
#else
    uint lane[4][WORDS];
    LANES(w.s0, lane[0]);
    LANES(w.s1, lane[1]);
    LANES(w.s2, lane[2]);
    LANES(w.s3, lane[3]);
#endif
    if (e >= 0 && e + 4 * WORDS <= count) {
      for (int i = 0; i < 4 * WORDS; i++) JOIN(STORE_, DTYPE)(y, e + i, ELEMENT(lane[i % 4][i / 4], e + i));
    } else {
      for (int i = 0; i < 4 * WORDS; i++)
        if (e + i >= 0 && e + i < count) JOIN(STORE_, DTYPE)(y, e + i, ELEMENT(lane[i % 4][i / 4], e + i));
    }
  }
}
