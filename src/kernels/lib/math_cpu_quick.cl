// Functions for kernels on CPUs that have a quick form for most arguments: sin, cos, tan and fmod. In a loop that has an
// `int* math_far` of its own they take that form, and what it points to is not 0 afterwards if an argument was too far for it
// (the value is then none); elsewhere they take the form for all arguments, which of double is the builtin one.
#include "lib/math_cpu.cl"

#ifdef cl_khr_fp64
__constant int math_far = 0;

// x as r + quarter pi / 2, but for whole turns; r is up to pi / 4. 2/pi is a sum of numbers of 29 bits: what x times each
// has beside multiples of 8 is exact. (No loop: one within another is not made into vectors.)
INLINED double left_of_eight(double v) {
  return fma(trunc(v * 0.125), -8.0, v);
}
OVERLOADED float beside_quarters(float given, int* quarter, int far) {
  const double x = given;
  const double low = left_of_eight(x * (478285810 * 0x1p-203)) + left_of_eight(x * (90590992 * 0x1p-174)) +
                     left_of_eight(x * (461485765 * 0x1p-145)) + left_of_eight(x * (488592205 * 0x1p-116));
  const double sum = low + left_of_eight(x * (352195499 * 0x1p-87)) + left_of_eight(x * (423170132 * 0x1p-58)) +
                     left_of_eight(x * (341782637 * 0x1p-29));
  const double whole = nearest(sum);
  *quarter = (int)whole;
  return (float)((sum - whole) * 1.5707963267948966);
}
// Up to 2^16. pi / 2 is a sum of three floats; what the first one's products leave of x is exact, so that r's error is that of
// two roundings even where nearly all of x cancels.
OVERLOADED float beside_quarters(float x, int* quarter, int* far) {
  *far |= fabs(x) > 65536.0f;
  const float shifted = fma(x, 0.636619772f, 12582912.0f), k = shifted - 12582912.0f;
  *quarter = as_int(shifted);
  return fma(k, -5.39030295e-15f, fma(k, -7.54978942e-08f, fma(k, -1.57079625f, x)));
}
// Up to 2^20; the first two of three numbers have 33 bits.
OVERLOADED double beside_quarters(double x, int* quarter, int* far) {
  *far |= fabs(x) > 1048576.0;
  const double shifted = fma(x, 0.6366197723675814, 6755399441055744.0), k = shifted - 6755399441055744.0;
  *quarter = (int)as_long(shifted);
  return fma(k, -2.0222662487959506e-21, fma(k, -6.077100506303966e-11, fma(k, -1.5707963267341256, x)));
}
// sin and cos of up to pi / 4, of r and its square.
OVERLOADED float sin_near(float r, float w) {
  return fma(r * w, fma(fma(-0.000195879825f, w, 0.00833274887f), w, -0.166666647f), r);
}
OVERLOADED float cos_near(float w) {
  return fma(w * w, fma(fma(2.45479736e-05f, w, -0.00138883032f), w, 0.0416666647f), fma(w, -0.5f, 1.0f));
}
OVERLOADED double sin_near(double r, double w) {
  const double p = NEXT_5(1.5918129294866608e-10, w, -2.5051131845003624e-08, 2.755731610255244e-06,
                          -0.00019841269836758574, 0.008333333333330948, -0.16666666666666666);
  return fma(r * w, p, r);
}
OVERLOADED double cos_near(double w) {
  const double p = NEXT_5(-1.1382632425521717e-11, w, 2.08761462684032e-09, -2.7557317271729793e-07,
                          2.480158729876569e-05, -0.0013888888888887398, 0.041666666666666664);
  return fma(w * w, p, fma(w, -0.5, 1.0));
}
// v, or -v
OVERLOADED float negated_if(float v, bool negative) {
  return as_float(as_uint(v) ^ ((uint)negative << 31));
}
OVERLOADED double negated_if(double v, bool negative) {
  return as_double(as_ulong(v) ^ ((ulong)negative << 63));
}

OVERLOADED float vectorized_fmod(float a, float b, int far) {
  return fmod(a, b);
}
// Exact: differences are not rounded, and the quotient may be one too large or too small (division is not everywhere rounded to
// the nearest).
#define QUICK_FMOD(R, MOST)                                                                \
  OVERLOADED R vectorized_fmod(R a, R b, int* far) {                                       \
    const R x = fabs(a), y = fabs(b), quotient = trunc(x / y);                             \
    *far |= quotient > (MOST);                                                             \
    const R rest = fma(-quotient, y, x), positive = rest < 0 ? rest + y : rest;            \
    return vectorized_copysign(x < y ? x : positive >= y ? positive - y : positive, a);    \
  }
QUICK_FMOD(float, 0x1p22f)
QUICK_FMOD(double, 0x1p51)

// sin_of: sin(r + quarter pi / 2). Small numbers are their own sines and tangents, -0 too.
#define SIN_OF(R)                                                                          \
  OVERLOADED R sin_of(R r, int quarter) {                                                  \
    const R w = r * r, s = sin_near(r, w), c = cos_near(w);                                \
    return negated_if(quarter & 1 ? c : s, quarter & 2);                                   \
  }
SIN_OF(float)
SIN_OF(double)
#define FORMS(R, FAR, SMALL)                                                               \
  OVERLOADED R vectorized_sin(R x, FAR far) {                                              \
    int quarter;                                                                           \
    const R r = beside_quarters(x, &quarter, far), value = sin_of(r, quarter);             \
    return fabs(x) < (SMALL) ? x : value;                                                  \
  }                                                                                        \
  OVERLOADED R vectorized_cos(R x, FAR far) {                                              \
    int quarter;                                                                           \
    const R r = beside_quarters(x, &quarter, far);                                         \
    return sin_of(r, quarter + 1);                                                         \
  }                                                                                        \
  OVERLOADED R vectorized_tan(R x, FAR far) {                                              \
    int quarter;                                                                           \
    const R r = beside_quarters(x, &quarter, far), w = r * r;                              \
    const R s = sin_near(r, w), c = cos_near(w);                                           \
    const R value = (quarter & 1 ? -c : s) / (quarter & 1 ? s : c);                        \
    return fabs(x) < (SMALL) ? x : value;                                                  \
  }
FORMS(float, int, 0x1p-12f)
FORMS(float, int*, 0x1p-12f)
FORMS(double, int*, 0x1p-27)

OVERLOADED double vectorized_sin(double x, int far) {
  return sin(x);
}
OVERLOADED double vectorized_cos(double x, int far) {
  return cos(x);
}
OVERLOADED double vectorized_tan(double x, int far) {
  return tan(x);
}
OVERLOADED double vectorized_fmod(double a, double b, int far) {
  return fmod(a, b);
}
#undef sin
#undef cos
#undef tan
#undef fmod
#define sin(x) vectorized_sin(x, math_far)
#define cos(x) vectorized_cos(x, math_far)
#define tan(x) vectorized_tan(x, math_far)
#define fmod(a, b) vectorized_fmod(a, b, math_far)
#endif
