// Samples by rejection, see random_sample.hpp. A candidate takes its words from streams 3, 4, ... at the element's place, which
// nobody else reads. Arithmetic is that of random_math.cl: sums, products and fma, nothing that a compiler might contract.

#define WORDS 1
#include "lib/types.cl"
#include "random/philox.cl"
#include "random/random_math.cl"

#ifndef X_DTYPE
#define X_DTYPE f32
#define X_T float
#define Y_DTYPE f32
#define Y_T float
#define Y_VALUE float
#define POISSON 0
#define WHOLE_Y 0
#endif

typedef struct {
  ulong at, seed;
  uint stream;
} Source;

EXACT uint next_word(Source* source) {
  const words w = philox_stream(source->at / 4, source->seed, source->stream++);
  const uint pair = source->at & 2 ? w.s2 : w.s0, next = source->at & 2 ? w.s3 : w.s1;
  return source->at & 1 ? next : pair;
}

// In (0, 1), of 24 bits.
EXACT float next_uniform(Source* source) {
  return fma((float)(next_word(source) >> 8), 0x1p-24f, 0x1p-25f);
}

EXACT float next_normal(Source* source) {
  const float r = square_root(2 * negative_log(next_word(source)));
  float along, across;
  cosine_and_sine(next_word(source), &along, &across);
  return r * along;
}

#define LEAST 1.17549435e-38f

#if !POISSON
EXACT float sample(float shape, Source* source) {
  if (!(shape > 0.0f)) return NAN;
  if (shape > 0x1p60f) return shape;  // deviations are below its last bit
  float boost = 0;  // Below 1: a sample of shape + 1, times the shape's root of a uniform number.
  float a = shape;
  if (a < 1.0f) {
    const float inverse = a < 0x1p-90f ? 0x1p90f : reciprocal(a);
    boost = -(negative_log(next_word(source)) * inverse);
    a += 1.0f;
  }
  const float d = a - 0.33333334f, c = reciprocal(3.0f * square_root(d));
  for (int k = 0; k < 1000; k++) {
    const float x = next_normal(source), t = fma(c, x, 1.0f);
    const uint w = next_word(source);
    if (t <= 0.0f) continue;
    const float v = t * t * t, x2 = x * x;
    // log(u) < x^2 / 2 + d - d v + d log(v)
    const float bound = fma(d, 1.0f - v + logarithm(v), 0.5f * x2);
    if (-negative_log(w) < bound) {
      const float y = d * v;
      return shape < 1.0f ? max(y * exponential(boost), LEAST) : max(y, LEAST);
    }
  }
  return a;  // one in 10^1000
}
#else
// t - log(1 + t), t > -1. By its series where the difference loses digits.
EXACT float gap(float t) {
  if (fabs(t) >= 0.125f) return t - logarithm(1.0f + t);
  float p = fma(-0.1f, t, 0.11111111f);
  p = fma(p, t, -0.125f);
  p = fma(p, t, 0.14285715f);
  p = fma(p, t, -0.16666667f);
  p = fma(p, t, 0.2f);
  p = fma(p, t, -0.25f);
  p = fma(p, t, 0.33333334f);
  p = fma(p, t, -0.5f);
  return -(t * t * p);
}

// log of mean^k e^-mean / k!, by Stirling's formula: k is 1 and more.
EXACT float log_probability(float k, float mean) {
  const float inverse = reciprocal(k), t = (mean - k) * inverse, inverse2 = inverse * inverse;
  float tail = fma(inverse2, 0.0007936508f, -0.0027777778f);
  tail = fma(tail, inverse2, 0.083333336f);
  return fma(-k, gap(t), fma(-inverse, tail, -0.5f * logarithm(6.2831855f * k)));
}

EXACT float sample(float mean, Source* source) {
  if (!(mean >= 0.0f)) return NAN;
  if (mean > 0x1p30f) return NAN;
  if (mean < 10.0f) {
    float sum = negative_log(next_word(source));
    int k = 0;
    while (sum <= mean && k < 1000) {
      sum += negative_log(next_word(source));
      k++;
    }
    return (float)k;
  }
  const float root = square_root(mean), b = fma(2.53f, root, 0.931f), a = fma(0.02483f, b, -0.059f),
              inverse_alpha = fma(1.1328f, reciprocal(b - 3.4f), 1.1239f), vr = fma(-3.6224f, reciprocal(b - 2.0f), 0.9277f);
  for (int j = 0; j < 1000; j++) {
    const float u = next_uniform(source) - 0.5f, v = next_uniform(source), us = 0.5f - fabs(u);
    if (us <= 0.0f) continue;
    const float per = reciprocal(us), k = floor(fma(fma(2.0f * a, per, b), u, mean + 0.43f));
    if (us >= 0.07f && v <= vr) return k;
    if (k < 0.0f || k > 0x1p31f || (us < 0.013f && v > us)) continue;
    const float left = logarithm(v) + logarithm(inverse_alpha) - logarithm(fma(a * per, per, b));
    if (left <= (k < 1.0f ? -mean : log_probability(k, mean))) return k;
  }
  return floor(mean);
}
#endif

__kernel void random_sample(__global const X_T* x, long x_o, __global Y_T* y, long y_o, long count, ulong seed, ulong offset) {
  const long i = (long)get_global_id(0);
  if (i >= count) return;
  Source source = {offset + (ulong)i, seed, 3};
  const float value = sample((float)JOIN(LOAD_, X_DTYPE)(x, x_o + i), &source);
  JOIN(STORE_, Y_DTYPE)(y, y_o + i, (Y_VALUE)(WHOLE_Y && value != value ? 0.0f : value));
}
