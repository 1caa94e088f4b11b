// Reductions on a GPU. The generator fills the slots; as it stands the file is the sum over the one dimension of
// one tensor. A group has LX x LY work-items. ALONG_R 1: the LX lanes run along the reduced elements and each of
// the LY rows has an output of its own. ALONG_R 0: the lanes run along the outputs, the LY rows share the
// reduced elements. Lanes that share an output meet in local memory in a fixed order. With PARTS 1 the second
// grid dimension splits the reduced elements into parts, whose accumulators go to the workspace for
// reduce_parts.cl.

//$ HEAD
#define V 4
#define U 2
#define LX 256
#define LY 1
#define ALONG_R 1
#define PARTS 0
#define INDEX uint
#define REAL float
//$ END
#include "types.cl"
#include "activation.cl"
#define real REAL

#if ALONG_R
#define SHARE LX
#define STEP 1
#else
#define SHARE LY
#define STEP LX
#endif

__kernel __attribute__((reqd_work_group_size(LX* LY, 1, 1))) void reduce(
    //$ PARAMETERS
    __global const float* x0_p, long x0_o, __global float* y0_p, long y0_o, INDEX r0, INDEX x0_u0,
    //$ END
    __global real* ws_p, long ws_o, INDEX kept, INDEX reduced, INDEX part) {
  const int item = (int)get_local_id(0), lx = item % LX, ly = item / LX;
#if ALONG_R
  const INDEX k = (INDEX)get_group_id(0) * LY + ly;
  const int lane = lx;
#else
  const INDEX k = (INDEX)get_group_id(0) * LX + lx;
  const int lane = ly;
#endif
  const INDEX begin = (INDEX)get_group_id(1) * part, end = min(begin + part, reduced);
  //$ ACCUMULATORS
  real a0;
  __local real L0[LX * LY];
  a0 = 0;
  //$ END
  if (k < kept) {
    //$ BASE
    x0_p += x0_o;
    //$ END
    for (INDEX r = begin + lane * V; r < end; r += SHARE * V * U) {
      //$ ARRAYS
      float X0[U * V];
      //$ END
#pragma unroll
      for (int u = 0; u < U; u++) {
        const INDEX i = r + u * (SHARE * V);
        if (i < end) {
          //$ LOAD
          VLOAD_f32(x0_p, i, X0 + u * V);
          //$ END
        }
      }
#pragma unroll
      for (int e = 0; e < U * V; e++) {
        if (r + (e / V) * (SHARE * V) < end) {
          //$ ACCUMULATE
          const float x0 = X0[e];
          a0 += x0;
          //$ END
        }
      }
    }
  }
#if SHARE > 1
#pragma unroll
  for (int half_ = SHARE / 2; half_ > 0; half_ /= 2) {
    //$ PUBLISH
    L0[item] = a0;
    //$ END
    barrier(CLK_LOCAL_MEM_FENCE);
    if (lane < half_) {
      const int other = item + half_ * STEP;
      //$ COMBINE
      const real b0 = L0[other];
      a0 += b0;
      //$ END
    }
    barrier(CLK_LOCAL_MEM_FENCE);
  }
#endif
  if (k < kept && lane == 0) {
#if PARTS
    ws_p += ws_o;
    const ulong parts = get_num_groups(1), p = get_group_id(1);
    //$ PARTIAL
    ws_p[(0 * parts + p) * kept + k] = a0;
    //$ END
#else
    //$ FINISH
    float y0;
    y0 = a0;
    STORE_f32(y0_p, y0_o, y0);
    //$ END
#endif
  }
}
