// Reductions on a GPU. The generator fills the slots; as it stands the file is the sum over the one dimension of
// one tensor. A group has LX x LY work-items. ALONG_R 1: the LX lanes run along the reduced elements, V at a time, and
// each of the LY rows has an output of its own. ALONG_R 0: the lanes run along the outputs, V each, the LY rows
// share the reduced elements. Lanes that share outputs meet in local memory in a fixed order. With PARTS 1 the
// second grid dimension splits the reduced elements into parts, whose accumulators go to the workspace for
// reduce_parts.cl. With LEVELS, a lane's accumulators take BLOCK elements each and are then added to those of the lowest level;
// 2^LEVEL_BITS such sums are one of the next level. So an error of rounding grows as the logarithm of the number of elements.

//$ HEAD
#define V 4
#define U 2
#define LX 256
#define LY 1
#define ALONG_R 1
#define PARTS 0
#define BLOCK 128
#define LEVELS 2
#define LEVEL_BITS 5
#define INDEX uint
#define REAL float
#define SLOT uint
//$ END
#include "lib/types.cl"
#include "lib/activation.cl"
#include "lib/arithmetic.cl"
#include "lib/special.cl"
#define real REAL
// Accumulator a of part p and output k in the workspace, [accumulator][part][output].
#define PART(T, a, p) (((__global T*)(ws_p + (ulong)(a)*parts * kept))[(p)*kept + k])

// SHARE lanes, STEP apart, share OUTPUTS outputs; each takes RUN neighbouring reduced elements at a time.
#if ALONG_R
#define SHARE LX
#define STEP 1
#define OUTPUTS 1
#define RUN V
#else
#define SHARE LY
#define STEP LX
#define OUTPUTS V
#define RUN 1
#endif

__kernel __attribute__((reqd_work_group_size(LX* LY, 1, 1))) void reduce(
    //$ PARAMETERS
    __global const float* x0_p, long x0_o, __global float* y0_p, long y0_o, INDEX r0, INDEX x0_u0,
    //$ END
    __global SLOT* ws_p, long ws_o, INDEX kept, INDEX reduced, INDEX part) {
  const int item = (int)get_local_id(0), lx = item % LX, ly = item / LX;
#if ALONG_R
  const INDEX first = (INDEX)get_group_id(0) * LY + ly;
  const int lane = lx;
#else
  const INDEX first = ((INDEX)get_group_id(0) * LX + lx) * V;
  const int lane = ly;
#endif
  const INDEX begin = (INDEX)get_group_id(1) * part, end = min(begin + part, reduced);
  //$ ACCUMULATORS
  real A0[OUTPUTS];
  //$ END
#if SHARE > 1
  //$ SHARED
  __local real L0[OUTPUTS * LX * LY];
  //$ END
#endif
#pragma unroll
  for (int v = 0; v < OUTPUTS; v++) {
    //$ INIT
    real a0;
    a0 = 0;
    A0[v] = a0;
    //$ END
  }
  if (first < kept) {
    //$ BASE
    x0_p += x0_o;
    //$ END
#if LEVELS
    //$ LEVELS
    real S0[LEVELS * OUTPUTS];
    //$ END
    uint blocks_done = 0;
#pragma unroll
    for (int at = 0; at < LEVELS * OUTPUTS; at++) {
      //$ INIT_LEVEL
      real a0;
      a0 = 0;
      S0[at] = a0;
      //$ END
    }
#endif
    for (INDEX r = begin + lane * RUN; r < end;) {
      for (const INDEX stop = LEVELS ? min(r + BLOCK * SHARE, end) : end; r < stop; r += SHARE * RUN * U) {
        //$ ARRAYS
        float X0[U * V];
        //$ END
#pragma unroll
        for (int u = 0; u < U; u++) {
          const INDEX i = r + u * (SHARE * RUN);
          if (i < end) {
            //$ LOAD
            VLOAD_f32(x0_p, i, X0 + u * V);
            //$ END
          }
        }
#pragma unroll
        for (int u = 0; u < U; u++) {
          if (r + u * (SHARE * RUN) < end) {
#pragma unroll
            for (int e = u * V; e < u * V + V; e++) {
              const int v = e % OUTPUTS;
              //$ ACCUMULATE
              const float x0 = X0[e];
              real a0 = A0[v];
              a0 += x0;
              A0[v] = a0;
              //$ END
            }
          }
        }
      }
#if LEVELS
      blocks_done++;
#pragma unroll
      for (int s = 0; s < LEVELS; s++) {
#pragma unroll
        for (int v = 0; v < OUTPUTS; v++) {
          const int at = s * OUTPUTS + v;
          //$ FOLD
          real a0 = S0[at];
          const real b0 = A0[v];
          a0 += b0;
          S0[at] = a0;
          //$ END
        }
        if (s + 1 == LEVELS || blocks_done % (1u << LEVEL_BITS * (s + 1)) != 0) break;
#pragma unroll
        for (int v = 0; v < OUTPUTS; v++) {
          const int at = s * OUTPUTS + v;
          //$ RAISE
          A0[v] = S0[at];
          real a0;
          a0 = 0;
          S0[at] = a0;
          //$ END
        }
      }
#pragma unroll
      for (int v = 0; v < OUTPUTS; v++) {
        //$ INIT
        real a0;
        a0 = 0;
        A0[v] = a0;
        //$ END
      }
#endif
    }
#if LEVELS
#pragma unroll
    for (int s = LEVELS - 1; s >= 0; s--) {
#pragma unroll
      for (int v = 0; v < OUTPUTS; v++) {
        const int at = s * OUTPUTS + v;
        //$ COLLECT_LEVEL
        real a0 = A0[v];
        const real b0 = S0[at];
        a0 += b0;
        A0[v] = a0;
        //$ END
      }
    }
#endif
  }
#if SHARE > 1
#pragma unroll
  for (int half_ = SHARE / 2; half_ > 0; half_ /= 2) {
#pragma unroll
    for (int v = 0; v < OUTPUTS; v++) {
      //$ PUBLISH
      L0[v * (LX * LY) + item] = A0[v];
      //$ END
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (lane < half_) {
#pragma unroll
      for (int v = 0; v < OUTPUTS; v++) {
        const int other = v * (LX * LY) + item + half_ * STEP;
        //$ COMBINE
        real a0 = A0[v];
        const real b0 = L0[other];
        a0 += b0;
        A0[v] = a0;
        //$ END
      }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
  }
#endif
  if (first < kept && lane == 0) {
#if PARTS
    ws_p += ws_o;
    const ulong parts = get_num_groups(1), p = get_group_id(1);
#pragma unroll
    for (int v = 0; v < OUTPUTS; v++) {
      const INDEX k = first + v;
      //$ PARTIAL
      PART(real, 0, p) = A0[v];
      //$ END
    }
#else
    //$ WHERE
    float Y0[OUTPUTS];
    //$ END
#pragma unroll
    for (int v = 0; v < OUTPUTS; v++) {
      //$ FINISH
      const real a0 = A0[v];
      float y0;
      y0 = a0;
      Y0[v] = y0;
      //$ END
    }
    //$ STORE
    STORE_f32(y0_p, y0_o, Y0[0]);
    //$ END
#endif
  }
}
