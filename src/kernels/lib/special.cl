// The gamma function's logarithm, its derivatives, Hurwitz' zeta function, and the error function's inverse, for expressions of
// generated kernels that name one (SPECIAL). REAL: float, or double with DOUBLE_REAL. Errors, relative to 1 + |y|, are a few units in
// the last place (tests/test_elementwise.cpp). Numbers in formulas' names are those of the NIST Digital Library of Mathematical
// Functions.

#include "lib/bessel.cl"
#include "lib/orthogonal.cl"

#if defined(SPECIAL) && !defined(INTEGER_REAL)
#ifndef REAL
#define REAL float
#endif
#define SPECIAL_FUNCTION static __attribute__((always_inline)) REAL
#define NEXT(c) p = fma(p, v, (REAL)(c));

// log(gamma(2 + v)) for |v| <= 1/2: v (1 - Euler's constant) + the sum of (-v)^k (zeta(k) - 1) / k, 5.7.3.
SPECIAL_FUNCTION log_gamma_beside_two(REAL v) {
  REAL p = 0;
#ifdef DOUBLE_REAL
  NEXT(-6.42296456383810002e-11) NEXT(1.33047643742444895e-10) NEXT(-2.75952288512423315e-10)
  NEXT(5.73136724167886201e-10) NEXT(-1.19214014058609121e-9) NEXT(2.48367454380247832e-9)
  NEXT(-5.18347504197004666e-9) NEXT(1.08386592148969541e-8) NEXT(-2.27110946089431649e-8)
  NEXT(4.76981016936398057e-8) NEXT(-1.00432248239680996e-7) NEXT(2.12071848055546659e-7)
  NEXT(-4.49246919876456604e-7) NEXT(9.55141213040741983e-7) NEXT(-2.03921575380136624e-6)
  NEXT(4.37486678990748780e-6) NEXT(-9.43948827526839590e-6)
#endif
  NEXT(0.0000205072127756706916) NEXT(-0.0000449262367381331417) NEXT(0.0000994575127818085337)
  NEXT(-0.000223154758453579380) NEXT(0.000509669524743042422) NEXT(-0.00119275391170326098)
  NEXT(0.00289051033074152329) NEXT(-0.00738555102867398527) NEXT(0.0205808084277845479) NEXT(-0.0673523010531980951)
  NEXT(0.322467033424113218) NEXT(0.422784335098467139)
  return p * v;
}

// log(gamma(x)) for x >= 0: near 1 and 2, where it is zero, by the series, to which all below 8 is brought by
// gamma(x + 1) = x gamma(x); from 8 on by Stirling's, 5.11.1.
SPECIAL_FUNCTION log_gamma_above(REAL x) {
  const bool far = x >= 8;
  REAL near = x, product = 1;
#pragma unroll
  for (int i = 0; i < 6; i++) {
    const bool down = near >= (REAL)2.5 && !far;
    near -= down;
    product *= down ? near : 1;
  }
  const REAL shift = x < (REAL)0.5 ? x : x < (REAL)1.5 ? x - 1 : near - 2;
  const REAL logarithm = log(far || x < (REAL)0.5 ? x : product);
  const REAL series = log_gamma_beside_two(far ? 0 : shift);
  const REAL below = series - log1p(x < (REAL)1.5 ? shift : 0) + (x < (REAL)0.5 ? -logarithm : logarithm);
  const REAL v = 1 / (x * x);
  REAL p = 0;
#ifdef DOUBLE_REAL
  NEXT(-1.39243221690590112) NEXT(0.179644372368830573) NEXT(-0.0295506535947712418) NEXT(0.00641025641025641026)
  NEXT(-0.00191752691752691753) NEXT(0.000841750841750841751)
#endif
  NEXT(-0.000595238095238095238) NEXT(0.000793650793650793651) NEXT(-0.00277777777777777778)
  NEXT(0.0833333333333333333)
  return far ? (x - (REAL)0.5) * (logarithm - 1) + ((REAL)0.41893853320467274 + p / x) : below;
}

// x less the nearest whole number, exactly.
SPECIAL_FUNCTION beside_whole(REAL x) {
  return x - rint(x);
}

