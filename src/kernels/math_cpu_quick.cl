// Functions of float for kernels on CPUs that have a quick form for most arguments: sin, cos, tan and fmod. In a loop that has
// an `int* math_far` of its own they take that form, and what it points to is not 0 afterwards if an argument was too far for it
// (the value is then none); elsewhere they take the form for all arguments.
#include "math_cpu.cl"

#ifdef cl_khr_fp64
__constant int math_far = 0;

// x as r + quarter pi / 2, but for whole turns; r is up to pi / 4. 2/pi is a sum of numbers of 29 bits: what x times each
// has beside multiples of 8 is exact. (No loop: one within another is not made into vectors.)
double INLINED left_of_eight(double v) {
  return fma(trunc(v * 0.125), -8.0, v);
}
float VECTORIZED beside_quarters(float given, int* quarter, int far) {
  const double x = given;
  const double low = left_of_eight(x * (478285810 * 0x1p-203)) + left_of_eight(x * (90590992 * 0x1p-174)) +
                     left_of_eight(x * (461485765 * 0x1p-145)) + left_of_eight(x * (488592205 * 0x1p-116));
  const double sum = low + left_of_eight(x * (352195499 * 0x1p-87)) + left_of_eight(x * (423170132 * 0x1p-58)) +
                     left_of_eight(x * (341782637 * 0x1p-29));
  const double whole = nearest_double(sum);
  *quarter = (int)whole;
  return (float)((sum - whole) * 1.5707963267948966);
}
// Up to 2^16. pi / 2 is a sum of three floats; what the first one's products leave of x is exact, so that r's error is that of
// two roundings even where nearly all of x cancels.
float VECTORIZED beside_quarters(float x, int* quarter, int* far) {
  *far |= fabs(x) > 65536.0f;
  const float shifted = fma(x, 0.636619772f, 12582912.0f), k = shifted - 12582912.0f;
  *quarter = as_int(shifted);
  return fma(k, -5.39030295e-15f, fma(k, -7.54978942e-08f, fma(k, -1.57079625f, x)));
}
// sin and cos of up to pi / 4, of r and its square.
float INLINED sin_near(float r, float w) {
  return fma(r * w, fma(fma(-0.000195879825f, w, 0.00833274887f), w, -0.166666647f), r);
}
float INLINED cos_near(float w) {
  return fma(w * w, fma(fma(2.45479736e-05f, w, -0.00138883032f), w, 0.0416666647f), fma(w, -0.5f, 1.0f));
}
// sin(r + quarter pi / 2)
float INLINED sin_of(float r, int quarter) {
  const float w = r * r, value = quarter & 1 ? cos_near(w) : sin_near(r, w);
  return as_float(as_uint(value) ^ ((uint)(quarter & 2) << 30));
}

float VECTORIZED vectorized_fmod(float a, float b, int far) {
  return fmod(a, b);
}
// Exact: differences are not rounded, and the quotient may be one too large or too small (division is not everywhere rounded to
// the nearest).
float VECTORIZED vectorized_fmod(float a, float b, int* far) {
  const float x = fabs(a), y = fabs(b), quotient = trunc(x / y);
  *far |= quotient > 4194304.0f;
  const float rest = fma(-quotient, y, x), positive = rest < 0 ? rest + y : rest;
  return vectorized_copysign(x < y ? x : positive >= y ? positive - y : positive, a);
}

// (Small numbers are their own sines and tangents, -0 too.)
#define FORMS(FAR)                                                          \
  float VECTORIZED vectorized_sin(float x, FAR far) {                       \
    int quarter;                                                            \
    const float r = beside_quarters(x, &quarter, far);                      \
    return fabs(x) < 0x1p-12f ? x : sin_of(r, quarter);                     \
  }                                                                         \
  float VECTORIZED vectorized_cos(float x, FAR far) {                       \
    int quarter;                                                            \
    const float r = beside_quarters(x, &quarter, far);                      \
    return sin_of(r, quarter + 1);                                          \
  }                                                                         \
  float VECTORIZED vectorized_tan(float x, FAR far) {                       \
    int quarter;                                                            \
    const float r = beside_quarters(x, &quarter, far), w = r * r;           \
    const float s = sin_near(r, w), c = cos_near(w);                        \
    const float value = (quarter & 1 ? -c : s) / (quarter & 1 ? s : c);     \
    return fabs(x) < 0x1p-12f ? x : value;                                  \
  }                                                                         \
  double VECTORIZED vectorized_sin(double x, FAR far) {                     \
    return sin(x);                                                          \
  }                                                                         \
  double VECTORIZED vectorized_cos(double x, FAR far) {                     \
    return cos(x);                                                          \
  }                                                                         \
  double VECTORIZED vectorized_tan(double x, FAR far) {                     \
    return tan(x);                                                          \
  }                                                                         \
  double VECTORIZED vectorized_fmod(double a, double b, FAR far) {          \
    return fmod(a, b);                                                      \
  }
FORMS(int)
FORMS(int*)
#undef sin
#undef cos
#undef tan
#undef fmod
#define sin(x) vectorized_sin(x, math_far)
#define cos(x) vectorized_cos(x, math_far)
#define tan(x) vectorized_tan(x, math_far)
#define fmod(a, b) vectorized_fmod(a, b, math_far)
#endif
