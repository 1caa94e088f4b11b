// What math_cpu.cl makes its functions of, for float: polynomials and what is done with bits, without branches and calls.
// Polynomials are least-squares fits, weighted so that the largest error is smallest.

#include "lib/intrinsics.cl"

// A call that is left is a loop that stays scalar.
#define INLINED static __attribute__((always_inline))
#define OVERLOADED static __attribute__((always_inline, overloadable))
#define POLYNOMIAL_4(x, a, b, c, d, e) fma(fma(fma(fma(e, x, d), x, c), x, b), x, a)

#define LN2_float 0.693147182f  // and its rest
#define LN2_REST_float -1.90465430e-9f
#define LOG2E_float 1.44269504f
#define LOG2E_LOW_float 0.0051950409f  // beside 1.4375
#define LOG10E_float 0.434294482f
#define PI_float 3.14159265f
#define PI_REST_float -8.74227766e-8f
#define EXP_LEAST_float -104.0f  // below it exp is 0, above EXP_MOST infinite
#define EXP_MOST_float 89.0f
#define EXP2_MOST_float 200.0f  // from which on, up and down, it is nothing else
#define LARGE_float 1e4f        // the square of it and 1 are the square

OVERLOADED bool has_sign(float x) {
  return as_int(x) < 0;
}
// (One of the compilers for CPUs ends in a segmentation fault with some calls behind a select, or under a condition: this one's,
// and those of square roots, which are taken before they are chosen.)
OVERLOADED float vectorized_copysign(float size, float sign) {
  return as_float((as_uint(size) & 0x7fffffffu) | (as_uint(sign) & 0x80000000u));
}
// rint, of numbers up to 2^22, and of double up to 2^51: the builtin one of double is a call.
OVERLOADED float nearest(float v) {
  return (v + 12582912.0f) - 12582912.0f;
}

// What log does, of a positive number: x = 2^e (1 + m), with 1 + m between the roots of 1/2 and 2.
OVERLOADED float log_parts(float x, float* m) {
  const bool denormal = x < 1.17549435e-38f;
  const uint bits = as_uint(denormal ? x * 8388608.0f : x);
  const int e = (int)(bits - 0x3f3504f3u) >> 23;
  *m = as_float(bits - ((uint)e << 23)) - 1.0f;
  return (float)(e - (denormal ? 23 : 0));
}
// log(1 + m) - m, up to 3e-8 of m^3.
OVERLOADED float log_rest(float m) {
  const float high = fma(fma(fma(0.0733238841f, m, -0.116598651f), m, 0.116346851f), m, -0.123967109f);
  const float tail = POLYNOMIAL_4(m, 0.333333313f, -0.249999812f, 0.200006881f, -0.166691505f, 0.142511544f) +
                     m * m * (m * m) * m * high;
  return m * m * fma(m, tail, -0.5f);
}

// (exp(r) - 1 - r - r^2 / 2) / r^3 for r up to 1/2.
OVERLOADED float exp_tail(float r) {
  return POLYNOMIAL_4(r, 0.166666669f, 0.0416661804f, 0.00833319286f, 0.00139666191f, 0.000199621826f);
}
// 2^k, as two factors, for a whole number k from -300 to 300.
OVERLOADED float power_of_two(float k, float* rest) {
  const int half_way = (int)k >> 1, other = (int)k - half_way;
  *rest = as_float((uint)(other + 127) << 23);
  return as_float((uint)(half_way + 127) << 23);
}

// erf(x) of x up to 1; exp(a^2) erfc(a) of a from 1/2 on: 1 / (1 + 2 a) times a polynomial in (a - 2) / (a + 2).
OVERLOADED float erf_near(float x) {
  const float z = x * x;
  const float high = fma(fma(7.85385494e-05f, z, -0.000801019168f), z, 0.00518832746f);
  return x * fma(fma(fma(fma(high, z, -0.0268538118f), z, 0.112835851f), z, -0.376126258f), z, 1.12837917f);
}
OVERLOADED float erfc_factor(float a) {
  const float u = (a - 2) / (a + 2);
  const float high = POLYNOMIAL_4(u, -0.0542185712f, -0.00794723224f, 0.00869564158f, 0.000948607519f, -0.00132044733f);
  const float p = fma(fma(fma(fma(high, u, 0.164042295f), u, -0.16603038f), u, -0.092763571f), u, 1.27697838f);
  return p / fma(2.0f, a, 1.0f);
}
#define ERFC_LEAST_float 10.2f  // where erfc is 0

// (atan(z) / z - 1) / z^2 of z^2, z up to 1.
OVERLOADED float atan_tail(float w) {
  const float high = POLYNOMIAL_4(w, -0.0837729803f, 0.0575518052f, -0.0308043024f, 0.0107267864f, -0.00175389502f);
  return POLYNOMIAL_4(w, -0.333332836f, 0.199982659f, -0.142619319f, 0.109420247f, high);
}
// (asin(z) / z - 1) / z^2 of z^2, z up to 1/2.
OVERLOADED float asin_tail(float w) {
  return fma(POLYNOMIAL_4(w, 0.0750010316f, 0.0445966247f, 0.0311319205f, 0.0170057915f, 0.0339210635f), w, 0.166666663f);
}
