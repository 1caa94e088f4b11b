// Pointwise expressions on a CPU. The generator fills the slots; as it stands the file is the kernel of y0 = x0
// over one dimension. A work-group of one item takes a chunk of elements, run by run along the innermost
// dimension, in a loop that compilers turn into vector instructions (measured: 90 % of an explicit float16
// loop's rate).
//
// QUICK: the expression calls functions that have a quick form. Pieces of up to 512 elements are
// then looked through first, without storing anything, and take it where no argument is too far for it
// (math_cpu_quick.cl).
//
// STAGED: some operands have gaps. Loops over them stay scalar, so their elements come from and go to arrays of a piece, in loops of
// their own.

#define INDEX uint
#define OFFSET int
#define REAL float
#define REAL_LOWEST (-INFINITY)
#define REAL_HIGHEST INFINITY
// types.cl

// math_cpu_quick.cl

// activation.cl

// arithmetic.cl

// special.cl

#define real REAL

#if defined(QUICK) || defined(STAGED)
#define LENGTH 512
#else
#define LENGTH run
#endif

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void pointwise(
    __global const float* x0_p, long x0_o,
    __global const float* x1_p, long x1_o,
    __global float* y0_p, long y0_o,
    INDEX n0, INDEX n1, INDEX n2, 
    INDEX x0_t0, INDEX x0_t1, INDEX x0_t2, 
    INDEX x1_t0, INDEX x1_t1, INDEX x1_t2, 
    INDEX y0_t0, INDEX y0_t1, INDEX y0_t2, 
    INDEX count, INDEX chunk) {
  BRING_CONSTANTS_IN
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
    const INDEX length = min(run, (INDEX)LENGTH);
#ifdef QUICK
    {
      int any_far = 0, *math_far = &any_far;
      INDEPENDENT_ROUNDS
      for (INDEX j = 0; j < length; j++) {
        const float x0 = LOAD_f32(x0_q, j);
        const float x1 = LOAD_f32(x1_q, 0);
        float y0;
        {
        y0 = x0 + x1;
        }
      }
      if (any_far == 0) {
        INDEPENDENT_ROUNDS
        for (INDEX j = 0; j < length; j++) {
          const float x0 = LOAD_f32(x0_q, j);
          const float x1 = LOAD_f32(x1_q, 0);
          float y0;
          {
          y0 = x0 + x1;
          }
          STORE_f32(y0_q, j, y0);
        }
        i += length;
        continue;
      }
    }
#endif
    INDEPENDENT_ROUNDS
    for (INDEX j = 0; j < length; j++) {
      const float x0 = LOAD_f32(x0_q, j);
      const float x1 = LOAD_f32(x1_q, 0);
      float y0;
      {
      y0 = x0 + x1;
      }
      STORE_f32(y0_q, j, y0);
    }
    i += length;
  }
}