// sin(pi r) for |r| <= 1/2, by its series, 4.19.1.
SPECIAL_FUNCTION sine_of_turn(REAL r) {
  const REAL angle = r * (REAL)3.1415926535897932, v = angle * angle;
  REAL p = 0;
#ifdef DOUBLE_REAL
  NEXT(1.9572941063391263e-20) NEXT(-8.2206352466243295e-18) NEXT(2.8114572543455206e-15)
  NEXT(-7.6471637318198164e-13) NEXT(1.6059043836821613e-10)
#endif
  NEXT(-2.505210838544172e-08) NEXT(2.7557319223985893e-06) NEXT(-0.00019841269841269841) NEXT(0.0083333333333333332)
  NEXT(-0.16666666666666666) NEXT(1)
  return p * angle;
}

// log(|gamma(x)|), by reflection where x is negative, 5.5.3; infinity at 0, -1, -2, ...
SPECIAL_FUNCTION log_gamma(REAL x) {
  const REAL a = fabs(x), above = log_gamma_above(a), beside = beside_whole(x);
  const REAL sine = fabs(sine_of_turn(beside));
  const REAL reflected = -log(sine * (REAL)0.31830988618379067) - (log(a) + above);
  return x == 0 || x == -INFINITY || (x < 0 && beside == 0) ? INFINITY : x < 0 ? reflected : above;
}

#ifdef DOUBLE_REAL
#define STEPS_UP 10
#else
#define STEPS_UP 6
#endif

// The derivative of log_gamma: from STEPS_UP on by 5.11.2, below by 5.5.2, and of negative x by 5.5.4. Of 0 it is -infinity, of -0
// infinity, of -1, -2, ... NaN.
SPECIAL_FUNCTION digamma(REAL given) {
  REAL x = given < 0 ? 1 - given : given, sum = 0;
#pragma unroll
  for (int i = 0; i < STEPS_UP; i++) {
    const bool up = x < STEPS_UP;
    sum += up ? 1 / x : 0;
    x += up;
  }
  const REAL v = 1 / (x * x), beside = beside_whole(given);
  REAL p = 0;
#ifdef DOUBLE_REAL
  NEXT(3.05395433027011974) NEXT(-0.443259803921568627) NEXT(0.0833333333333333333) NEXT(-0.0210927960927960928)
  NEXT(0.00757575757575757576)
#endif
  NEXT(-0.00416666666666666667) NEXT(0.00396825396825396825) NEXT(-0.00833333333333333333)
  NEXT(0.0833333333333333333)
  const REAL above = log(x) - (REAL)0.5 / x - p * v - sum;
  const REAL pi = (REAL)3.1415926535897932;
  return given < 0 ? (beside == 0 ? NAN : above - pi / tan(pi * beside)) : above;
}

// The derivative of digamma, 5.15.8 and 5.15.6; infinity at 0, -1, -2, ...
SPECIAL_FUNCTION trigamma(REAL given) {
  REAL x = given < 0 ? 1 - given : given, sum = 0;
#pragma unroll
  for (int i = 0; i < STEPS_UP; i++) {
    const bool up = x < STEPS_UP;
    sum += up ? 1 / (x * x) : 0;
    x += up;
  }
  const REAL v = 1 / (x * x), pi = (REAL)3.1415926535897932, ratio = pi / sine_of_turn(beside_whole(given));
  REAL p = 0;
#ifdef DOUBLE_REAL
  NEXT(54.9711779448621554) NEXT(-7.09215686274509804) NEXT(1.16666666666666667) NEXT(-0.253113553113553114)
  NEXT(0.0757575757575757576)
#endif
  NEXT(-0.0333333333333333333) NEXT(0.0238095238095238095) NEXT(-0.0333333333333333333) NEXT(0.166666666666666667)
  const REAL above = 1 / x + v * ((REAL)0.5 + p / x) + sum;
  return given < 0 ? ratio * ratio - above : above;
}

