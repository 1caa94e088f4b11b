// Pointwise expressions on a CPU. The generator fills the slots; as it stands the file is the kernel of y0 = x0
// over one dimension. A work-group of one item takes a chunk of elements, run by run along the innermost
// dimension, in a loop that compilers turn into vector instructions (measured: 90 % of an explicit float16
// loop's rate).

#define INDEX uint
#define REAL float
#define REAL_LOWEST (-INFINITY)
#define REAL_HIGHEST INFINITY
// types.cl

// math_cpu.cl

// activation.cl

// For expressions of generated kernels. REAL: float, or double with DOUBLE_REAL.

#ifndef REAL
#define REAL float
#endif

#ifndef INTEGER_REAL
// The normal distribution's function, of v and e = exp(-v * v / 2): with a = |v| it is e t Q(t) at -a, where t is
// 1 / (1 + 0.35 a) and Q a least-squares fit, weighted so that the largest relative error is smallest, 3.2e-8.
REAL normal_cdf(REAL v, REAL e) {
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

#define real REAL

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void pointwise(
    __global const float* x0_p, long x0_o,
    __global const float* x1_p, long x1_o,
    __global float* y0_p, long y0_o,
    INDEX n0, INDEX n1, INDEX n2, 
    INDEX x0_t0, INDEX x0_t1, INDEX x0_t2, 
    INDEX x1_t0, INDEX x1_t1, INDEX x1_t2, 
    INDEX y0_t0, INDEX y0_t1, INDEX y0_t2, 
    INDEX count, INDEX chunk) {
  INDEX i = (INDEX)get_group_id(0) * chunk;
  const INDEX end = min(i + chunk, count);
  while (i < end) {
    INDEX c_rest = i;
    const INDEX c2 = c_rest % n2;
    c_rest /= n2;
    const INDEX c1 = c_rest % n1;
    c_rest /= n1;
    const INDEX c0 = c_rest;
    const INDEX run = min(n2 - c2, end - i);
    __global const float* x0_q = x0_p + x0_o + c0 * x0_t0 + c1 * x0_t1 + c2;
    __global const float* x1_q = x1_p + x1_o + c0 * x1_t0 + c1 * x1_t1;
    __global float* y0_q = y0_p + y0_o + c0 * y0_t0 + c1 * y0_t1 + c2;
    INDEPENDENT_ROUNDS
    for (INDEX j = 0; j < run; j++) {
      const float x0 = LOAD_f32(x0_q, j);
      const float x1 = LOAD_f32(x1_q, 0);
      float y0;
      {
      y0 = x0 + x1;
      }
      STORE_f32(y0_q, j, y0);
    }
    i += run;
  }
}
