// Mathematical functions of float for kernels on CPUs, without branches and calls, so that a loop over them becomes vector
// instructions: of the builtin ones compilers there have exp and tanh so, more slowly, and call the others element by element.
// double keeps the builtin ones. Errors are 1 to 3 units in the last place, of erfc 5 (tests/test_math_cpu.cpp).
//
// Polynomials are least-squares fits, weighted so that the largest error is smallest.

// A call that is left is a loop that stays scalar.
#define INLINED __attribute__((always_inline))
#define VECTORIZED __attribute__((always_inline, overloadable))
#define POLYNOMIAL_4(x, a, b, c, d, e) fma(fma(fma(fma(e, x, d), x, c), x, b), x, a)

// (log(1 + m) - m + m^2 / 2) / m^3 for 1 + m between the roots of 1/2 and 2, up to 3e-8.
float INLINED log_tail(float m) {
  const float high = fma(fma(fma(0.0733238841f, m, -0.116598651f), m, 0.116346851f), m, -0.123967109f);
  return POLYNOMIAL_4(m, 0.333333313f, -0.249999812f, 0.200006881f, -0.166691505f, 0.142511544f) +
         m * m * (m * m) * m * high;
}
// What log does, of a positive number: x = 2^*e (1 + m).
float INLINED log_parts(float x, float* m) {
  const bool denormal = x < 1.17549435e-38f;
  const uint bits = as_uint(denormal ? x * 8388608.0f : x);
  const int e = (int)(bits - 0x3f3504f3u) >> 23;
  *m = as_float(bits - ((uint)e << 23)) - 1.0f;
  return (float)(e - (denormal ? 23 : 0));
}
// `value` is the logarithm of a positive finite x.
float INLINED log_of(float x, float value) {
  return x > 0 ? (x < INFINITY ? value : x) : x == 0 ? -INFINITY : NAN;
}
float VECTORIZED vectorized_log(float x) {
  float m;
  const float e = log_parts(x, &m), small = fma(m * m, fma(m, log_tail(m), -0.5f), e * -2.12194440e-4f);
  return log_of(x, fma(e, 0.693359375f, m + small));
}
float VECTORIZED vectorized_log2(float x) {
  float m;
  const float e = log_parts(x, &m), small = m * m * fma(m, log_tail(m), -0.5f);
  // log2(e) = 1.4375 + 0.0051950409.
  return log_of(x, e + fma(m, 1.4375f, fma(small, 1.44269504f, m * 0.0051950409f)));
}
float VECTORIZED vectorized_log10(float x) {
  return vectorized_log(x) * 0.434294482f;
}
float VECTORIZED vectorized_log1p(float x) {
  const float u = 1 + x, value = vectorized_log(u) + (x - (u - 1)) / u;
  return x == INFINITY || u == 0 ? vectorized_log(u) : value;
}

// (One of the compilers for CPUs ends in a segmentation fault with some calls behind a select, or under a condition: this one's,
// and those of square roots, which are taken before they are chosen.)
float VECTORIZED vectorized_copysign(float size, float sign) {
  return as_float((as_uint(size) & 0x7fffffffu) | (as_uint(sign) & 0x80000000u));
}
// rint, of numbers up to 2^22 and 2^51: the builtin one of double is a call.
float INLINED nearest(float v) {
  return (v + 12582912.0f) - 12582912.0f;
}
// (exp(r) - 1 - r - r^2 / 2) / r^3 for r up to 1/2.
float INLINED exp_tail(float r) {
  return POLYNOMIAL_4(r, 0.166666669f, 0.0416661804f, 0.00833319286f, 0.00139666191f, 0.000199621826f);
}
// exp(r) 2^k, k a whole number from -300 to 300.
float INLINED exp_of(float r, float k) {
  const int half_way = (int)k >> 1, rest = (int)k - half_way;
  const float scale = as_float((uint)(half_way + 127) << 23), other = as_float((uint)(rest + 127) << 23);
  return fma(r, fma(r, fma(r, exp_tail(r), 0.5f), 1.0f), 1.0f) * scale * other;
}
float VECTORIZED vectorized_exp(float x) {
  const float near = x > 89 ? 89 : x < -104 ? -104 : x, k = nearest(near * 1.44269504f);
  return exp_of(fma(k, 1.90465430e-9f, fma(k, -0.693147182f, near)), k);
}
float VECTORIZED vectorized_exp2(float x) {
  const float near = x > 200 ? 200 : x < -200 ? -200 : x, k = nearest(near);
  return exp_of((near - k) * 0.693147181f, k);
}
float VECTORIZED vectorized_expm1(float x) {
  return fabs(x) < 0.5f ? x * fma(x, fma(x, exp_tail(x), 0.5f), 1.0f) : vectorized_exp(x) - 1;
}
float VECTORIZED vectorized_tanh(float x) {
  const float a = fabs(x), t = vectorized_expm1(a > 20 ? 40 : 2 * a);
  return x != x ? x : vectorized_copysign(t / (t + 2), x);
}

