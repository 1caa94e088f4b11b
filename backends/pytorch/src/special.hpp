// Statements of special functions that the list's lines would not hold: each leaves its result in `value`.
// `real` is float, or double where a tensor is f64.
#pragma once

namespace ocl::special {

/// scaled = exp(t^2) erfc(t) of `t`, 0 or more: by erfc where the factor is moderate, with what t^2 lost by
/// rounding; else by the continued fraction, which has all digits after so many steps.
#define OCL_SCALED_ERFC                                                                     \
  "real scaled = t; "                                                                       \
  "if (t < 2) { "                                                                           \
  "  const real square = t * t; "                                                           \
  "  scaled = exp(square) * (1 + fma(t, t, -square)) * erfc(t); "                           \
  "} else { "                                                                               \
  "  for (int k = sizeof(real) == 8 ? 50 : 20; k > 0; k--) scaled = t + k / (2 * scaled); " \
  "  scaled = (real)0.56418958354775629 / scaled; "                                         \
  "} "

constexpr const char kErfcx[] = "const real t = fabs((real)x); " OCL_SCALED_ERFC
                                "real value = scaled; "
                                "if (x < 0) { "
                                "  const real square = t * t, lost = square < 1000 ? fma(t, t, -square) : 0; "
                                "  value = 2 * exp(square) * (1 + lost) - scaled; "
                                "}";

constexpr const char kLogNdtr[] = "const real t = fabs((real)x) * (real)0.70710678118654752; " OCL_SCALED_ERFC
                                  "const real value = x < 0 ? log(scaled / 2) - t * t : log1p(-erfc(t) / 2)";

/// In the tails by Newton's method on the logarithm, which is concave: from a guess below no step leads
/// astray.
constexpr const char kNdtri[] =
    "const real q = x > (real)0.5 ? 1 - x : x; "
    "real value; "
    "if (!(x >= 0 && x <= 1)) value = NAN; "
    "else if (q == 0) value = -INFINITY; "
    "else if (q > (real)0.05) value = (real)1.4142135623730951 * erf_inverse(2 * q - 1); "
    "else { "
    "  real t = sqrt(-log(q)); "
    "  for (int step = 0; step < 6; step++) { " OCL_SCALED_ERFC
    "    t += (log(scaled / 2) - t * t - log(q)) * scaled * (real)0.88622692545275801; "
    "  } "
    "  value = -(real)1.4142135623730951 * t; "
    "} "
    "if (x > (real)0.5) value = -value";

/// power = b^a exp(-b) / Gamma(a + 1): of a large a by Stirling's series, as a and b nearly cancel.
#define OCL_GAMMA_POWER                                                                         \
  "const real u = (b - a) / a; "                                                                \
  "real power; "                                                                                \
  "if (a < 12) power = exp(a * log((real)b) - b - lgamma(a + (real)1)); "                       \
  "else { "                                                                                     \
  "  real away = u - log1p(u); "                                                                \
  "  if (fabs(u) < (real)0.3) { "                                                               \
  "    real term = u * u; "                                                                     \
  "    away = 0; "                                                                              \
  "    for (int n = 2; n < 40; n++, term *= -u) away += term / n; "                             \
  "  } "                                                                                        \
  "  const real r = 1 / (a * a); "                                                              \
  "  power = exp(-a * away - ((real)0.083333333333333333 - r * ((real)0.0027777777777777778 - " \
  "    r * ((real)0.00079365079365079365 - r * (real)0.00059523809523809524))) / a) / "         \
  "    sqrt((real)6.2831853071795865 * a); "                                                    \
  "} "

/// `upper` = 1 - `lower`, the incomplete gamma functions divided by Gamma(a): the series for small b, for
/// others the continued fraction by Lentz's method.
#define OCL_INCOMPLETE_GAMMA                                                                              \
  "real lower, upper; "                                                                                   \
  "if (!(a >= 0 && b >= 0) || (a == 0 && b == 0) || (a == INFINITY && b == INFINITY)) "                   \
  "  lower = upper = NAN; "                                                                               \
  "else if (a == 0 || b == INFINITY) { lower = 1; upper = 0; } "                                          \
  "else if (b == 0 || a == INFINITY) { lower = 0; upper = 1; } "                                          \
  "else { "                                                                                               \
  "  const real epsilon = sizeof(real) == 8 ? (real)2.2e-16 : (real)1.2e-7; " OCL_GAMMA_POWER             \
  "  if (b <= a + 1) { "                                                                                  \
  "    real term = 1, sum = 1; "                                                                          \
  "    for (int n = 1; n < 5000 && term > sum * epsilon / 8; n++) { term *= b / (a + n); sum += term; } " \
  "    lower = power * sum; "                                                                             \
  "    upper = 1 - lower; "                                                                               \
  "  } else { "                                                                                           \
  "    real v = b + 1 - a, c = (real)1e30, d = 1 / v, product = d, factor = 0; "                          \
  "    for (int n = 1; n < 5000 && !(fabs(factor - 1) <= epsilon); n++) { "                               \
  "      const real w = n * (a - n); "                                                                    \
  "      v += 2; "                                                                                        \
  "      d = w * d + v; "                                                                                 \
  "      c = v + w / c; "                                                                                 \
  "      d = 1 / (fabs(d) < (real)1e-30 ? (real)1e-30 : d); "                                             \
  "      c = fabs(c) < (real)1e-30 ? (real)1e-30 : c; "                                                   \
  "      factor = c * d; "                                                                                \
  "      product *= factor; "                                                                             \
  "    } "                                                                                                \
  "    upper = power * a * product; "                                                                     \
  "    lower = 1 - upper; "                                                                               \
  "  } "                                                                                                  \
  "} "

constexpr const char kIgamma[] = OCL_INCOMPLETE_GAMMA "const real value = lower";
constexpr const char kIgammac[] = OCL_INCOMPLETE_GAMMA "const real value = upper";

/// Without signs: no quotient overflows, which ends a process on some CPUs.
#define OCL_DIVISOR                                                                        \
  "const ulong m = a < 0 ? 0 - (ulong)a : (ulong)a, n = b < 0 ? 0 - (ulong)b : (ulong)b; " \
  "ulong divisor = m, rest = n; "                                                          \
  "while (rest != 0) { const ulong next = divisor % rest; divisor = rest; rest = next; } "

constexpr const char kGcd[] = OCL_DIVISOR "const long value = (long)divisor";
constexpr const char kLcm[] = OCL_DIVISOR
    "long value = divisor == 0 ? 0 : (long)(m / divisor * n); "
    "value = value < 0 ? -value : value";

/// Of floating numbers' bits as integers, which count them from the lowest to the highest: p those of
/// infinity, q all but the sign.
constexpr const char kNextAfter[] =
    "const long from = a < 0 ? -(a & q) : a, to = b < 0 ? -(b & q) : b, next = from < to ? from + 1 : from - "
    "1; "
    "const long value = (a & q) > p ? a : (b & q) > p || from == to ? b "
    "  : next < 0 || (next == 0 && a < 0) ? -next | ~q : next";

#undef OCL_SCALED_ERFC
#undef OCL_GAMMA_POWER
#undef OCL_INCOMPLETE_GAMMA
#undef OCL_DIVISOR

}  // namespace ocl::special
