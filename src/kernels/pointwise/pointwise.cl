// Pointwise expressions on a GPU. The generator fills the slots; as it stands the file is the kernel of y0 = x0
// over one dimension. A work-item takes U accesses of V neighbouring elements, LOCAL accesses apart; all loads
// are issued before the first use.

//$ HEAD
#define V 4
#define U 2
#define LOCAL 256
#define INDEX uint
#define REAL float
//$ END
#include "lib/types.cl"
#include "lib/activation.cl"
#include "lib/arithmetic.cl"
#include "lib/special.cl"
#define real REAL

__kernel __attribute__((reqd_work_group_size(LOCAL, 1, 1))) void pointwise(
    //$ PARAMETERS
    __global const float* x0_p, long x0_o, __global float* y0_p, long y0_o, INDEX n0, INDEX x0_t0, INDEX y0_t0,
    //$ END
    INDEX count) {
  const INDEX first = (INDEX)get_group_id(0) * (LOCAL * U) + (INDEX)get_local_id(0);
  //$ ARRAYS
  float X0[U * V];
  float Y0[U * V];
  x0_p += x0_o;
  y0_p += y0_o;
  //$ END
#pragma unroll
  for (int u = 0; u < U; u++) {
    const INDEX i = (first + (INDEX)(u * LOCAL)) * V;
    if (i < count) {
      //$ LOAD
      VLOAD_f32(x0_p, i, X0 + u * V);
      //$ END
    }
  }
#pragma unroll
  for (int u = 0; u < U; u++) {
    const INDEX i = (first + (INDEX)(u * LOCAL)) * V;
    if (i < count) {
#pragma unroll
      for (int e = u * V; e < u * V + V; e++) {
        //$ BODY
        const float x0 = X0[e];
        float y0;
        y0 = x0;
        Y0[e] = y0;
        //$ END
      }
      //$ STORE
      VSTORE_f32(y0_p, i, Y0 + u * V);
      //$ END
    }
  }
}
