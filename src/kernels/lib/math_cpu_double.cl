// What math_cpu.cl makes its functions of, for double: see math_cpu_float.cl.
#include "lib/math_cpu_float.cl"

#ifdef cl_khr_fp64
// fma(.. fma(fma(p, x, a), x, b) .., x, e)
#define NEXT_3(p, x, a, b, c) fma(fma(fma(p, x, a), x, b), x, c)
#define NEXT_5(p, x, a, b, c, d, e) fma(fma(NEXT_3(p, x, a, b, c), x, d), x, e)

#define LN2_double 0.6931471805599453
#define LN2_REST_double 2.3190468138462996e-17
#define LOG2E_double 1.4426950408889634
#define LOG2E_LOW_double 0.005195040888963407
#define LOG10E_double 0.4342944819032518
#define PI_double 3.141592653589793
#define PI_REST_double 1.2246467991473532e-16
#define EXP_LEAST_double -746.0
#define EXP_MOST_double 710.0
#define EXP2_MOST_double 1100.0
#define LARGE_double 1e9

OVERLOADED bool has_sign(double x) {
  return as_long(x) < 0;
}
OVERLOADED double vectorized_copysign(double size, double sign) {
  return as_double((as_ulong(size) & 0x7fffffffffffffffUL) | (as_ulong(sign) & 0x8000000000000000UL));
}
OVERLOADED double nearest(double v) {
  return (v + 6755399441055744.0) - 6755399441055744.0;
}

OVERLOADED double log_parts(double x, double* m) {
  const bool denormal = x < 2.2250738585072014e-308;
  const ulong bits = as_ulong(denormal ? x * 18014398509481984.0 : x);
  const int e = (int)((bits - 0x3fe6a09e667f3bcdUL) >> 32) >> 20;
  *m = as_double(bits - ((ulong)(uint)e << 52)) - 1.0;
  return (double)(e - (denormal ? 54 : 0));
}
// By the series of atanh: with s = m / (2 + m), log(1 + m) = 2 s + s w P(w), w = s^2.
OVERLOADED double log_rest(double m) {
  const double s = m / (2 + m), w = s * s, half_square = 0.5 * m * m;
  const double p = NEXT_3(NEXT_3(0.14616449685043406, w, 0.15331721600556042, 0.18182889125261723, 0.2222221113479508), w,
                          0.28571428625975487, 0.39999999999899505, 0.666666666666667);
  return fma(s, fma(w, p, half_square), -half_square);
}

OVERLOADED double exp_tail(double r) {
  const double high = NEXT_5(1.6111702739215268e-10, r, 2.0955762289494408e-09, 2.5051976670128072e-08,
                             2.755712159501279e-07, 2.755731936808379e-06, 2.480158751780227e-05);
  return NEXT_5(high, r, 0.00019841269841205505, 0.0013888888888792352, 0.008333333333333342, 0.04166666666666679,
                0.16666666666666666);
}
// k up to 2000; a number's last bits with 1.5 2^52 added are it as an integer.
OVERLOADED double power_of_two(double k, double* rest) {
  const double half_way = nearest(k * 0.5);
  *rest = as_double(as_ulong(k - half_way + 6755399441056767.0) << 52);
  return as_double(as_ulong(half_way + 6755399441056767.0) << 52);
}

OVERLOADED double erf_near(double x) {
  const double z = x * x;
  const double high = NEXT_5(5.957176147748911e-11, z, -1.1372848856791674e-09, 1.4659775274047436e-08,
                             -1.6350312701054695e-07, 1.6461000484121368e-06, -1.4925595266831182e-05);
  const double middle = NEXT_5(high, z, 0.0001205533111164271, -0.000854832698083379, 0.0052239776248180145,
                               -0.026866170645076792, 0.11283791670954879);
  return x * fma(fma(middle, z, -0.3761263890318375), z, 1.1283791670955126);
}
// In (a - 3.5) / (a + 3.5).
OVERLOADED double erfc_factor(double a) {
  const double u = (a - 3.5) / (a + 3.5);
  const double high = NEXT_5(1.063645026181239e-08, u, 4.4841679959169864e-10, -9.374392136109307e-08,
                             -7.60408627100785e-09, 6.011153363728984e-07, -4.459108738087817e-08);
  const double more = NEXT_5(high, u, -3.8151045188046065e-06, 2.328514436835195e-06, 2.4261268559789164e-05,
                             -4.278230118231056e-05, -0.00012151252132670301);
  const double middle = NEXT_5(more, u, 0.0005643844322430686, -0.00030226785886742645, -0.0042150199096542,
                               0.019099330940367382, -0.0488233258277597);
  const double low = NEXT_5(middle, u, 0.08798315382498609, -0.11508959816019768, 0.09751909515325538,
                            -0.010555596332218198, -0.1400091801376194);
  return fma(low, u, 1.2423492448711544) / fma(2.0, a, 1.0);
}
#define ERFC_LEAST_double 27.3

OVERLOADED double atan_tail(double w) {
  const double high = NEXT_5(1.806195461861215e-05, w, -0.00019996189377901382, 0.0010496035084968515,
                             -0.0034958859739163094, 0.008368931178450162, -0.015535152475414177);
  const double middle = NEXT_5(high, w, 0.023696731580048622, -0.031277189066996385, 0.03749486812535247,
                               -0.04260356632601652, 0.04737749579527779);
  const double low = NEXT_5(middle, w, -0.052579733342841106, 0.05881506877793656, -0.06666564699289104,
                            0.07692298971033217, -0.09090908590891934);
  return fma(NEXT_3(low, w, 0.11111111093490827, -0.14285714285384132, 0.1999999999999753), w, -0.3333333333333333);
}
OVERLOADED double asin_tail(double w) {
  const double high = NEXT_5(0.028757851367421566, w, -0.014851887071247204, 0.01740087944269402, 0.005457506718640358,
                             0.01032281435018578, 0.011479177415184906);
  const double middle = NEXT_5(high, w, 0.013971212973552933, 0.017352392720869973, 0.02237217294214989,
                               0.030381944138531247, 0.04464285714635543);
  return fma(fma(middle, w, 0.07499999999998433), w, 0.16666666666666669);
}
#endif
