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

//$ HEAD
#define INDEX uint
#define REAL float
//$ END
#include "lib/types.cl"
#include "lib/math_cpu_quick.cl"
#include "lib/activation.cl"
#include "lib/arithmetic.cl"
#include "lib/special.cl"
#define real REAL

#if defined(QUICK) || defined(STAGED)
#define LENGTH 512
#else
#define LENGTH run
#endif

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void pointwise(
    //$ PARAMETERS
    __global const float* x0_p, long x0_o, __global float* y0_p, long y0_o, INDEX n0, INDEX x0_t0, INDEX y0_t0,
    //$ END
    INDEX count, INDEX chunk) {
  BRING_CONSTANTS_IN
  INDEX i = (INDEX)get_group_id(0) * chunk;
  const INDEX end = min(i + chunk, count);
  while (i < end) {
    //$ POSITION
    const INDEX c0 = i;
    const INDEX run = end - i;
    __global const float* x0_q = x0_p + x0_o + c0;
    __global float* y0_q = y0_p + y0_o + c0;
    //$ END
    const INDEX length = min(run, (INDEX)LENGTH);
    //$ COLLECT
    //$ END
#ifdef QUICK
    {
      int any_far = 0, *math_far = &any_far;
      INDEPENDENT_ROUNDS
      for (INDEX j = 0; j < length; j++) {
        //$ BODY
        const float x0 = LOAD_f32(x0_q, j);
        float y0;
        y0 = x0;
        //$ END
      }
      if (any_far == 0) {
        INDEPENDENT_ROUNDS
        for (INDEX j = 0; j < length; j++) {
          //$ BODY
          const float x0 = LOAD_f32(x0_q, j);
          float y0;
          y0 = x0;
          //$ END
          //$ STORES
          STORE_f32(y0_q, j, y0);
          //$ END
        }
        //$ SPREAD
        //$ END
        i += length;
        continue;
      }
    }
#endif
    INDEPENDENT_ROUNDS
    for (INDEX j = 0; j < length; j++) {
      //$ BODY
      const float x0 = LOAD_f32(x0_q, j);
      float y0;
      y0 = x0;
      //$ END
      //$ STORES
      STORE_f32(y0_q, j, y0);
      //$ END
    }
    //$ SPREAD
    //$ END
    i += length;
  }
}
