// Functions that random numbers are made with, the same to the last bit on every device: of integers, of float's
// sums, products and fma, which OpenCL rounds correctly everywhere, and of nothing that a device may do in a way
// of its own: no division, no builtin function but fma and ceil, no numbers too small for a normal float. No product is
// an operand of a sum, so there is nothing that a compiler might contract. Errors are one or two units in the last
// place. Polynomials are least-squares fits, weighted so that the largest error is smallest.

#pragma OPENCL FP_CONTRACT OFF

#define EXACT static __attribute__((always_inline))

// log(2^e (1 + m)), 1 + m between the square roots of 1/2 and 2.
EXACT float logarithm_of(float e, float m) {
  float p = fma(0.06750956f, m, -0.11671449f);
  p = fma(p, m, 0.11883568f);
  p = fma(p, m, -0.12406032f);
  p = fma(p, m, 0.14220327f);
  p = fma(p, m, -0.16667996f);
  p = fma(p, m, 0.20002073f);
  p = fma(p, m, -0.2500001f);
  p = fma(p, m, 0.33333313f);
  p = fma(p, m, -0.5f);
  return fma(e, 0.6931472f, fma(m * m, p, m));
}

// log(x) of a positive normal number.
EXACT float logarithm(float x) {
  const uint bits = as_uint(x);
  const int exponent = (int)(bits - 0x3f3504f3u) >> 23;
  return logarithm_of((float)exponent, as_float(bits - ((uint)exponent << 23)) - 1.0f);
}

// -log(u) of u = (w + 1/2) / 2^32: from 2^-33 to 22.9. From 3/4 on it is that of 1 - (1 - u), so that what is
// near 1 keeps all its bits.
EXACT float negative_log(uint w) {
  const bool high = w >= 0xC0000000u;
  const float u = fma((float)(high ? ~w : w), 0x1p-32f, 0x1p-33f);
  const uint bits = as_uint(u);
  const int exponent = high ? 0 : (int)(bits - 0x3f3504f3u) >> 23;
  const float m = high ? -u : as_float(bits - ((uint)exponent << 23)) - 1.0f;  // u = 2^e (1 + m)
  return -logarithm_of((float)exponent, m);
}

// The square root of a positive number.
EXACT float square_root(float x) {
  const float half_x = -0.5f * x;
  float y = as_float(0x5f3759dfu - (as_uint(x) >> 1));
  y *= fma(half_x * y, y, 1.5f);
  y *= fma(half_x * y, y, 1.5f);
  const float s = x * y;  // to 18 bits; its remainder makes that all
  return fma(fma(-s, s, x), 0.5f * y, s);
}

// 1 / x of a positive number below 2^100, to 1.3e-4; and that made as exact as it can be.
EXACT float near_reciprocal(float x) {
  const float y = as_float(0x7ef311c7u - as_uint(x)), error = fma(-x, y, 1.0f);
  return fma(y * error, error + 1.0f, y);
}
EXACT float reciprocal(float x) {
  const float y = near_reciprocal(x);
  return fma(fma(-x, y, 1.0f), y, y);
}

// Sine and cosine of r quarter turns, r from -1/2 to 1/2.
EXACT float sine(float r) {
  const float t = r * r;
  float p = fma(0.0001546035f, t, -0.00467954f);
  p = fma(p, t, 0.079692334f);
  p = fma(p, t, -0.6459641f);
  return fma(r, 1.5707964f, r * fma(p, t, -4.371139e-8f));
}
EXACT float cosine(float r) {
  const float t = r * r;
  float p = fma(0.00089350715f, t, -0.02085524f);
  p = fma(p, t, 0.25366852f);
  p = fma(p, t, -1.2337005f);
  return fma(p, t, 1.0f);
}

// Cosine and sine of floor(w / 2^8) / 2^24 turns.
EXACT void cosine_and_sine(uint w, float* c, float* s) {
  const uint turn = w >> 8, quarter = (turn + (1u << 21)) >> 22;
  const float r = (float)((int)turn - (int)(quarter << 22)) * 0x1p-22f;
  const float along = cosine(r), across = sine(r);
  const float x = quarter & 1 ? across : along, y = quarter & 1 ? along : across;
  *c = (quarter + 1) & 2 ? -x : x;
  *s = quarter & 2 ? -y : y;
}

// The tangent of pi (u - 1/2), u = (w + 1/2) / 2^32; beyond 1 that of the angle to pi / 2, turned over.
EXACT float tangent(uint w) {
  const bool negative = w < 0x80000000u;
  const uint size = negative ? 0x7fffffffu - w : w - 0x80000000u;
  const bool beyond = size >= 0x40000000u;
  const float r = fma((float)(beyond ? 0x7fffffffu - size : size), 0x1p-31f, 0x1p-32f);
  const float c = cosine(r), s = sine(r), above = beyond ? c : s, below = beyond ? s : c;
  const float inverse = near_reciprocal(below), q = above * inverse;  // the remainder doubles q's bits
  const float result = fma(fma(-below, q, above), inverse, q);
  return negative ? -result : result;
}

// exp(x); 0 where it would be below 2^-125.
EXACT float exponential(float x) {
  const float near = min(max(x, -86.6f), 88.8f);
  const float shifted = fma(near, 1.442695f, 12582912.0f), k = shifted - 12582912.0f;  // to the nearest integer
  const float r = fma(k, 1.90465430e-9f, fma(k, -0.6931472f, near));
  float p = fma(0.00019948429f, r, 0.0013935083f);
  p = fma(p, r, 0.008333203f);
  p = fma(p, r, 0.041666463f);
  p = fma(p, r, 0.16666667f);
  p = fma(p, r, 0.5f);
  p = fma(fma(p, r, 1.0f), r, 1.0f);
  // 2^(k - 1), from the low bits of `shifted`: 2^128 is no float.
  const float result = p * as_float((as_uint(shifted) + 126u) << 23) * 2.0f;
  return x < -86.6f ? 0.0f : x > 88.72284f ? INFINITY : result;
}
