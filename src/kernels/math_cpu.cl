// Mathematical functions of float for kernels on CPUs, without branches and calls, so that a loop over them becomes vector
// instructions: of the builtin ones compilers there only have exp, tanh and sqrt so, and call the others element by element.
// double keeps the builtin ones. Errors are 1 to 3 units in the last place, of erfc 5 (tests/test_math_cpu.cpp).
//
// Polynomials are least-squares fits, weighted so that the largest error is smallest.

#define VECTORIZED __attribute__((overloadable))
#define POLYNOMIAL_4(x, a, b, c, d, e) fma(fma(fma(fma(e, x, d), x, c), x, b), x, a)

// (log(1 + m) - m + m^2 / 2) / m^3 for 1 + m between the roots of 1/2 and 2, up to 3e-8.
float log_tail(float m) {
  const float high = fma(fma(fma(0.0733238841f, m, -0.116598651f), m, 0.116346851f), m, -0.123967109f);
  return POLYNOMIAL_4(m, 0.333333313f, -0.249999812f, 0.200006881f, -0.166691505f, 0.142511544f) +
         m * m * (m * m) * m * high;
}
// What log does, of a positive number: x = 2^*e (1 + m).
float log_parts(float x, float* m) {
  const bool denormal = x < 1.17549435e-38f;
  const uint bits = as_uint(denormal ? x * 8388608.0f : x);
  const int e = (int)(bits - 0x3f3504f3u) >> 23;
  *m = as_float(bits - ((uint)e << 23)) - 1.0f;
  return (float)(e - (denormal ? 23 : 0));
}
// `value` is the logarithm of a positive finite x.
float log_of(float x, float value) {
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

float VECTORIZED vectorized_expm1(float x) {
  const float tail = POLYNOMIAL_4(x, 0.166666669f, 0.0416661804f, 0.00833319286f, 0.00139666191f, 0.000199621826f);
  return fabs(x) < 0.5f ? x * fma(x, fma(x, tail, 0.5f), 1.0f) : exp(x) - 1;
}
float VECTORIZED vectorized_exp2(float x) {
  const float near = x > 200 ? 200 : x < -200 ? -200 : x, whole = rint(near);
  const int half_way = (int)whole >> 1, rest = (int)whole - half_way;
  const float result = exp((near - whole) * 0.693147181f) * as_float((uint)(half_way + 127) << 23) *
                       as_float((uint)(rest + 127) << 23);
  return x != x ? x : result;
}

// erf(x) / x of x^2 up to 1; erfc(a) for a of 1/2 and more: exp(-a^2) / (1 + 2 a) times a polynomial in (a - 2) / (a + 2).
float erf_near(float x) {
  const float z = x * x;
  const float high = fma(fma(7.85385494e-05f, z, -0.000801019168f), z, 0.00518832746f);
  return x * fma(fma(fma(fma(high, z, -0.0268538118f), z, 0.112835851f), z, -0.376126258f), z, 1.12837917f);
}
float erfc_far(float given) {
  const float a = given > 10.2f ? 10.2f : given, u = (a - 2) / (a + 2);
  const float high = POLYNOMIAL_4(u, -0.0542185712f, -0.00794723224f, 0.00869564158f, 0.000948607519f, -0.00132044733f);
  const float p = fma(fma(fma(fma(high, u, 0.164042295f), u, -0.16603038f), u, -0.092763571f), u, 1.27697838f);
  const float s = as_float(as_uint(a) & 0xfffff000u);  // its square is exact
  return exp(-s * s) * exp((s - a) * (s + a)) * p / fma(2.0f, a, 1.0f);
}
float VECTORIZED vectorized_erf(float x) {
  const float a = fabs(x);
  return a < 1 ? erf_near(x) : copysign(1 - erfc_far(a), x);
}
float VECTORIZED vectorized_erfc(float x) {
  const float a = fabs(x), far = erfc_far(a);
  return a < 0.5f ? 1 - erf_near(x) : x < 0 ? 2 - far : far;
}

float VECTORIZED vectorized_sinh(float x) {
  const float a = fabs(x), t = vectorized_expm1(a), root = exp(a * 0.5f);
  return copysign(a > 20 ? 0.5f * root * root : 0.5f * (t + t / (t + 1)), x);
}
float VECTORIZED vectorized_cosh(float x) {
  const float a = fabs(x), e = exp(a), root = exp(a * 0.5f);
  return a > 20 ? 0.5f * root * root : 0.5f * (e + 1 / e);
}
float VECTORIZED vectorized_asinh(float x) {
  const float a = fabs(x), square = a * a;
  const float near = vectorized_log1p(a + square / (1 + sqrt(square + 1)));
  return copysign(a > 1e4f ? vectorized_log(a) + 0.693147181f : near, x);
}
float VECTORIZED vectorized_acosh(float x) {
  const float t = x - 1, near = vectorized_log1p(t + sqrt(t * (2 + t)));
  return x < 1 ? NAN : x > 1e4f ? vectorized_log(x) + 0.693147181f : near;
}
float VECTORIZED vectorized_atanh(float x) {
  const float a = fabs(x);
  return copysign(0.5f * vectorized_log1p(2 * a / (1 - a)), a > 1 ? NAN : x);
}

#ifdef cl_khr_fp64
#define KEEPS_BUILTIN(f)                          \
  double VECTORIZED vectorized_##f(double x) { \
    return f(x);                                  \
  }
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
#endif

// They are macros already with some compilers.
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