// The y whose erf(y) is x. The ratio y / x is a polynomial of w = -log(1 - x^2), or of its root, fitted so that the largest relative
// error is smallest, 6e-9 and 1.1e-7; in double, whose tail is longer and fitted to 1.3e-6, Halley's steps follow.
SPECIAL_FUNCTION erf_inverse(REAL x) {
  const REAL a = fabs(x), w = -log((1 - a) * (1 + a));
  const bool tail = w > 5;
  REAL v = w - (REAL)2.5, p = 0;
  NEXT(-8.791172561e-09) NEXT(2.323270511e-08) NEXT(4.661722662e-07) NEXT(-3.462705505e-06) NEXT(-4.963355180e-06)
  NEXT(2.183444423e-04) NEXT(-1.252741866e-03) NEXT(-4.177386784e-03) NEXT(2.466402861e-01) NEXT(1.501409359e+00)
  const REAL central = p;
#ifdef DOUBLE_REAL
  v = sqrt(w) - 4.2002409902343825, p = 0;
  NEXT(1.704613305e-05) NEXT(-5.153645276e-05) NEXT(4.492208736e-06) NEXT(2.902715930e-05) NEXT(2.549802308e-04)
  NEXT(-7.471561377e-04) NEXT(7.918224029e-04) NEXT(1.009926985e+00) NEXT(4.041971442e+00)
#else
  v = sqrt(w) - (REAL)3.209684055085084, p = 0;
  NEXT(-1.275038601e-04) NEXT(-1.570980802e-04) NEXT(1.173778820e-03) NEXT(-2.073388738e-03) NEXT(2.805525439e-03)
  NEXT(-4.145076333e-03) NEXT(5.857742643e-03) NEXT(1.004804428e+00) NEXT(3.043366432e+00)
#endif
  REAL y = a * (tail ? p : central);
#ifdef DOUBLE_REAL
#pragma unroll
  for (int i = 0; i < 2; i++) {
    // erf(y) - a, which is (1 - a) - erfc(y): where a is near 1 that has the digits.
    const REAL over = a < (REAL)0.5 ? erf(y) - a : (1 - a) - erfc(y);
    const REAL step = over * (REAL)0.88622692545275801 * exp(y * y);
    y = a == 0 ? y : y - step / (1 + y * step);
  }
#endif
  return a < 1 ? (a < (REAL)1e-30 ? x * (REAL)0.88622692545275801 : copysign(y, x)) : a == 1 ? x * INFINITY : NAN;
}
// The sum of (q + k)^-x over k = 0, 1, ..., 25.11.1: NEAR_ZERO terms and more, until q + k is as large, then by Euler and Maclaurin,
// 25.11.7. As in PyTorch, infinite at x = 1 and where q is 0, -1, -2, ..., NaN for x < 1 and for negative q where x is not whole; NaN
// too where a million terms do not bring q above 0.
#ifdef DOUBLE_REAL
#define NEAR_ZERO 12
#else
#define NEAR_ZERO 6
#endif
SPECIAL_FUNCTION zeta(REAL x, REAL q) {
  if (x == 1) return INFINITY;
  if (!(x > 1)) return NAN;
  if (q <= 0) {
    if (q == floor(q)) return INFINITY;
    if (x != floor(x) || q < -1000000) return NAN;
  }
  REAL sum = 0;
  for (int k = 0; k < NEAR_ZERO || q < NEAR_ZERO; k++) {
    sum += pow(q, -x);
    q += 1;
  }
  // Term j is B(2j) / (2j)! x (x + 1) ... (x + 2j - 2) q^(-x - 2j + 1).
  const REAL power = pow(q, -x);
  REAL rising = x * power / q, tail = 0;
#define TERM(j, c)                                                    \
  tail += (REAL)(c) * rising;                                         \
  rising *= (x + (REAL)(2 * j - 1)) * (x + (REAL)(2 * j)) / (q * q);
  TERM(1, 0.0833333333333333333) TERM(2, -0.00138888888888888889) TERM(3, 3.30687830687830688e-5)
  TERM(4, -8.26719576719576720e-7)
#ifdef DOUBLE_REAL
  TERM(5, 2.08767569878680990e-8) TERM(6, -5.28419013868749318e-10) TERM(7, 1.33825365306846788e-11)
  TERM(8, -3.38968029632258287e-13) TERM(9, 8.58606205627784456e-15)
#endif
#undef TERM
  return sum + power * (q / (x - 1) + (REAL)0.5) + tail;
}

// The derivative number n >= 0 of digamma, 5.15.1.
SPECIAL_FUNCTION polygamma(REAL n, REAL x) {
  if (n == 0) return digamma(x);
  if (n == 1) return trigamma(x);
  const REAL value = exp(log_gamma(n + 1)) * zeta(n + 1, x);
  return fmod(n, 2) != 0 ? value : -value;
}
#endif
