// The second pass of a reduction in parts: combines the parts' accumulators, which lie in the workspace as
// [accumulator][part][output], and finishes. LX lanes share an output, a group has LY outputs.

//$ HEAD
#define LX 32
#define LY 8
#define INDEX uint
#define REAL float
#define SLOT uint
//$ END
#include "lib/types.cl"
#include "lib/activation.cl"
#define real REAL
// Accumulator a of part p and output k in the workspace.
#define PART(T, a, p) (((__global const T*)(ws_p + (ulong)(a)*parts * kept))[(ulong)(p)*kept + k])

__kernel __attribute__((reqd_work_group_size(LX* LY, 1, 1))) void reduce_parts(
    //$ PARAMETERS
    __global float* y0_p, long y0_o,
    //$ END
    __global const SLOT* ws_p, long ws_o, INDEX kept, INDEX parts) {
  const int item = (int)get_local_id(0), lane = item % LX;
  const INDEX k = (INDEX)get_group_id(0) * LY + item / LX;
  ws_p += ws_o;
  //$ ACCUMULATORS
  real a0;
  __local real L0[LX * LY];
  a0 = 0;
  //$ END
  if (k < kept) {
    for (INDEX q = lane; q < parts; q += LX) {
      //$ COMBINE_PART
      const real b0 = PART(real, 0, q);
      a0 += b0;
      //$ END
    }
  }
#if LX > 1
  for (int half_ = LX / 2; half_ > 0; half_ /= 2) {
    //$ PUBLISH
    L0[item] = a0;
    //$ END
    barrier(CLK_LOCAL_MEM_FENCE);
    if (lane < half_) {
      const int other = item + half_;
      //$ COMBINE
      const real b0 = L0[other];
      a0 += b0;
      //$ END
    }
    barrier(CLK_LOCAL_MEM_FENCE);
  }
#endif
  if (k < kept && lane == 0) {
    //$ FINISH
    float y0;
    y0 = a0;
    STORE_f32(y0_p, y0_o, y0);
    //$ END
  }
}