// erf(x) / x of x^2 up to 1; erfc(a) for a of 1/2 and more: exp(-a^2) / (1 + 2 a) times a polynomial in (a - 2) / (a + 2).
float INLINED erf_near(float x) {
  const float z = x * x;
  const float high = fma(fma(7.85385494e-05f, z, -0.000801019168f), z, 0.00518832746f);
  return x * fma(fma(fma(fma(high, z, -0.0268538118f), z, 0.112835851f), z, -0.376126258f), z, 1.12837917f);
}
float INLINED erfc_far(float given) {
  const float a = given > 10.2f ? 10.2f : given, u = (a - 2) / (a + 2);
  const float high = POLYNOMIAL_4(u, -0.0542185712f, -0.00794723224f, 0.00869564158f, 0.000948607519f, -0.00132044733f);
  const float p = fma(fma(fma(fma(high, u, 0.164042295f), u, -0.16603038f), u, -0.092763571f), u, 1.27697838f);
  const float s = as_float(as_uint(a) & 0xfffff000u);  // its square is exact
  return vectorized_exp(-s * s) * vectorized_exp((s - a) * (s + a)) * p / fma(2.0f, a, 1.0f);
}
float VECTORIZED vectorized_erf(float x) {
  const float a = fabs(x);
  return a < 1 ? erf_near(x) : vectorized_copysign(1 - erfc_far(a), x);
}
float VECTORIZED vectorized_erfc(float x) {
  const float a = fabs(x), far = erfc_far(a);
  return a < 0.5f ? 1 - erf_near(x) : x < 0 ? 2 - far : far;
}

float VECTORIZED vectorized_sinh(float x) {
  const float a = fabs(x), t = vectorized_expm1(a), root = vectorized_exp(a * 0.5f);
  return vectorized_copysign(a > 20 ? 0.5f * root * root : 0.5f * (t + t / (t + 1)), x);
}
float VECTORIZED vectorized_cosh(float x) {
  const float a = fabs(x), e = vectorized_exp(a), root = vectorized_exp(a * 0.5f);
  return a > 20 ? 0.5f * root * root : 0.5f * (e + 1 / e);
}
float VECTORIZED vectorized_asinh(float x) {
  const float a = fabs(x), square = a * a;
  const float near = vectorized_log1p(a + square / (1 + sqrt(square + 1)));
  return vectorized_copysign(a > 1e4f ? vectorized_log(a) + 0.693147181f : near, x);
}
float VECTORIZED vectorized_acosh(float x) {
  const float t = x - 1, near = vectorized_log1p(t + sqrt(t * (2 + t)));
  return x < 1 ? NAN : x > 1e4f ? vectorized_log(x) + 0.693147181f : near;
}
float VECTORIZED vectorized_atanh(float x) {
  const float a = fabs(x);
  return vectorized_copysign(0.5f * vectorized_log1p(2 * a / (1 - a)), a > 1 ? NAN : x);
}

// pi / 2 - angle
float INLINED less_than_quarter(float angle) {
  return 1.57079633f - (angle + 4.37113883e-8f);
}
// atan(z) / z of z^2, z up to 1.
float INLINED atan_near(float z) {
  const float w = z * z;
  const float high = POLYNOMIAL_4(w, -0.0837729803f, 0.0575518052f, -0.0308043024f, 0.0107267864f, -0.00175389502f);
  return fma(POLYNOMIAL_4(w, -0.333332836f, 0.199982659f, -0.142619319f, 0.109420247f, high), w * z, z);
}
float VECTORIZED vectorized_atan(float x) {
  const float a = fabs(x), near = atan_near(a > 1 ? 1 / a : a);
  return vectorized_copysign(a > 1 ? less_than_quarter(near) : near, x);
}
float VECTORIZED vectorized_atan2(float y, float x) {
  const float a = fabs(y), b = fabs(x), most = a > b ? a : b, least = a > b ? b : a;
  const float near = atan_near(most == 0 ? 0 : least == INFINITY ? 1 : least / most);
  const float steep = a > b ? less_than_quarter(near) : near;
  const float angle = as_int(x) < 0 ? 3.14159265f - (steep + 8.74227766e-8f) : steep;
  return x != x || y != y ? NAN : vectorized_copysign(angle, y);
}
// asin(x) = x + x^3 P(x^2) up to 1/2; beyond, by the half angle.
float INLINED asin_tail(float w) {
  return fma(POLYNOMIAL_4(w, 0.0750010316f, 0.0445966247f, 0.0311319205f, 0.0170057915f, 0.0339210635f), w, 0.166666663f);
}
float VECTORIZED vectorized_asin(float x) {
  const float a = fabs(x), half_square = 0.5f * (1 - a), root = sqrt(half_square);
  const float w = a > 0.5f ? half_square : a * a, r = a > 0.5f ? root : a, near = fma(r * w, asin_tail(w), r);
  return vectorized_copysign(a > 0.5f ? 1.57079633f - fma(2.0f, near, 4.37113883e-8f) : near, x);
}
float VECTORIZED vectorized_acos(float x) {
  const float a = fabs(x), half_square = 0.5f * (1 - a), root = sqrt(half_square);
  const float w = a > 0.5f ? half_square : a * a, r = a > 0.5f ? root : x, near = fma(r * w, asin_tail(w), r);
  const float far = x < 0 ? 3.14159265f - fma(2.0f, near, 8.74227766e-8f) : 2 * near;
  return a > 0.5f ? far : less_than_quarter(near);
}

