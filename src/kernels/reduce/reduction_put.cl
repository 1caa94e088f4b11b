// The gradient of a reduction that selects one element: dx, which is 0, gets dy where the index says. The generator
// (reduction_put.cpp) fills the slots; as it stands the file is for a row of one tensor.

//$ HEAD
#define DY float
#define LOAD_DY LOAD_f32
#define INDEX_T long
#define DX float
#define STORE_DX STORE_f32
//$ END
#include "lib/types.cl"

__kernel void reduction_put(__global const DY* dy_p, long dy_o, __global const INDEX_T* index_p, long index_o,
                            __global DX* dx_p, long dx_o,
                            //$ PARAMETERS
                            long m0, long v0, long u0,
                            //$ END
                            long kept, long reduced) {
  const long k = (long)get_global_id(0);
  if (k >= kept) return;
  long rest = k, dy_at = dy_o, index_at = index_o, dx_at = dx_o;
  //$ KEPT
  //$ END
  const long i = index_p[index_at];
  // An index that is none is no reason to write elsewhere.
  if (i < 0 || i >= reduced) return;
  //$ REDUCED
  dx_at += i / v0 % m0 * u0;
  //$ END
  STORE_DX(dx_p, dx_at, LOAD_DY(dy_p, dy_at));
}
