// The modified Bessel functions of the first kind, I0 and I1, times exp(-|x|), for expressions of generated kernels that name one
// (BESSEL). Numbers in comments are of the NIST Digital Library of Mathematical Functions. REAL: float, or double with DOUBLE_REAL.

#if defined(BESSEL) && !defined(INTEGER_REAL)
#ifndef REAL
#define REAL float
#endif
// Up to FAR by the power series, 10.25.2, whose terms all have one sign; beyond by the expansion for large x, 10.40.1, whose smallest
// term, of about exp(-2 FAR), comes after the ones taken.
#ifdef DOUBLE_REAL
#define FAR 20
#define NEAR_TERMS 40
#define FAR_TERMS 30
#else
#define FAR 9
#define NEAR_TERMS 19
#define FAR_TERMS 13
#endif

static __attribute__((always_inline)) REAL scaled_bessel_i(int order, REAL given) {
  const REAL x = fabs(given), quarter = x * x / 4;
  REAL near = 1, term = 1;
#pragma unroll
  for (int k = 1; k < NEAR_TERMS; k++) {
    term *= quarter * ((REAL)1 / (REAL)(k * (k + order)));
    near += term;
  }
  near *= (order ? x / 2 : 1) * exp(-x);
  const REAL inverse = 1 / (8 * x);
  REAL far = 1;
  term = 1;
#pragma unroll
  for (int k = 1; k < FAR_TERMS; k++) {
    term *= inverse * ((REAL)((2 * k - 1) * (2 * k - 1) - 4 * order * order) / (REAL)k);
    far += term;
  }
  far *= rsqrt(x) * (REAL)0.39894228040143268;  // 1 / sqrt(2 pi)
  const REAL y = x < FAR ? near : x == INFINITY ? 0 : far;
  return order ? copysign(y, given) : y;
}

// With NaN for NaN, in both: the comparison above lets it through to `far`.
static __attribute__((always_inline)) REAL bessel_i0e(REAL x) {
  return scaled_bessel_i(0, x);
}
static __attribute__((always_inline)) REAL bessel_i1e(REAL x) {
  return scaled_bessel_i(1, x);
}
// exp(|x| / 2) twice: exp(|x|) is infinite a little before the product is.
static __attribute__((always_inline)) REAL bessel_i0(REAL x) {
  const REAL e = exp(fabs(x) / 2);
  return fabs(x) == INFINITY ? INFINITY : scaled_bessel_i(0, x) * e * e;
}
static __attribute__((always_inline)) REAL bessel_i1(REAL x) {
  const REAL e = exp(fabs(x) / 2);
  return fabs(x) == INFINITY ? x : scaled_bessel_i(1, x) * e * e;
}
#undef FAR
#endif
