// Orthogonal polynomials of any degree n, for expressions of generated kernels that name one (ORTHOGONAL): by the recurrences of the
// NIST Digital Library of Mathematical Functions, 18.9; those of Chebyshev, whose rounding errors the recurrence carries along, by
// their closed forms, 18.5, from degree 7 on and inside of (-1, 1). Below degree 0 all are 0. REAL: float, or double with DOUBLE_REAL.

#if defined(ORTHOGONAL) && !defined(INTEGER_REAL)
#ifndef REAL
#define REAL float
#endif
#define POLYNOMIAL static __attribute__((always_inline)) REAL

// p[0] = 1, p[1] = `first`, p[k + 1] = ((a1 k + a0) x + c1 k + c0) p[k] / (d k + 1) - (b1 k + b0) p[k - 1] / (d k + 1)
POLYNOMIAL by_recurrence(REAL x, REAL degree, REAL first, REAL a1, REAL a0, REAL c1, REAL c0, REAL b1, REAL b0, REAL d) {
  REAL before = 1, here = first;
  for (REAL k = 1; k < degree && here == here; k += 1) {
    const REAL next = (((a1 * k + a0) * x + c1 * k + c0) * here - (b1 * k + b0) * before) / (d * k + 1);
    before = here;
    here = next;
  }
  return degree < 0 ? 0 : degree < 1 ? 1 : here;
}
// All four of Chebyshev's have p[k + 1] = 2 x p[k] - p[k - 1].
POLYNOMIAL chebyshev(REAL x, REAL degree, REAL first) {
  return by_recurrence(x, degree, first, 0, 2, 0, 0, 0, 1, 0);
}
static int closed_form(REAL x, REAL degree) {
  return degree > 6 && fabs(x) < 1;
}

POLYNOMIAL chebyshev_t(REAL x, REAL n) {
  n = trunc(n);
  return closed_form(x, n) ? cos(n * acos(x)) : chebyshev(x, n, x);
}
POLYNOMIAL chebyshev_u(REAL x, REAL n) {
  n = trunc(n);
  const REAL angle = acos(x), sine = sin(angle);
  return closed_form(x, n) && sine != 0 ? sin((n + 1) * angle) / sine : chebyshev(x, n, 2 * x);
}
POLYNOMIAL chebyshev_v(REAL x, REAL n) {
  n = trunc(n);
  const REAL angle = acos(x), half_cosine = cos(angle / 2);
  return closed_form(x, n) && half_cosine != 0 ? cos((n + (REAL)0.5) * angle) / half_cosine : chebyshev(x, n, 2 * x - 1);
}
POLYNOMIAL chebyshev_w(REAL x, REAL n) {
  n = trunc(n);
  const REAL angle = acos(x), half_sine = sin(angle / 2);
  return closed_form(x, n) && half_sine != 0 ? sin((n + (REAL)0.5) * angle) / half_sine : chebyshev(x, n, 2 * x + 1);
}
POLYNOMIAL hermite_h(REAL x, REAL n) {  // the physicists'
  return by_recurrence(x, trunc(n), 2 * x, 0, 2, 0, 0, 2, 0, 0);
}
POLYNOMIAL hermite_he(REAL x, REAL n) {  // the probabilists'
  return by_recurrence(x, trunc(n), x, 0, 1, 0, 0, 1, 0, 0);
}
POLYNOMIAL laguerre_l(REAL x, REAL n) {
  return by_recurrence(x, trunc(n), 1 - x, 0, -1, 2, 1, 1, 0, 1);
}
POLYNOMIAL legendre_p(REAL x, REAL n) {
  return by_recurrence(x, trunc(n), x, 2, 1, 0, 0, 1, 0, 1);
}
#endif
