// For activations and expressions of generated kernels. REAL: float, double with DOUBLE_REAL, or a vector of them.

#ifndef REAL
#define REAL float
#endif

#ifndef INTEGER_REAL
// The normal distribution's function, of v and e = exp(-v * v / 2): with a = |v| it is e t Q(t) at -a, where t is
// 1 / (1 + 0.35 a) and Q a least-squares fit, weighted so that the largest relative error is smallest, 3.2e-8.
static __attribute__((always_inline)) REAL normal_cdf(REAL v, REAL e) {
#ifdef DOUBLE_REAL
  return erfc(v * -0.70710678118654752) / 2;
#else
  const REAL d = fma(fmin(fabs(v), (REAL)15), (REAL)0.35f, (REAL)1), guess = native_recip(d);
  const REAL t = fma(guess, fma(-d, guess, (REAL)1), guess);
  REAL q = fma(t, (REAL)-0.0291580297f, (REAL)0.144031614f);
  q = fma(fma(q, t, (REAL)-0.255840391f), t, (REAL)0.159321249f);
  q = fma(fma(q, t, (REAL)-0.0232133921f), t, (REAL)0.105552927f);
  q = fma(fma(q, t, (REAL)0.119821183f), t, (REAL)0.139863536f);
  const REAL tail = fma(q, t, (REAL)0.139621302f) * t * e;
  return v > 0 ? 1 - tail : tail;
#endif
}
#endif