#ifdef cl_khr_fp64
#define KEEPS_BUILTIN(f)                          \
  double VECTORIZED vectorized_##f(double x) { \
    return f(x);                                  \
  }
#define KEEPS_BUILTIN_OF_TWO(f)                           \
  double VECTORIZED vectorized_##f(double x, double y) { \
    return f(x, y);                                      \
  }
KEEPS_BUILTIN(exp)
KEEPS_BUILTIN(tanh)
KEEPS_BUILTIN(log)
KEEPS_BUILTIN(log2)
KEEPS_BUILTIN(log10)
KEEPS_BUILTIN(log1p)
KEEPS_BUILTIN(expm1)
KEEPS_BUILTIN(exp2)
KEEPS_BUILTIN(erf)
KEEPS_BUILTIN(erfc)
KEEPS_BUILTIN(sinh)
KEEPS_BUILTIN(cosh)
KEEPS_BUILTIN(asinh)
KEEPS_BUILTIN(acosh)
KEEPS_BUILTIN(atanh)
KEEPS_BUILTIN(atan)
KEEPS_BUILTIN(asin)
KEEPS_BUILTIN(acos)
KEEPS_BUILTIN_OF_TWO(atan2)
KEEPS_BUILTIN_OF_TWO(copysign)
KEEPS_BUILTIN_OF_TWO(hypot)
KEEPS_BUILTIN_OF_TWO(pow)

double INLINED nearest_double(double v) {
  return (v + 6755399441055744.0) - 6755399441055744.0;
}
// In double, whose numbers have room for what float's lose: log2|a| b may be 127, and its error counts as many times.
float VECTORIZED vectorized_hypot(float a, float b) {
  const double x = a, y = b;
  const float root = (float)sqrt(x * x + y * y);
  return fabs(a) == INFINITY || fabs(b) == INFINITY ? INFINITY : root;
}
float VECTORIZED vectorized_pow(float a, float b) {
  // log2(m 2^e) with m between the roots of 1/2 and 2, by the series of atanh.
  const double x = fabs(a);
  const long bits = as_long(x), e = (bits - 0x3fe6a09e667f3bcdL) >> 52;
  const double m = as_double(bits - (e << 52)), s = (m - 1) / (m + 1), w = s * s;
  const double high = fma(fma(fma(1.0 / 15, w, 1.0 / 13), w, 1.0 / 11), w, 1.0 / 9);
  const double series = fma(fma(fma(fma(high, w, 1.0 / 7), w, 1.0 / 5), w, 1.0 / 3), w, 1.0) * s * 2.8853900817779268;
  const double log2_x = x == 0 ? -INFINITY : x == INFINITY ? INFINITY : series + (double)e;
  // 2^y, y cut off where floats end.
  const double whole_y = x == 1 ? 0 : log2_x * b, y = whole_y > 200 ? 200 : whole_y < -200 ? -200 : whole_y;
  const double k = nearest_double(y), f = (y - k) * 0.69314718055994531;
  const double tail = fma(fma(fma(fma(f, 1.0 / 362880, 1.0 / 40320), f, 1.0 / 5040), f, 1.0 / 720), f, 1.0 / 120);
  const double power = fma(fma(fma(fma(fma(tail, f, 1.0 / 24), f, 1.0 / 6), f, 0.5), f, 1.0), f, 1.0);
  const float size = (float)(power * as_double(((long)k + 1023) << 52));
  const bool is_whole = rint(b) == b, odd = is_whole && fabs(b) < 16777216.0f && ((int)b & 1);
  const float result = as_int(a) < 0 && odd ? -size : size;
  return b == 0 || a == 1                   ? 1
         : a != a || b != b                 ? NAN
         : a < 0 && a > -INFINITY && !is_whole ? NAN
                                            : result;
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
