// Mathematical functions of float and double for kernels on CPUs, without branches and calls, so that a loop over them becomes
// vector instructions: of the builtin ones compilers there have exp and tanh so, more slowly, and call the others element by
// element. Errors are 1 to 3 units in the last place, of erfc 5 (tests/test_math_cpu.cpp).
//
// They are written once for both types, of the parts that math_cpu_float.cl and math_cpu_double.cl have.

#include "lib/math_cpu_double.cl"

// `value` is the logarithm of a positive finite x.
#define LOGARITHMS(R)                                                                                          \
  OVERLOADED R log_of(R x, R value) {                                                                          \
    return x > 0 ? (x < INFINITY ? value : x) : x == 0 ? -INFINITY : NAN;                                      \
  }                                                                                                            \
  OVERLOADED R vectorized_log(R x) {                                                                           \
    R m;                                                                                                       \
    const R e = log_parts(x, &m);                                                                              \
    return log_of(x, fma(e, LN2_##R, m + fma(e, LN2_REST_##R, log_rest(m))));                                  \
  }                                                                                                            \
  OVERLOADED R vectorized_log2(R x) {                                                                          \
    R m;                                                                                                       \
    const R e = log_parts(x, &m);                                                                              \
    return log_of(x, e + fma(m, (R)1.4375f, fma(log_rest(m), LOG2E_##R, m * LOG2E_LOW_##R)));                  \
  }                                                                                                            \
  OVERLOADED R vectorized_log10(R x) {                                                                         \
    return vectorized_log(x) * LOG10E_##R;                                                                     \
  }                                                                                                            \
  OVERLOADED R vectorized_log1p(R x) {                                                                         \
    const R u = 1 + x, value = vectorized_log(u) + (x - (u - 1)) / u;                                          \
    return u == 1 ? x : x == INFINITY || u == 0 ? vectorized_log(u) : value;                                   \
  }

// exp_of: exp(r) 2^k.
#define EXPONENTIALS(R)                                                                                        \
  OVERLOADED R exp_of(R r, R k) {                                                                              \
    R rest;                                                                                                    \
    const R scale = power_of_two(k, &rest);                                                                    \
    return fma(r, fma(r, fma(r, exp_tail(r), (R)0.5f), (R)1), (R)1) * scale * rest;                            \
  }                                                                                                            \
  OVERLOADED R vectorized_exp(R x) {                                                                           \
    const R near = x > EXP_MOST_##R ? EXP_MOST_##R : x < EXP_LEAST_##R ? EXP_LEAST_##R : x;                    \
    const R k = nearest(near * LOG2E_##R);                                                                     \
    return exp_of(fma(k, -LN2_REST_##R, fma(k, -LN2_##R, near)), k);                                           \
  }                                                                                                            \
  OVERLOADED R vectorized_exp2(R x) {                                                                          \
    const R near = x > EXP2_MOST_##R ? EXP2_MOST_##R : x < -EXP2_MOST_##R ? -EXP2_MOST_##R : x;                \
    const R k = nearest(near);                                                                                 \
    return exp_of((near - k) * LN2_##R, k);                                                                    \
  }                                                                                                            \
  OVERLOADED R vectorized_expm1(R x) {                                                                         \
    const R near = x * fma(x, fma(x, exp_tail(x), (R)0.5f), (R)1), far = vectorized_exp(x) - 1;                \
    return fabs(x) < (R)0.5f ? near : far;                                                                     \
  }

#define ERRORS(R)                                                                                              \
  OVERLOADED R erfc_far(R given) {                                                                             \
    const R a = given > ERFC_LEAST_##R ? ERFC_LEAST_##R : given, square = a * a, rest = fma(a, a, -square);    \
    const R k = nearest(square * -LOG2E_##R), r = fma(k, -LN2_REST_##R, fma(k, -LN2_##R, -square)) - rest;     \
    return exp_of(r, k) * erfc_factor(a);                                                                      \
  }                                                                                                            \
  OVERLOADED R vectorized_erf(R x) {                                                                           \
    const R a = fabs(x), near = erf_near(x), far = vectorized_copysign(1 - erfc_far(a), x);                    \
    return a < 1 ? near : far;                                                                                 \
  }                                                                                                            \
  OVERLOADED R vectorized_erfc(R x) {                                                                          \
    const R a = fabs(x), far = erfc_far(a);                                                                    \
    return a < (R)0.5f ? 1 - erf_near(x) : x < 0 ? 2 - far : far;                                              \
  }

#define HYPERBOLIC(R)                                                                                          \
  OVERLOADED R vectorized_tanh(R x) {                                                                          \
    const R a = fabs(x), t = vectorized_expm1(a > 20 ? 40 : 2 * a);                                            \
    return x != x ? x : vectorized_copysign(t / (t + 2), x);                                                   \
  }                                                                                                            \
  OVERLOADED R vectorized_sinh(R x) {                                                                          \
    const R a = fabs(x), t = vectorized_expm1(a), root = vectorized_exp(a * (R)0.5f);                          \
    return vectorized_copysign(a > 20 ? (R)0.5f * root * root : (R)0.5f * (t + t / (t + 1)), x);               \
  }                                                                                                            \
  OVERLOADED R vectorized_cosh(R x) {                                                                          \
    const R a = fabs(x), e = vectorized_exp(a), root = vectorized_exp(a * (R)0.5f);                            \
    return a > 20 ? (R)0.5f * root * root : (R)0.5f * (e + 1 / e);                                             \
  }                                                                                                            \
  OVERLOADED R vectorized_asinh(R x) {                                                                         \
    const R a = fabs(x), square = a * a;                                                                       \
    const R near = vectorized_log1p(a + square / (1 + sqrt(square + 1)));                                      \
    return vectorized_copysign(a > LARGE_##R ? vectorized_log(a) + LN2_##R : near, x);                         \
  }                                                                                                            \
  OVERLOADED R vectorized_acosh(R x) {                                                                         \
    const R t = x - 1, near = vectorized_log1p(t + sqrt(t * (2 + t)));                                         \
    return x < 1 ? NAN : x > LARGE_##R ? vectorized_log(x) + LN2_##R : near;                                   \
  }                                                                                                            \
  OVERLOADED R vectorized_atanh(R x) {                                                                         \
    const R a = fabs(x);                                                                                       \
    return vectorized_copysign((R)0.5f * vectorized_log1p(2 * a / (1 - a)), a > 1 ? NAN : x);                  \
  }

// less_than_quarter: pi / 2 - angle. Beyond 1/2, asin and acos go by the half angle.
#define ARCS(R)                                                                                                \
  OVERLOADED R less_than_quarter(R angle) {                                                                    \
    return (R)0.5f * PI_##R - (angle - (R)0.5f * PI_REST_##R);                                                 \
  }                                                                                                            \
  OVERLOADED R atan_near(R z) {                                                                                \
    const R w = z * z;                                                                                         \
    return fma(atan_tail(w), w * z, z);                                                                        \
  }                                                                                                            \
  OVERLOADED R vectorized_atan(R x) {                                                                          \
    const R a = fabs(x), near = atan_near(a > 1 ? 1 / a : a);                                                  \
    return vectorized_copysign(a > 1 ? less_than_quarter(near) : near, x);                                     \
  }                                                                                                            \
  OVERLOADED R vectorized_atan2(R y, R x) {                                                                    \
    const R a = fabs(y), b = fabs(x), most = a > b ? a : b, least = a > b ? b : a;                             \
    const R near = atan_near(most == 0 ? 0 : least == INFINITY ? 1 : least / most);                            \
    const R steep = a > b ? less_than_quarter(near) : near;                                                    \
    const R angle = has_sign(x) ? PI_##R - (steep - PI_REST_##R) : steep;                                      \
    return x != x || y != y ? NAN : vectorized_copysign(angle, y);                                             \
  }                                                                                                            \
  OVERLOADED R vectorized_asin(R x) {                                                                          \
    const R a = fabs(x), half_square = (R)0.5f * (1 - a), root = sqrt(half_square);                            \
    const R w = a > (R)0.5f ? half_square : a * a, r = a > (R)0.5f ? root : a;                                 \
    const R near = fma(r * w, asin_tail(w), r);                                                                \
    return vectorized_copysign(a > (R)0.5f ? less_than_quarter(2 * near) : near, x);                           \
  }                                                                                                            \
  OVERLOADED R vectorized_acos(R x) {                                                                          \
    const R a = fabs(x), half_square = (R)0.5f * (1 - a), root = sqrt(half_square);                            \
    const R w = a > (R)0.5f ? half_square : a * a, r = a > (R)0.5f ? root : x;                                 \
    const R near = fma(r * w, asin_tail(w), r);                                                                \
    const R far = x < 0 ? PI_##R - fma((R)2, near, -PI_REST_##R) : 2 * near;                                   \
    return a > (R)0.5f ? far : less_than_quarter(near);                                                        \
  }

#define FUNCTIONS(R) LOGARITHMS(R) EXPONENTIALS(R) ERRORS(R) HYPERBOLIC(R) ARCS(R)
FUNCTIONS(float)

#ifdef cl_khr_fp64
FUNCTIONS(double)

// a^b, if |a|^b is `size`.
#define SIGNED_POWER(R)                                                                                        \
  OVERLOADED R signed_power(R a, R b, R size) {                                                                \
    const R half_way = b * (R)0.5f, whole = trunc(b), whole_half = trunc(half_way);                            \
    const bool is_whole = whole == b, odd = is_whole & (whole_half != half_way);                               \
    const R result = has_sign(a) && odd ? -size : size;                                                        \
    return b == 0 || a == 1                        ? 1                                                         \
           : a != a || b != b                      ? NAN                                                       \
           : a < 0 && a > -INFINITY && !is_whole ? NAN                                                         \
                                                   : result;                                                   \
  }
SIGNED_POWER(float)
SIGNED_POWER(double)

// For float in double, whose numbers have room for what float's lose: log2|a| b may be 127, and its error counts as many times.
OVERLOADED float vectorized_hypot(float a, float b) {
  const double x = a, y = b;
  const float root = (float)sqrt(x * x + y * y);
  return fabs(a) == INFINITY || fabs(b) == INFINITY ? INFINITY : root;
}
OVERLOADED float vectorized_pow(float a, float b) {
  // log2(m 2^e) with m between the roots of 1/2 and 2, by the series of atanh. (log_parts would look for denormals
  // too, which no float is in double: a tenth of the time.)
  const double x = fabs(a);
  const long bits = as_long(x), e = (bits - 0x3fe6a09e667f3bcdL) >> 52;
  const double m = as_double(bits - (e << 52)), s = (m - 1) / (m + 1), w = s * s;
  const double high = fma(fma(fma(1.0 / 15, w, 1.0 / 13), w, 1.0 / 11), w, 1.0 / 9);
  const double series = fma(fma(fma(fma(high, w, 1.0 / 7), w, 1.0 / 5), w, 1.0 / 3), w, 1.0) * s * 2.8853900817779268;
  const double log2_x = x == 0 ? -INFINITY : x == INFINITY ? INFINITY : series + (double)e;
  // 2^y, y cut off where floats end.
  const double whole_y = x == 1 ? 0 : log2_x * b, y = whole_y > 200 ? 200 : whole_y < -200 ? -200 : whole_y;
  const double k = nearest(y), f = (y - k) * 0.69314718055994531;
  const double tail = fma(fma(fma(fma(f, 1.0 / 362880, 1.0 / 40320), f, 1.0 / 5040), f, 1.0 / 720), f, 1.0 / 120);
  const double power = fma(fma(fma(fma(fma(tail, f, 1.0 / 24), f, 1.0 / 6), f, 0.5), f, 1.0), f, 1.0);
  return signed_power(a, b, (float)(power * as_double(((long)k + 1023) << 52)));
}

// As the larger times a root of at most 2: squares might overflow.
OVERLOADED double vectorized_hypot(double a, double b) {
  const double x = fabs(a), y = fabs(b), most = x > y ? x : y, least = x > y ? y : x;
  const double share = most > 0 ? least / most : 0, root = most * sqrt(fma(share, share, 1.0));
  return x == INFINITY || y == INFINITY ? INFINITY : x != x || y != y ? NAN : root;
}
// By pairs of numbers, of which the second holds what the first one's rounding lost.
OVERLOADED double vectorized_pow(double a, double b) {
  // log|a| = e log(2) + 2 s + 2/3 s^3 + s^5 P(s^2), s = m / (2 + m).
  double m;
  const double x = fabs(a), e = log_parts(x, &m), below = 2 + m, below_low = m - (below - 2);
  const double s = m / below, s_low = (fma(-s, below, m) - s * below_low) / below;
  const double w = s * s, w_low = fma(s, s, -w) + 2 * s * s_low;
  const double cube = s * w, cube_low = fma(s, w, -cube) + fma(s, w_low, s_low * w);
  const double high = NEXT_5(0.11723051028097753, w, 0.11706248540922386, 0.13334804238225345, 0.15384594970895457,
                             0.18181818335314404, 0.22222222221656232);
  const double p = w * fma(fma(high, w, 0.28571428571429364), w, 0.4);
  const double two_thirds = 0.6666666666666666, third = cube * two_thirds;
  const double third_low = fma(cube, two_thirds, -third) + fma(cube, p + 3.700743415417188e-17, cube_low * two_thirds);
  const double wholes = e * 0.6931471804855391;  // exact, as the factor has 33 bits
  const double two = wholes + 2 * s, two_low = (wholes - two) + 2 * s;
  const double log_x = two + third;
  const double log_low = (two - log_x) + third + two_low + fma(e, 7.440617110012397e-11, fma(2.0, s_low, third_low));
  // exp(b log|a|), where it is neither 0 nor infinite.
  const double y = x == 1 ? 0 : b * (x == 0 ? -INFINITY : x == INFINITY ? INFINITY : log_x);
  const double y_low = fma(b, log_x, -y) + b * log_low, near = y > 800 ? 800 : y < -800 ? -800 : y;
  const double k = nearest(near * LOG2E_double);
  const bool within = (near == y) & (x != 1);  // (of fabs(y) < 800 the compiler ends that does not like calls behind a select)
  const double r = fma(k, -LN2_REST_double, fma(k, -LN2_double, near)) + (within ? y_low : 0);
  return signed_power(a, b, exp_of(r, k));
}
#undef hypot
#undef pow
#define hypot vectorized_hypot
#define pow vectorized_pow
#endif

// They are macros already with some compilers.
#undef copysign
#undef exp
#undef tanh
#undef log
#undef log2
#undef log10
#undef log1p
#undef expm1
#undef exp2
#undef erf
#undef erfc
#undef sinh
#undef cosh
#undef asinh
#undef acosh
#undef atanh
#undef acos
#undef asin
#undef atan2
#undef atan
#define copysign vectorized_copysign
#define exp vectorized_exp
#define tanh vectorized_tanh
#define log vectorized_log
#define log2 vectorized_log2
#define log10 vectorized_log10
#define log1p vectorized_log1p
#define expm1 vectorized_expm1
#define exp2 vectorized_exp2
#define erf vectorized_erf
#define erfc vectorized_erfc
#define sinh vectorized_sinh
#define cosh vectorized_cosh
#define asinh vectorized_asinh
#define acosh vectorized_acosh
#define atanh vectorized_atanh
#define atan vectorized_atan
#define atan2 vectorized_atan2
#define asin vectorized_asin
#define acos vectorized_acos
