// Random numbers into row-major memory: element i is made of word `offset` + i of the seed's stream, see philox.cl.
// A work-item takes `blocks` blocks of four words; those at the ends may lie partly outside the elements.
// With DROPOUT the words decide which elements of x go to y.

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
#ifndef UNIFORM
#define UNIFORM 0
#define NORMAL 0
#define DROPOUT 0
#endif

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)

// What a call draws: `a` and `b` as random.hpp has them, or dropout's factor in `a`.
typedef struct {
  float a, b, top;
  ulong threshold;
} Draw;

#if DROPOUT
#define SOURCE __global const X_T *x, long x_o,
#else
#define SOURCE
#endif

// Four elements, from the one at e on, of which those in [0, count) exist. `whole`: all do.
#if DROPOUT
#define VALUE(j, w) ((w) < d.threshold ? 0.0f : d.a * JOIN(LOAD_, X_DTYPE)(x, e + (j)))
#elif UNIFORM
// fma is rounded once everywhere; `top` is the largest float below b.
#define VALUE(j, w) min(fma((float)((w) >> 8) * 0x1p-24f, d.b - d.a, d.a), d.top)
#elif NORMAL
#define VALUE(j, w) fma(d.b, (j) == 0 ? n0 : (j) == 1 ? n1 : (j) == 2 ? n2 : n3, d.a)
#else
#define VALUE(j, w) ((w) < d.threshold ? 1.0f : 0.0f)
#endif

#define PUT(j, w) \
  if (whole || (e + (j) >= 0 && e + (j) < count)) JOIN(STORE_, DTYPE)(y, e + (j), VALUE(j, w));

void put_block(
#if DROPOUT
    __global const X_T* x,
#endif
    __global T* y, long e, long count, int whole, ulong block, ulong seed, Draw d) {
  const uint4 w = philox_words(block, seed);
#if NORMAL
  // u in (0, 1], for the logarithm; angles in half turns.
  const float r0 = sqrt(-2 * log(fma((float)w.s0, 0x1p-32f, 0x1p-33f)));
  const float r1 = sqrt(-2 * log(fma((float)w.s2, 0x1p-32f, 0x1p-33f)));
  const float t0 = (float)(w.s1 >> 8) * 0x1p-23f, t1 = (float)(w.s3 >> 8) * 0x1p-23f;
  const float n0 = r0 * cospi(t0), n1 = r0 * sinpi(t0), n2 = r1 * cospi(t1), n3 = r1 * sinpi(t1);
#endif
  PUT(0, w.s0)
  PUT(1, w.s1)
  PUT(2, w.s2)
  PUT(3, w.s3)
}

#if DROPOUT
#define PUT_BLOCK(e, whole, block) put_block(x, y, e, count, whole, block, seed, d)
#else
#define PUT_BLOCK(e, whole, block) put_block(y, e, count, whole, block, seed, d)
#endif

__kernel void random_fill(SOURCE __global T* y, long y_o, long count, ulong seed, ulong offset, float a, float b,
                          float top, ulong threshold, int blocks) {
  const Draw d = {a, b, top, threshold};
  const ulong first = offset / 4 + (ulong)get_global_id(0) * (ulong)blocks;
  const long e0 = (long)(4 * first - offset);  // negative if the first block begins before element 0
  y += y_o;
#if DROPOUT
  x += x_o;
#endif
  const long left = count - e0;  // elements from e0 on
  const int begin = e0 < 0 ? 1 : 0, end = left >= 4 * (long)blocks ? blocks : left > 0 ? (int)(left / 4) : 0;
  if (e0 < 0) PUT_BLOCK(e0, 0, first);
  INDEPENDENT_ROUNDS
  for (int k = begin; k < end; k++) PUT_BLOCK(e0 + 4 * k, 1, first + (ulong)k);
  if (end < blocks && end >= begin) PUT_BLOCK(e0 + 4 * end, 0, first + (ulong)end);
}
