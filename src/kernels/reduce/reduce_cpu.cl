// Reductions on a CPU. The generator fills the slots; as it stands the file is the sum over the one dimension of
// one tensor. A work-group of one item keeps LANES accumulators in an array that compilers hold in vector
// registers. ALONG_R 1: the lanes take neighbouring reduced elements of one output after another and are
// combined in a fixed order. ALONG_R 0: the lanes are LANES neighbouring outputs. With PARTS 1 the second grid
// dimension splits the reduced elements into parts for reduce_parts.cl. Along reduced elements with gaps between them a run has at most
// PIECE: they come to an array first. With LEVELS, a lane's accumulators take BLOCK elements, or up to twice as many, and are then
// added to those of the lowest level; 2^LEVEL_BITS such sums are one of the next level. So an error of rounding grows
// as the logarithm of the number of elements.

//$ HEAD
#define LANES 16
#define ALONG_R 1
#define PARTS 0
#define BLOCK 64
#define LEVELS 2
#define LEVEL_BITS 5
#define INDEX uint
#define REAL float
#define SLOT uint
//$ END
#include "lib/types.cl"
#include "lib/math_cpu_quick.cl"
#include "lib/activation.cl"
#include "lib/arithmetic.cl"
#include "lib/special.cl"
#define real REAL
#define PIECE 512
// Accumulator a of part p and output k in the workspace, [accumulator][part][output].
#define PART(T, a, p) (((__global T*)(ws_p + ws_o + (ulong)(a)*parts * kept))[(p)*kept + k])

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void reduce(
    //$ PARAMETERS
    __global const float* x0_p, long x0_o, __global float* y0_p, long y0_o, INDEX r0, INDEX x0_u0,
    //$ END
    __global SLOT* ws_p, long ws_o, INDEX kept, INDEX reduced, INDEX part, INDEX chunk) {
  BRING_CONSTANTS_IN
  const INDEX begin = (INDEX)get_group_id(1) * part, end = min(begin + part, reduced);
  const ulong parts = get_num_groups(1), p = get_group_id(1);
  //$ ACCUMULATORS
  real A0[LANES];
  //$ END
#if ALONG_R
  const INDEX k_begin = (INDEX)get_group_id(0) * chunk, k_end = min(k_begin + chunk, kept);
  for (INDEX k = k_begin; k < k_end; k++) {
    //$ BASE
    __global const float* x0_b = x0_p + x0_o;
    //$ END
#else
  // A work-group has `chunk` blocks of LANES outputs along the innermost kept dimension.
  //$ BLOCKS
  const INDEX all = (kept + LANES - 1) / LANES;
  //$ END
  const INDEX block_begin = (INDEX)get_group_id(0) * chunk, block_end = min(block_begin + chunk, all);
  for (INDEX block = block_begin; block < block_end; block++) {
    //$ BLOCK
    const INDEX k_first = block * LANES;
    const int lanes = (int)min((INDEX)LANES, kept - k_first);
    __global const float* x0_b = x0_p + x0_o + k_first;
    //$ END
#endif
    for (int l = 0; l < LANES; l++) {
      //$ INIT
      real a0;
      a0 = 0;
      A0[l] = a0;
      //$ END
    }
#if LEVELS
    //$ LEVELS
    real S0[LEVELS * LANES];
    //$ END
    uint blocks_done = 0;
    for (int at = 0; at < LEVELS * LANES; at++) {
      //$ INIT_LEVEL
      real a0;
      a0 = 0;
      S0[at] = a0;
      //$ END
    }
#endif
    for (INDEX r = begin; r < end;) {
#if ALONG_R
      for (INDEX taken = 0; r < end && taken < BLOCK;) {
        //$ POSITION
        INDEX run = end - r;
        __global const float* x0_q = x0_b + r;
        //$ END
        run = min(run, (INDEX)(BLOCK * LANES));
        //$ COLLECT
        //$ END
        INDEX j = 0;
        for (; j + LANES <= run; j += LANES) {
          for (int l = 0; l < LANES; l++) {
            //$ ACCUMULATE
            const float x0 = LOAD_f32(x0_q, j + l);
            real a0 = A0[l];
            a0 += x0;
            A0[l] = a0;
            //$ END
          }
        }
        for (int l = 0; l < (int)(run - j); l++) {
          //$ ACCUMULATE
          const float x0 = LOAD_f32(x0_q, j + l);
          real a0 = A0[l];
          a0 += x0;
          A0[l] = a0;
          //$ END
        }
        r += run;
        taken += (run + LANES - 1) / LANES;
      }
#else
      for (const INDEX stop = min(r + BLOCK, end); r < stop; r++) {
        //$ ROW
        __global const float* x0_q = x0_b + r * x0_u0;
        //$ END
        if (lanes == LANES) {
          for (int l = 0; l < LANES; l++) {
            //$ ACCUMULATE_ROW
            const float x0 = LOAD_f32(x0_q, l);
            real a0 = A0[l];
            a0 += x0;
            A0[l] = a0;
            //$ END
          }
        } else {
          for (int l = 0; l < lanes; l++) {
            //$ ACCUMULATE_ROW
            const float x0 = LOAD_f32(x0_q, l);
            real a0 = A0[l];
            a0 += x0;
            A0[l] = a0;
            //$ END
          }
        }
      }
#endif
#if LEVELS
      blocks_done++;
      for (int s = 0; s < LEVELS; s++) {
        for (int l = 0; l < LANES; l++) {
          const int at = s * LANES + l;
          //$ FOLD
          real a0 = S0[at];
          const real b0 = A0[l];
          a0 += b0;
          S0[at] = a0;
          //$ END
        }
        if (s + 1 == LEVELS || blocks_done % (1u << LEVEL_BITS * (s + 1)) != 0) break;
        for (int l = 0; l < LANES; l++) {
          const int at = s * LANES + l;
          //$ RAISE
          A0[l] = S0[at];
          real a0;
          a0 = 0;
          S0[at] = a0;
          //$ END
        }
      }
      for (int l = 0; l < LANES; l++) {
        //$ INIT
        real a0;
        a0 = 0;
        A0[l] = a0;
        //$ END
      }
#endif
    }
#if LEVELS
    for (int s = LEVELS - 1; s >= 0; s--)
      for (int l = 0; l < LANES; l++) {
        const int at = s * LANES + l;
        //$ COLLECT_LEVEL
        real a0 = A0[l];
        const real b0 = S0[at];
        a0 += b0;
        A0[l] = a0;
        //$ END
      }
#endif
#if ALONG_R
    for (int half_ = LANES / 2; half_ > 0; half_ /= 2)
      for (int l = 0; l < half_; l++) {
        const int other = l + half_;
        //$ COMBINE
        real a0 = A0[l];
        const real b0 = A0[other];
        a0 += b0;
        A0[l] = a0;
        //$ END
      }
    const int l = 0;
#else
    for (int l = 0; l < lanes; l++) {
      const INDEX k = k_first + l;
#endif
#if PARTS
    //$ PARTIAL
    PART(real, 0, p) = A0[l];
    //$ END
#else
    //$ FINISH
    const real a0 = A0[l];
    float y0;
    y0 = a0;
    STORE_f32(y0_p, y0_o, y0);
    //$ END
#endif
#if !ALONG_R
    }
#endif
  }
}
